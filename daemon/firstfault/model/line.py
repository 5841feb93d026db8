"""A line of a log, and who wrote it."""

from __future__ import annotations

import datetime as dt

import msgspec


class Speaker(msgspec.Struct, frozen=True, gc=False):
    """Whose line it is, as far as prefixes and the file's place tell; all None: nobody's.

    ``task`` is Slurm's task id in the step, ``rank`` the global rank, ``run`` the name of
    torchrun's run folder (one per agent), ``attempt`` torchrun's restart count, ``pid`` a process
    that its launcher's prefix names (Ray, syslog).
    """

    host: str | None = None
    task: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    run: str | None = None
    attempt: int | None = None
    pid: int | None = None


class Place(msgspec.Struct, frozen=True, order=True, gc=False):
    """Where a raw line stands; ``offset`` is its first byte, ``text`` the line, cut if huge."""

    document: str
    offset: int
    line: int | None
    text: str


class Line(msgspec.Struct, frozen=True, gc=False):
    """``text`` is the line without the prefixes that named the speaker.

    ``hooked`` is True where torch's own prefix ``[rankN]: `` stood. ``stretch`` counts the gaps
    before it: lines of other stretches of its document may have stood between.
    """

    place: Place
    speaker: Speaker
    text: str
    hooked: bool = False
    stretch: int = 0


# The zone of times of which nothing tells the zone: read as UTC, so that they order events, and
# told apart by its name, so that nobody shows them as UTC.
LOCAL = dt.timezone(dt.timedelta(0), "local")


def is_local(at: dt.datetime) -> bool:
    """True for a local time of a zone that is not known."""
    return at.tzname() == "local"


def zone_of(utc_offset_s: int | None) -> dt.timezone:
    """The zone that is so far from UTC; `LOCAL` where that is not known."""
    return LOCAL if utc_offset_s is None else dt.timezone(dt.timedelta(seconds=utc_offset_s))


class Span(msgspec.Struct, frozen=True, gc=False):
    """Something happened between these moments (aware, in UTC or `LOCAL`); None: no bound on that
    side."""

    earliest: dt.datetime | None = None
    latest: dt.datetime | None = None

    @property
    def local(self) -> bool:
        """True where one of the moments is a local time of a zone that is not known."""
        return any(at is not None and is_local(at) for at in (self.earliest, self.latest))

    def before(self, other: Span) -> bool:
        """True only when nothing in ``other`` can have come first."""
        return (
            self.latest is not None and other.earliest is not None and self.latest < other.earliest
        )
