"""Ranks that ran another collective than their peers, by torch's flight recorders.

Two ranks of a process group disagree where their recorders hold different operations, or other
sizes where these must be the same, under one number. Which of them is wrong is a vote.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from firstfault.model.event import RecordedWork
from firstfault.model.run import Happened, Process, Run

# Operations whose inputs are of one size on all ranks.
_ALIKE = ("all_reduce", "allreduce", "broadcast", "reduce")

_Members = dict[Process, list[Happened]]


def apart(run: Run) -> tuple[tuple[Process, ...], tuple[Happened, ...]]:
    """The ranks that stand apart in the earliest collective that does not match, and the records
    that tell so, theirs first. Where half of them say one thing and half another, all do."""
    works: dict[tuple[str, int], _Members] = {}
    for each in run.happened:
        if isinstance(each.event, RecordedWork) and each.process is not None:
            key = (each.event.group, each.event.sequence)
            works.setdefault(key, {}).setdefault(each.process, []).append(each)
    for _, members in sorted(works.items()):
        # Several operations may be launched as one: in which order says nothing.
        alone = {process: told[0] for process, told in members.items() if len(told) == 1}
        sides: dict[Hashable, list[Process]] = {}
        for process, told in alone.items():
            sides.setdefault(_what(told), []).append(process)
        if len(sides) > 1:
            return _outvoted(list(sides.values()), alone)
    return (), ()


def _what(each: Happened) -> Hashable:
    event = each.event
    if not isinstance(event, RecordedWork):
        return None
    name = event.name.rpartition(":")[2]
    return (event.name, event.sizes if name in _ALIKE else None)


def _outvoted(
    sides: Sequence[list[Process]], told: dict[Process, Happened]
) -> tuple[tuple[Process, ...], tuple[Happened, ...]]:
    ordered = sorted(sides, key=len)
    most = ordered[-1]
    fewer = [process for side in ordered[:-1] for process in side]
    late = fewer if len(fewer) < len(most) else [*fewer, *most]
    lines = [told[process] for process in (*_by_rank(fewer)[:2], *_by_rank(most)[:2])]
    return tuple(_by_rank(late)), tuple(lines)


def _by_rank(processes: Sequence[Process]) -> list[Process]:
    return sorted(processes, key=lambda process: process.rank or 0)
