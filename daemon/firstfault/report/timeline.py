"""The time line as a picture: which lanes, which marks, where. How it looks is the template's.

A lane is a story: who it happened to, and what. All ranks of one story share a lane, so a job of
16,384 nodes needs no more of them than one of four. Places are percents of the picture's width.
All times are by one clock. An event of which only the latest moment is known is drawn from the left edge up to it; one of which
nothing is known stands in a column of its own. A long time in which nothing happened is shortened,
and the picture says so.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from firstfault.model import verdict as v
from firstfault.report import stories
from firstfault.report import wording as w

# The area of the times, and the column of those that have none.
_LEFT, _RIGHT, _NARROW_RIGHT = 3.0, 97.0, 78.0
_NO_TIME = 90.0
_MOST_LANES = 18
_LEAST_BETWEEN_ZONES = dt.timedelta(minutes=15)
_MOST_SILENT = 3
# A silence that is nearly all of the time is shortened to a part of it, where that leaves room for
# something: the first fault's own uncertainty and one event later are not worth it.
_LONG_SILENCE, _SHORTENED, _LEAST_GAPS = 0.85, 0.4, 3
_LEAST_BETWEEN_TICKS = 22.0
# What is shorter looks like a dot.
_SEEN = 0.5
# SVG breaks no lines: so many letters fit beside a track's name.
_WIDE, _NARROW = 92, 38
_LEAST_WHAT = 12
_LANE_TOP, _LANE_HEIGHT = 46, 44


class Mark(msgspec.Struct, frozen=True):
    """An event from ``start`` to ``end`` (percents; equal: a moment).

    ``reach`` is "before" where it may have been at any time up to ``end``, "after" where at any
    from ``start`` on, else "". ``kind`` is "cause", "consequence" or "context".
    """

    start: float
    end: float
    kind: str
    reach: str


class Lane(msgspec.Struct, frozen=True):
    """A story: ``mark`` is None where nothing tells when. ``kind`` may be "silent" too: a node of
    which nothing came. ``who_brief`` and ``brief`` are ``who`` and ``what`` for a phone. ``top`` is
    in pixels."""

    who: str
    what: str
    who_brief: str
    brief: str
    kind: str
    mark: Mark | None
    top: int


class Tick(msgspec.Struct, frozen=True):
    """A time at a place; ``anchor`` is "start", "middle" or "end", as SVG has it."""

    place: float
    label: str
    anchor: str


class Picture(msgspec.Struct, frozen=True):
    """All that is drawn. ``shortened`` is the middle of a silence that is drawn shorter, with its
    length, ``first`` the place of the first fault, ``no_time`` the middle of the column of events
    without a time (None: there are none), ``no_time_is`` what stands above it, ``summary`` the picture in a sentence, ``legend`` what
    its signs mean."""

    lanes: tuple[Lane, ...]
    left_out: int
    ticks: tuple[Tick, ...]
    shortened: Tick | None
    first: Mark | None
    no_time: float | None
    no_time_is: str
    right: float
    height: int
    summary: str
    legend: tuple[str, ...]


def picture(verdict: v.Verdict, most: int = _MOST_LANES) -> Picture | None:
    """The picture of ``verdict``'s chain; None where fewer than two events have a time.

    Some ``most`` lanes are drawn at most, the first faults first.
    """
    links, local = _by_one_clock(verdict.chain[:200])
    if sum(_is_timed(link) for link in links) < 2:
        return None
    stories = _stories(links, verdict)
    shown = stories[:most]
    untimed = any(story.span is None for story in shown)
    right = _NARROW_RIGHT if untimed else _RIGHT
    scale = _Scale.over([at for story in shown for at in story.span or ()], right)
    lanes = [
        _lane(story.who, story.what, story.kind, scale.mark(story), k)
        for k, story in enumerate(shown)
    ]
    for who in _silent(verdict.coverage):
        lanes.append(_lane(who, "no record came", "silent", None, len(lanes)))
    first = next((lane.mark for lane in lanes if lane.kind == "cause" and lane.mark), None)
    begin = next((s.span for s in shown if s.kind == "cause" and s.span), None)
    zero = (begin[0] or begin[1]) if begin else None
    return Picture(
        lanes=tuple(lanes),
        left_out=len(stories) - len(shown),
        ticks=scale.ticks(zero, " local" if local else ""),
        shortened=scale.shortened(),
        first=first,
        no_time=_NO_TIME if untimed else None,
        no_time_is=_no_time_is(verdict.chain, links, local),
        right=right,
        height=_top(len(lanes)) + 4,
        summary=_summary(shown, zero, scale, "local time" if local else "UTC"),
        legend=_legend(shown, lanes),
    )


def times(each: v.ChainLink | v.Initiator) -> tuple[dt.datetime | None, dt.datetime | None]:
    """Between which moments it happened: in UTC, or, without a zone, in local time."""
    if each.local is not None and each.earliest is None and each.latest is None:
        return each.local.earliest, each.local.latest
    return each.earliest, each.latest


# The links whose times are by the first fault's clock, the others without a time; whether that
# clock's zone is not known. Then nothing tells whether two writers' clocks are of one zone, unless
# all times are closer to each other than zones are.
def _by_one_clock(links: Sequence[v.ChainLink]) -> tuple[list[v.ChainLink], bool]:
    timed = [each for each in links if any(times(each))]
    first = next((each for each in timed if each.role == "cause"), timed[0] if timed else None)
    if first is None or first.earliest is not None or first.latest is not None:
        return list(links), False
    local = [_in_local_time(each) for each in links]
    moments = [at for each in local for at in (each.earliest, each.latest) if at is not None]
    one = max(moments) - min(moments) < _LEAST_BETWEEN_ZONES
    return (local if one else [_timeless(each) for each in links]), True


def _in_local_time(link: v.ChainLink) -> v.ChainLink:
    ends = (link.local.earliest, link.local.latest) if link.local else (None, None)
    earliest, latest = (None if at is None else at.replace(tzinfo=dt.UTC) for at in ends)
    return msgspec.structs.replace(link, earliest=earliest, latest=latest)


def _timeless(link: v.ChainLink) -> v.ChainLink:
    return msgspec.structs.replace(link, earliest=None, latest=None)


# Where there are times by another clock, these are left out.
def _no_time_is(chain: Sequence[v.ChainLink], drawn: Sequence[v.ChainLink], local: bool) -> str:
    if not any(any(times(a)) and not _is_timed(b) for a, b in zip(chain, drawn, strict=False)):
        return "no time"
    return "no local time" if local else "no UTC time"


def _is_timed(link: v.ChainLink) -> bool:
    return link.earliest is not None or link.latest is not None


def _lane(who: str, what: str, kind: str, mark: Mark | None, number: int) -> Lane:
    wide, narrow = (_within(who, letters - _LEAST_WHAT) for letters in (_WIDE, _NARROW))
    return Lane(
        who=wide,
        what=_within(what, _WIDE - len(wide)),
        who_brief=narrow,
        brief=_within(what, _NARROW - len(narrow)),
        kind=kind,
        mark=mark,
        top=_top(number),
    )


def _within(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1].rstrip()}…"


def _top(lane: int) -> int:
    return _LANE_TOP + _LANE_HEIGHT * lane


class _Story(msgspec.Struct, frozen=True):
    who: str
    what: str
    kind: str
    span: tuple[dt.datetime | None, dt.datetime | None] | None
    of_many: bool = False


# Those that have a time before those that have none.
def _stories(links: Sequence[v.ChainLink], verdict: v.Verdict) -> list[_Story]:
    alike = stories.groups(verdict)
    first: dict[str, list[v.ChainLink]] = {}
    others: list[_Story] = []
    for link in links:
        if link.role == "cause":
            first.setdefault(link.what, []).append(link)
        else:
            others.append(_other(link, alike))
    also = verdict.initiator.also
    causes = [_first(what, links, also if len(first) == 1 else ()) for what, links in first.items()]
    found = [*causes, *others]
    return [s for s in found if s.span is not None] + [s for s in found if s.span is None]


def _first(what: str, alike: Sequence[v.ChainLink], also: Sequence[v.Member]) -> _Story:
    who = w.place(alike[0].rank, alike[0].host) or ""
    members: list[v.ChainLink | v.Member] = [*alike, *also]
    ranks = {each.rank for each in members if each.rank is not None}
    hosts = {each.host for each in members}
    if len(ranks) > 1:
        who = stories.several(len(ranks), w.ranges(ranks))
    elif not ranks and len(hosts) > 1:
        who = w.count(len(hosts), "host")
    said = w.clean(what, 200)
    if who.startswith("host ") and said.lower().startswith(f"node {who[5:]} "):
        said = said[len(who) - 5 + len("node ") :].lstrip()
    span = _span(alike[0])
    ends = [at for link in alike for at in (link.earliest, link.latest) if at is not None]
    if len(alike) > 1 and ends:
        span = (min(ends), max(ends))
    return _Story(who, said, "cause", span)


def _other(link: v.ChainLink, alike: dict[str, v.Consequence]) -> _Story:
    kind = link.role if link.role in w.ROLES else "context"
    told = stories.story(link, alike)
    return _Story(told.who, told.what, kind, _span(link), told.first is not None)


def _span(link: v.ChainLink) -> tuple[dt.datetime | None, dt.datetime | None] | None:
    if link.earliest is None and link.latest is None:
        return None
    return link.earliest, link.latest


def _silent(coverage: Sequence[v.CoverageRow]) -> list[str]:
    rows = [row for row in coverage if row.hosts and row.kernel == row.logs == "none" and row.note]
    return [w.clean(row.hosts or "", 40) for row in rows[:_MOST_SILENT]]


class _Scale(msgspec.Struct, frozen=True):
    """Moments (seconds since the first) and their places, in order; between two the place is
    proportional."""

    begin: dt.datetime
    moments: tuple[float, ...]
    places: tuple[float, ...]
    broken: int | None

    @classmethod
    def over(cls, moments: Sequence[dt.datetime | None], right: float) -> _Scale:
        known = sorted({at for at in moments if at is not None})
        begin = known[0]
        seconds = [(at - begin).total_seconds() for at in known]
        gaps = [b - a for a, b in pairwise(seconds)]
        total = sum(gaps)
        long = _LONG_SILENCE * total if len(gaps) >= _LEAST_GAPS else total
        broken = next((k for k, gap in enumerate(gaps) if gap > long), None)
        rest = total if broken is None else total - gaps[broken]
        left = 1.0 if broken is None else 1 - _SHORTENED
        places = [0.0]
        for k, gap in enumerate(gaps):
            places.append(places[-1] + (_SHORTENED if k == broken else left * gap / rest))
        # What is not known to have begun later reaches back to the edge.
        low = _LEFT + 4
        if len(places) == 1:
            return cls(begin, tuple(seconds), ((low + right) / 2,), None)
        spread = tuple(low + (right - 3 - low) * place for place in places)
        return cls(begin, tuple(seconds), spread, broken)

    def place(self, at: dt.datetime) -> float:
        """Where a moment that the scale was made of stands."""
        return self.places[self.moments.index((at - self.begin).total_seconds())]

    def mark(self, story: _Story) -> Mark | None:
        """The mark of a story; None where it has no time."""
        if story.span is None:
            return None
        earliest, latest = story.span
        if earliest is None:
            assert latest is not None
            return Mark(_LEFT, _rounded(self.place(latest)), story.kind, "before")
        start = self.place(earliest)
        if latest is None:
            return Mark(_rounded(start), _rounded(self.places[-1] + 3), story.kind, "after")
        return Mark(_rounded(start), _rounded(self.place(latest)), story.kind, "")

    def ticks(self, zero: dt.datetime | None, zone: str = "") -> tuple[Tick, ...]:
        """The first fault's time and others' distances from it, where there is room."""
        origin = 0.0 if zero is None else (zero - self.begin).total_seconds()
        label = w.short_clock(zero or self.begin) + zone
        main = self.places[self.moments.index(origin)]
        ticks = [Tick(_rounded(main), label, _anchor(main))]
        around = () if self.broken is None else (self.broken + 1, self.broken)
        for k in (len(self.moments) - 1, 0, *around):
            place = self.places[k]
            if all(abs(place - each.place) >= _LEAST_BETWEEN_TICKS for each in ticks):
                apart = w.apart(self.moments[k] - origin)
                ticks.append(Tick(_rounded(place), apart, _anchor(place)))
        return tuple(sorted(ticks, key=lambda each: each.place))

    def shortened(self) -> Tick | None:
        """The middle of the silence that is shortened, and how long it was."""
        if self.broken is None:
            return None
        before, after = self.broken, self.broken + 1
        length = w.apart(self.moments[after] - self.moments[before]).removeprefix("+")
        return Tick(_rounded((self.places[before] + self.places[after]) / 2), length, "middle")


def _anchor(place: float) -> str:
    return "start" if place < 20 else "end" if place > 70 else "middle"


def _rounded(place: float) -> float:
    return round(place, 2)


def _legend(shown: Sequence[_Story], lanes: Sequence[Lane]) -> tuple[str, ...]:
    marks = [lane.mark for lane in lanes if lane.mark is not None]
    said = []
    if any(mark.end - mark.start > _SEEN and not mark.reach for mark in marks):
        said.append("A bar is a moment that is not known more closely.")
    if any(mark.reach == "before" for mark in marks):
        said.append("A dotted line ends at the latest moment that is possible.")
    if any(mark.reach == "after" for mark in marks):
        said.append("A dotted line begins at the earliest moment that is possible.")
    if any(story.of_many and story.span is not None for story in shown):
        said.append("Of several the first is drawn.")
    return tuple(said)


def _summary(shown: Sequence[_Story], zero: dt.datetime | None, scale: _Scale, zone: str) -> str:
    causes = sum(story.kind == "cause" for story in shown)
    begun = "The time of the first fault is not known"
    if zero is not None:
        begun = f"The first fault is at {w.short_clock(zero)} {zone}"
    later = w.count(len(shown) - causes, "other event")
    length = w.apart(scale.moments[-1]).lstrip("+")
    return f"{begun}; {later} within {length}. The table below says the same."
