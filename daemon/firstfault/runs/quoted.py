"""Another job's log in this one's output: what srun says there of nodes that are not the job's.

A script that prints the log of the run before quotes its end, and then its own job works. srun's
words name nodes: where accounting tells the job's, and several steps of work follow, those on other
nodes are the other job's. A log that is printed after the job's own end looks like a launch more: nodes
that no other launch was on tell it, and that accounting has fewer steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import msgspec

from firstfault.model.event import Event, MemoryPoll, NodeFailure, TaskEnd
from firstfault.model.run import Run
from firstfault.runs.folders import short
from firstfault.runs.reading import Read


def without_quotes(reads: Iterable[Read], nodes: tuple[str, ...]) -> list[Read]:
    """``reads`` of a job on ``nodes`` (empty where they are not known), without such words."""
    names = frozenset(short(node) for node in nodes)
    return [_without(each, names) if names and _worked(each) >= 0 else each for each in reads]


def _worked(read: Read) -> int:
    return read.output.worked.offset if read.output is not None else -1


def _without(read: Read, names: frozenset[str]) -> Read:
    kept = [
        (event, attempt)
        for event, attempt in zip(
            read.events, read.attempts or (0,) * len(read.events), strict=True
        )
        if not _is_quoted(event, names, _worked(read))
    ]
    if len(kept) == len(read.events):
        return read
    return msgspec.structs.replace(
        read,
        events=tuple(event for event, _ in kept),
        attempts=tuple(attempt for _, attempt in kept) if read.attempts else (),
    )


def _is_quoted(event: Event, names: frozenset[str], worked: int) -> bool:
    if not isinstance(event, TaskEnd | NodeFailure | MemoryPoll) or event.host is None:
        return False
    return short(event.host) not in names and event.place.offset < worked


def may_quote(launches: Sequence[Iterable[Run]], nodes: tuple[str, ...], steps: int | None) -> bool:
    """Whether a launch may be another job's: by srun's words on its tasks' ends.

    They name nodes that are not the job's ``nodes`` or, where those are not known, none that another
    launch ended on; or more launches ended so than accounting has ``steps`` (None: not known).
    """
    ended = [hosts for launch in launches if (hosts := _ended_on(launch))]
    if steps is not None and steps < len(ended):
        return True
    if nodes:
        names = {short(node) for node in nodes}
        return len(ended) > 1 and any(hosts.isdisjoint(names) for hosts in ended)
    return any(one.isdisjoint(other) for one, other in combinations(ended, 2))


def _ended_on(launch: Iterable[Run]) -> set[str]:
    events = (each.event for run in launch for each in run.happened)
    return {short(event.host) for event in events if isinstance(event, TaskEnd) and event.host}
