"""A diagnosis of logs that somebody sends: what is sent, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import BinaryIO, NamedTuple, Protocol

import msgspec

from firstfault.model.verdict import Verdict


class Upload(NamedTuple):
    """A file that was sent: what it is called ("n3/dmesg.txt"), and its bytes in an open file."""

    name: str
    file: BinaryIO


class Explained(msgspec.Struct, frozen=True):
    """The verdict, and what a person should know of how it came about (files left out)."""

    verdict: Verdict
    warnings: tuple[str, ...] = ()


class NotExplained(Exception):
    """There is no verdict; the message says why and what to do."""


class Explainer(Protocol):
    """Who explains. ``max_bytes`` bounds what is sent, all files together."""

    max_bytes: int

    def explain(self, uploads: Sequence[Upload], hosts: Mapping[str, str]) -> Explained:
        """The verdict; ``hosts`` maps a file's or folder's name to its host. Blocks for as long
        as an explanation may take. Raises `NotExplained`."""
