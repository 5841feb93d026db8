"""Times as logs print them. Local times without a zone are read in the document's zone.

Where a document's zone is not known, its local times are read as if it were UTC (`LOCAL`): they
order lines of one zone among each other; whoever shows them must not call them UTC.
"""

from __future__ import annotations

import datetime as dt
import re

import msgspec

from firstfault.model.document import Document
from firstfault.model.line import LOCAL, Span

# It begins with what it looks for: so it is searched for fast.
_YEAR = re.compile(rb"20(?<!\w20)[0-9]{2}-[01][0-9]-[0-3][0-9][T _][0-2][0-9]:")
_FULL = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_SECOND = dt.timedelta(seconds=1)


class Zone(msgspec.Struct, frozen=True):
    """How a document's local times are read; ``year`` is for formats that print none."""

    offset_s: int = 0
    known: bool = False
    year: int | None = None


def zone(document: Document) -> Zone:
    """The zone of ``document``'s local times, and the year that it speaks of."""
    year = None
    for excerpt in document.excerpts:
        if match := _YEAR.search(excerpt.data):
            year = int(match[0][:4])
            break
    if year is None and document.modified_at is not None:
        year = document.modified_at.year
    clock = document.clock
    if clock is None or clock.utc_offset_s is None:
        return Zone(0, False, year)
    return Zone(clock.utc_offset_s, True, year)


def moment(text: str, zone: Zone) -> dt.datetime | None:
    """The local time "2026-11-30T15:56:25[.123]" (or with blank or "_") at ``text``'s start."""
    match = _FULL.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction = (match[7] or "").ljust(6, "0")[:6]
    return _utc(zone, year, month, day, hour, minute, second, int(fraction))


def within_second(text: str, zone: Zone) -> Span | None:
    """The second that ``text`` names, as a span."""
    at = moment(text, zone)
    if at is None or at.year == dt.MAXYEAR:
        return None
    return Span(at, at + _SECOND)


def noticed(at: dt.datetime | None) -> Span | None:
    """Something was noticed at this moment: it happened then or earlier."""
    return None if at is None else Span(None, at)


def glog(month_day: str, clock: str, zone: Zone) -> dt.datetime | None:
    """The time of a glog line: "1130", "15:56:26.041000"; month without leading zero in c10's."""
    if zone.year is None or not month_day.isdigit():
        return None
    month, day = int(month_day[:-2] or 0), int(month_day[-2:])
    hour, minute, rest = clock.split(":")
    second, _, fraction = rest.partition(".")
    micro = int(fraction.ljust(6, "0")[:6]) if fraction else 0
    return _utc(zone, zone.year, month, day, int(hour), int(minute), int(second), micro)


def epoch(seconds: float) -> dt.datetime | None:
    """The moment of a Unix time in seconds, None where it is no sane date."""
    try:
        return dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _utc(
    zone: Zone, year: int, month: int, day: int, hour: int, minute: int, second: int, micro: int
) -> dt.datetime | None:
    try:
        own = dt.UTC if zone.known else LOCAL
        local = dt.datetime(year, month, day, hour, minute, second, micro, tzinfo=own)
        return local - dt.timedelta(seconds=zone.offset_s)
    except (ValueError, OverflowError):
        return None
