"""Where one launch ends in a job's output and the next begins.

A batch script may start torchrun or srun several times, one after another, and a job that Slurm
requeued appends to the same file. Nothing numbers the launches; these places tell them apart:

| what is seen | why it is another launch |
|---|---|
| a launcher's first words, or ranks at restart 0, after an agent's table | an agent prints its table when all is over, and only once all agents had started |
| the same after Slurm ended the whole job | the job was requeued |
| ranks that begin anew after Slurm ended the whole job | the same |
| a table with a rank that an earlier table has, of another pid | an agent prints one table |
| Slurm's lines of one step, then only lines of another | steps one after another |
| a task's ranks train on after that task's own table | its ranks were gone |
| ranks train on after the table of the only agent | the same |

Where steps or tables overlap, nothing is told apart.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from firstfault.model.event import (
    Cancelled,
    Event,
    ExitNoticed,
    FatalError,
    LaunchBegan,
    OomNoticed,
    StepEnded,
    TableEntry,
    TaskEnd,
    Traceback,
    WorkersStarted,
)
from firstfault.model.line import Speaker
from firstfault.readers.advance import Advance
from firstfault.runs.attempts import speaker_of

# So many different lines of advance show that ranks go on.
_GOING_ON = 3


class Cut(msgspec.Struct, frozen=True, order=True):
    """At ``offset`` another launch begins; ``requeued`` where the whole job began anew."""

    offset: int
    requeued: bool = False


def cuts(events: Sequence[Event], advances: Sequence[Advance]) -> tuple[Cut, ...]:
    """Where launches after the first begin in one document, in order."""
    found: dict[int, bool] = {}
    for each in (
        *_anew(events),
        *_repeated(events, advances),
        *_steps(events),
        *_going_on(events, advances),
        *_requeued(events, advances),
    ):
        found[each.offset] = found.get(each.offset, False) or each.requeued
    result: list[Cut] = []
    for offset in sorted(found):
        # What several signs tell of is one launch: something must have ended between two cuts.
        if result and not _ends_between(events, result[-1].offset, offset):
            continue
        result.append(Cut(offset, found[offset]))
    return tuple(result)


def launch_at(offset: int, found: Sequence[Cut]) -> int:
    """The number of the launch to which a document's line at ``offset`` belongs."""
    return bisect_right([cut.offset for cut in found], offset)


def _ends_between(events: Sequence[Event], low: int, high: int) -> bool:
    return any(
        isinstance(event, TableEntry | Cancelled | StepEnded | OomNoticed)
        and low <= event.place.offset < high
        for event in events
    )


def _anew(events: Sequence[Event]) -> list[Cut]:
    result: list[Cut] = []
    ended: dict[int | None, bool] = {}
    requeued = False
    for event in events:
        task = speaker_of(event).task
        if isinstance(event, TableEntry):
            ended[task] = True
        elif isinstance(event, Cancelled) and event.step in (None, "batch"):
            requeued = True
        elif _begins(event) and (requeued or ended.get(task) or (task is None and ended)):
            result.append(Cut(event.place.offset, requeued))
            ended, requeued = {}, False
    return result


def _begins(event: Event) -> bool:
    return isinstance(event, LaunchBegan) or (
        isinstance(event, WorkersStarted) and event.restarts == 0
    )


def _repeated(events: Sequence[Event], advances: Sequence[Advance]) -> list[Cut]:
    result: list[Cut] = []
    pids: dict[int, int] = {}
    last = -1
    for event in events:
        if not isinstance(event, TableEntry):
            continue
        if pids.get(event.rank, event.pid) != event.pid:
            opening = _opening(events, last, event.place.offset)
            # The later launch's ranks were at work before one of them or its agent spoke of trouble.
            work = [each for each in advances if last < each.offset < opening]
            if len({each.text for each in work}) >= _GOING_ON:
                opening = work[0].offset
            result.append(Cut(opening))
            pids = {}
        pids[event.rank] = event.pid
        last = event.place.offset
    return result


# The first sign of a rank or an agent between two offsets, else the second.
def _opening(events: Sequence[Event], after: int, before: int) -> int:
    signs = LaunchBegan | WorkersStarted | ExitNoticed | FatalError | Traceback
    return next(
        (
            e.place.offset
            for e in events
            if isinstance(e, signs) and after < e.place.offset < before
        ),
        before,
    )


def _steps(events: Sequence[Event]) -> list[Cut]:
    spans: dict[tuple[str | None, str], tuple[int, int]] = {}
    for event in events:
        if isinstance(event, Cancelled | OomNoticed | StepEnded):
            step, offset = event.step, event.place.offset
            if step is not None and step.isdigit():
                # srun's own line names the step alone.
                job = getattr(event, "job", None)
                low, _ = spans.get((job, step), (offset, offset))
                spans[job, step] = (low, offset)
    merged: dict[str, tuple[int, int]] = {}
    for (_, step), (low, high) in spans.items():
        old = merged.get(step, (low, high))
        merged[step] = (min(old[0], low), max(old[1], high))
    ordered = sorted(merged.values())
    if any(one[1] >= other[0] for one, other in pairwise(ordered)):
        return []
    return [
        Cut(_opening(events, _trailing(events, one[1], other[0]), other[0]))
        for one, other in pairwise(ordered)
    ]


# srun tells of its tasks after it told of the step's end.
def _trailing(events: Sequence[Event], after: int, before: int) -> int:
    last = after
    for event in events:
        if after < event.place.offset < before:
            if not isinstance(event, TaskEnd | StepEnded | Cancelled):
                break
            last = event.place.offset
    return last


def _going_on(events: Sequence[Event], advances: Sequence[Advance]) -> list[Cut]:
    tables: dict[int | None, int] = {}
    for event in events:
        if isinstance(event, TableEntry):
            tables[speaker_of(event).task] = event.place.offset
    of_task: dict[int | None, list[Advance]] = {}
    for each in advances:
        of_task.setdefault(each.speaker.task, []).append(each)
    result = []
    for task, end in tables.items():
        if task is None and not _is_lone(events):
            continue
        after = [each for each in of_task.get(task, ()) if each.offset > end]
        voices: dict[Speaker, set[str]] = {}
        for each in after:
            voices.setdefault(each.speaker, set()).add(each.text)
        if any(len(texts) >= _GOING_ON for texts in voices.values()):
            result.append(Cut(min(each.offset for each in after)))
    return result


def _requeued(events: Sequence[Event], advances: Sequence[Advance]) -> list[Cut]:
    result: list[Cut] = []
    ends = [
        e.place.offset for e in events if isinstance(e, Cancelled) and e.step in (None, "batch")
    ]
    for end, following in pairwise((*ends, math.inf)):
        back = [e.offset for e in advances if e.back and end < e.offset < following]
        if back:
            result.append(Cut(min(back), True))
    return result


# Whether one agent alone speaks in a console without labels: then its table is everybody's end.
def _is_lone(events: Sequence[Event]) -> bool:
    hosts = {event.host for event in events if isinstance(event, TableEntry)}
    shifted = any(isinstance(e, TableEntry) and e.rank != e.local_rank for e in events)
    agents = {e.agent_pid for e in events if isinstance(e, ExitNoticed)}
    several = any(
        (isinstance(e, TaskEnd) and len(e.tasks) > 1)
        or (isinstance(e, WorkersStarted) and (e.agents or 1) > 1)
        for e in events
    )
    tasks = {task for e in events if isinstance(e, TaskEnd) for task in e.tasks}
    return not (shifted or several) and max(len(hosts), len(agents), len(tasks)) <= 1
