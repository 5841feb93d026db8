"""The picture of failures over time: where its bars and marks stand. A template draws them.

Widths and places are in percent of the picture's width, heights in units of its own, so that it
fits any screen without a script; docs/decisions tells why no library draws it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import NamedTuple

from firstfault.model.board import Overview, Slot
from firstfault.report.filters import stamp, when

# From the bottom up: what the administrators can act on stands on the axis, to be compared.
DOMAINS = ("system", "either", "user")
WORDS = {"system": "by the system", "either": "by user or system", "user": "by the user"}

HEIGHT = 200
TOP = 12
# Left of the bars stand the counts.
LEFT = 5.0
_MOST_MARKS = 4
_MOST_LABELS = 7


class Part(NamedTuple):
    """The failures of one domain in a bar."""

    domain: str
    top: float
    height: float


class Column(NamedTuple):
    """The failures of one step of time. ``said`` tells them in words, ``href`` lists them."""

    at: dt.datetime
    until: dt.datetime
    left: float
    width: float
    parts: tuple[Part, ...]
    failures: int
    said: str
    href: str
    domains: tuple[int, ...]
    causes: str


class Mark(NamedTuple):
    """A count beside the picture, and how far from its top."""

    failures: int
    top: float


class Label(NamedTuple):
    """A time below the picture, and where its column begins."""

    text: str
    left: float


class Chart(NamedTuple):
    """The picture. ``summary`` says it in a sentence."""

    columns: tuple[Column, ...]
    marks: tuple[Mark, ...]
    labels: tuple[Label, ...]
    height: int
    bottom: float
    left: float
    summary: str


def chart(overview: Overview, href: str = "/failures") -> Chart | None:
    """The failures over time, None where there are none. ``href`` is the list that a column's
    times are added to: "/failures?cluster=c1"."""
    most = max((sum(slot.domains.values()) for slot in overview.slots), default=0)
    if not most:
        return None
    top = _ceiling(most)
    bottom = float(HEIGHT)
    scale = (bottom - TOP) / top
    step = dt.timedelta(seconds=overview.step_s)
    width = (100 - LEFT) / len(overview.slots)
    gap = width * (0.22 if len(overview.slots) <= 62 else 0.1)
    columns = []
    for number, slot in enumerate(overview.slots):
        left = LEFT + number * width
        at = (slot.at, min(slot.at + step, overview.until))
        columns.append(_column(slot, at, (left, width - gap), (bottom, scale), href))
    every = _whole_step(top / _MOST_MARKS)
    marks = tuple(
        Mark(count, round(bottom - count * scale, 1)) for count in range(0, top + 1, every)
    )
    labels = _labels([slot.at for slot in overview.slots], overview.step_s, width)
    return Chart(tuple(columns), marks, labels, HEIGHT, bottom, LEFT, _summary(overview, columns))


def _column(
    slot: Slot,
    at: tuple[dt.datetime, dt.datetime],
    place: tuple[float, float],
    axis: tuple[float, float],
    href: str,
) -> Column:
    base, scale = axis
    parts = []
    counts = _by_domain(slot)
    for domain, count in zip(DOMAINS, counts, strict=True):
        if count:
            height = count * scale
            base -= height
            parts.append(Part(domain, round(base, 1), round(height, 1)))
    count = sum(counts)
    said = f"{when(at[0])} to {when(at[1])} UTC: {_failed(count)}"
    if count:
        said += f", {_split(counts)}"
    joined = f"{href}{'&' if '?' in href else '?'}since={stamp(at[0])}&until={stamp(at[1])}"
    causes = sorted(slot.causes.items(), key=lambda each: (-each[1], each[0]))
    return Column(
        *at,
        round(place[0], 3),
        round(place[1], 3),
        tuple(parts),
        count,
        said,
        joined,
        counts,
        ", ".join(f"{cause} {number}" for cause, number in causes[:3]),
    )


def _by_domain(slot: Slot) -> tuple[int, ...]:
    # A domain that is none of the three counts as either: the bar is as high as its failures.
    counts = [slot.domains.get(domain, 0) for domain in DOMAINS]
    counts[DOMAINS.index("either")] += sum(
        count for domain, count in slot.domains.items() if domain not in DOMAINS
    )
    return tuple(counts)


def _split(counts: Sequence[int]) -> str:
    return ", ".join(
        f"{count:,} {WORDS[domain]}" for domain, count in zip(DOMAINS, counts, strict=True) if count
    )


def _failed(count: int) -> str:
    return f"{count:,} failed job{'' if count == 1 else 's'}" if count else "no failed job"


def _summary(overview: Overview, columns: Sequence[Column]) -> str:
    most = max(columns, key=lambda each: each.failures)
    total = tuple(map(sum, zip(*(each.domains for each in columns), strict=True)))
    return (
        f"{_failed(sum(total))} from {when(overview.since)} to {when(overview.until)} UTC: "
        f"{_split(total)}. Most of them, {most.failures:,}, ended from {when(most.at)} on, within "
        f"{_step(overview.step_s)}."
    )


def _step(step_s: int) -> str:
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if step_s % size == 0:
            count = step_s // size
            return f"one {name}" if count == 1 else f"{count} {name}s"
    return f"{step_s} s"


def _ceiling(most: int) -> int:
    every = _whole_step(most / _MOST_MARKS)
    return -(-most // every) * every


def _whole_step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, ... that is not below ``least``."""
    size = 1
    while True:
        for step in (1, 2, 5):
            if step * size >= least:
                return step * size
        size *= 10


def _labels(starts: Sequence[dt.datetime], step_s: int, width: float) -> tuple[Label, ...]:
    if step_s < 86400 and (starts[-1] - starts[0]) < dt.timedelta(days=3):
        return _spread(starts, width, lambda at: at.strftime("%H:%M"))
    months = [each for each in enumerate(starts) if each[1].day <= max(1, step_s // 86400)]
    if len(starts) * step_s > 100 * 86400 and len(months) >= 3:
        kept = [months[0]]
        for each in months:
            if each[1].month != kept[-1][1].month:
                kept.append(each)
        every = -(-len(kept) // _MOST_LABELS)
        return tuple(
            Label(at.strftime("%b %Y" if at.month == 1 else "%b"), round(LEFT + n * width, 3))
            for n, at in kept[::every]
        )
    return _spread(starts, width, lambda at: f"{at.day} {at:%b}")


def _spread(
    starts: Sequence[dt.datetime], width: float, say: Callable[[dt.datetime], str]
) -> tuple[Label, ...]:
    every = -(-len(starts) // _MOST_LABELS)
    found: list[Label] = []
    for number in range(0, len(starts), every):
        text = say(starts[number].astimezone(dt.UTC))
        if not found or found[-1].text != text:
            found.append(Label(text, round(LEFT + number * width, 3)))
    return tuple(found)
