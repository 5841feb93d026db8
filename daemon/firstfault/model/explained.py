"""A diagnosis of logs that somebody sends: what is sent, what comes back, and what is kept of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import BinaryIO, NamedTuple, Protocol

import msgspec

from firstfault.model.board import Reader
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


class Kept(msgspec.Struct, frozen=True):
    """A report of logs that were sent, which its maker wished to be kept; ``id`` cannot be
    guessed. It is kept until ``kept_until``, or until somebody forgets it."""

    id: str
    title: str
    cause: str
    confidence: str
    kept_by: str
    kept_at: dt.datetime
    kept_until: dt.datetime


class SharedLink(NamedTuple):
    """A link by which whoever has it reads a report, until then."""

    href: str
    until: dt.datetime


class KeptReport(msgspec.Struct, frozen=True):
    """A kept report with all that is kept of it."""

    kept: Kept
    explained: Explained


class KeptPage(msgspec.Struct, frozen=True):
    """Some kept reports, the newest first; ``next`` asks for the page after, None: there is
    none."""

    reports: tuple[Kept, ...]
    next: str | None = None


class NotKept(Exception):
    """A report is not kept; the message says why and what to do."""


class Keeper(Protocol):
    """Who keeps reports for ``days``, of each reader ``most``. All methods may block.

    A report is its maker's and the administrators'; to others it does not exist.
    """

    days: float
    most: int

    def check_room(self, reader: Reader) -> None:
        """Raises `NotKept` where the reader keeps as many as they may."""

    def keep(self, reader: Reader, found: Explained, title: str) -> Kept:
        """Keeps what was found. Raises `NotKept`."""

    def listed(self, reader: Reader, page: str | None = None, limit: int = 50) -> KeptPage:
        """The reader's own reports; ``page`` is `KeptPage.next`.

        Raises `ValueError` for a ``page`` that is none.
        """

    def report(self, reader: Reader, name: str) -> KeptReport | None:
        """The report with the id ``name``."""

    def forget(self, reader: Reader, name: str) -> bool:
        """Forgets the report with the id ``name``. False: there is none."""

    def signs(self) -> bool:
        """True where reports have signed links."""

    def address(self, kept: Kept) -> str:
        """Where the report stands among the pages, which ask who reads it; a path where their
        address for readers is not known."""

    def link(self, kept: Kept) -> SharedLink | None:
        """A signed link to the report, None where nothing signs; a path as of `address`."""
