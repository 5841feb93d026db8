"""A log file as the diagnosis sees it, whether it came whole from disk or cut from a record."""

from __future__ import annotations

import datetime as dt

import msgspec


class Excerpt(msgspec.Struct, frozen=True):
    """Consecutive bytes of one file.

    ``offset`` is the first byte's place in the file, ``line`` the number of the first line
    (from 1), None where the lines before it were not counted.
    """

    offset: int
    line: int | None
    data: bytes


class Clock(msgspec.Struct, frozen=True):
    """What a node knew of its clocks while the evidence was collected.

    ``kernel_offset_s`` is wall clock minus kernel clock, in seconds, within
    ``uncertainty_s``; ``utc_offset_s`` is local time minus UTC.
    """

    kernel_offset_s: float | None = None
    uncertainty_s: float = 1.0
    utc_offset_s: int | None = None


class Document(msgspec.Struct, frozen=True):
    """One file of evidence.

    ``name`` is what the reader of the report is shown. ``host`` is the node that the whole
    file speaks of, None where the file is shared by nodes or nothing tells. ``what`` is why
    a collector took it ("kernel", "job-output", "rank-log", "error-json"), None for files
    that a person named. ``complete`` is False when excerpts leave a part of the file out.
    """

    name: str
    excerpts: tuple[Excerpt, ...]
    host: str | None = None
    what: str | None = None
    complete: bool = True
    size: int | None = None
    modified_at: dt.datetime | None = None
    clock: Clock | None = None
    boot_id: str | None = None
