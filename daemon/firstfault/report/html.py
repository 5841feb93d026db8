"""The report as one self-contained HTML page: no script, nothing fetched, every value escaped.

Or as a part of another page (`body`), which needs nothing but the style of `styles`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

import msgspec

import firstfault
from firstfault.model import verdict as v
from firstfault.report import wording as w
from firstfault.report.memory_picture import NOTE, memory_picture
from firstfault.report.outline import outline
from firstfault.report.page import page
from firstfault.report.sections import Limits
from firstfault.report.timeline import picture

LIMITS = Limits(items=25, quote=1000, phrase=500)
_HREF = re.compile(r"(https?://|/(?!/)|\./|\?|#)[\x21-\x7e]*")


class Link(msgspec.Struct, frozen=True):
    """A link at the foot of the page: ``href`` is an http(s) URL or a path on the same server."""

    label: str
    href: str


def render(
    verdict: v.Verdict,
    *,
    generated_at: dt.datetime | None = None,
    revision: int = 1,
    links: Sequence[Link] = (),
) -> str:
    """The page for ``verdict``, as text to be written in UTF-8.

    ``generated_at`` (aware) is shown if given: without it the page depends on the verdict alone.
    It needs no more than ``style-src 'unsafe-inline'`` of a Content-Security-Policy and carries
    such a policy itself. Raises ValueError for a link that is not http, https or a local path.
    """
    return page("report.html").render(
        **_content(verdict, links),
        generated_at=None if generated_at is None else w.moment(generated_at),
        revision=revision,
        version=firstfault.__version__,
    )


def body(verdict: v.Verdict, *, links: Sequence[Link] = ()) -> str:
    """The report as one element, ``<div class="report">``, to stand in a page of the product's.

    It begins with the page's ``h1``, needs the style sheet of `styles`, and holds neither script
    nor style: ``style-src 'self'`` is enough. Raises ValueError as `render` does.
    """
    return page("report-body.html").render(**_content(verdict, links))


def styles() -> str:
    """The style sheet of `body`: no rule of it reaches out of ``.report``, but for the colours
    that ``.report-page`` may have, too."""
    return page("report.css").render()


def _content(verdict: v.Verdict, links: Sequence[Link]) -> dict[str, object]:
    for link in links:
        if not _HREF.fullmatch(link.href):
            raise ValueError(f"a report links to http, https or a path, not {link.href!r}")
    return {
        "said": outline(_without_what_is_drawn(verdict), LIMITS),
        "picture": picture(verdict),
        "memory": memory_picture(verdict.memory),
        "links": links,
    }


def _without_what_is_drawn(verdict: v.Verdict) -> v.Verdict:
    if verdict.memory is None or not verdict.memory.holders:
        return verdict
    said = f"{NOTE} on {verdict.memory.host}:" if verdict.memory.host else f"{NOTE}:"
    notes = tuple(note for note in verdict.notes if not note.startswith(said))
    return msgspec.structs.replace(verdict, notes=notes)
