"""The filters of the page templates: how values are said in HTML, in ours and in a site's own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from firstfault.report import wording as w


def stamp(at: dt.datetime) -> str:
    """An aware time as RFC 3339 in UTC, for ``<time datetime>``."""
    return at.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def when(at: dt.datetime) -> str:
    """An aware time for people, to the minute, in UTC: "2026-11-30 16:05"."""
    return at.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M")


def hours(seconds: float) -> str:
    """Seconds as hours: "2,100", "3.5", "under 0.1"; no unit."""
    size = seconds / 3600
    if size <= 0:
        return "0"
    if size < 0.1:
        return "under 0.1"
    return f"{size:.1f}" if size < 9.95 else f"{size:,.0f}"


def share(part: float) -> str:
    """0.123 as "12 %", 0.004 as "0.4 %"."""
    percent = part * 100
    return f"{percent:.1f} %" if 0 < percent < 1 else f"{percent:.0f} %"


def segment(text: str) -> str:
    """A name as one segment of a path: "a/b" as "a%2Fb"."""
    return quote(text, safe="")


def size(count: int) -> str:
    """Bytes as "812 bytes", "14.0 KiB", "3.2 MiB"."""
    if count < 1024:
        return w.count(count, "byte")
    if count < 10 * 1024**2:
        return w.mebibytes(count // 1024) if count >= 1024**2 else f"{count / 1024:.1f} KiB"
    return w.mebibytes(count // 1024)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "number": w.number,
    "clean": w.clean,
    "stamp": stamp,
    "when": when,
    "hours": hours,
    "share": share,
    "segment": segment,
    "size": size,
}
