"""The verdict in a stored row, as every reader gets it."""

from __future__ import annotations

from firstfault.model import verdict as v
from firstfault.report.masking import masked


def verdict_in(body: bytes) -> v.Verdict:
    """The verdict in ``body``, masked by the forms and patterns of today.

    It was masked before it was stored; a pattern that a site has added since, or a newer
    version's form, holds for it all the same. Raises msgspec.DecodeError for what is no verdict.
    """
    return masked(v.decode(body))
