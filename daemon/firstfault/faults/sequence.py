"""Ranks that stand behind the others in one process group's collectives.

A rank is behind where the others wait in a work that it has not even begun: the last that it
enqueued comes before the one that follows the others' last completed, by the watchdogs' words or by
the flight recorders' dumps. Numbers of different
groups are not compared, nor those of a group whose members are not numbered as the job's ranks
are: its name may be another group's elsewhere.
"""

from __future__ import annotations

from firstfault.model.event import Lagging, WorkStatus
from firstfault.model.run import Happened, Process, Run

# torch 2.4 prints uninitialized memory for "none completed yet".
_SANE = range(-1, 1 << 40)
_DEFAULT = ("0", "ID 0 PG GUID 0")
_DEFAULT_NAME = "default_pg"
_FEW = 3


def behind(run: Run) -> tuple[tuple[Process, ...], tuple[Happened, ...]]:
    """The ranks that are behind, and the lines that tell so, theirs first; empty: none surely is."""
    groups: dict[str, dict[Process, list[Happened]]] = {}
    for each in run.happened:
        if isinstance(each.event, WorkStatus) and each.process is not None:
            groups.setdefault(each.event.group, {}).setdefault(each.process, []).append(each)
    for name, members in sorted(groups.items()):
        if not _is_whole(name, members):
            continue
        reached = {p: max(_enqueued(each) for each in told) for p, told in members.items()}
        lowest = min(reached.values())
        late = [p for p in members if reached[p] == lowest]
        others = [p for p in members if p not in late]
        if not others or len(late) > len(others):
            continue
        done = min(max(_completed(each) for each in members[p]) for p in others)
        needed = done + 1 if done in _SANE else min(reached[p] for p in others)
        if lowest in _SANE and lowest < needed:
            lines = [members[p][-1] for p in (*late[:2], *others[:2])]
            return tuple(sorted(late, key=lambda p: p.rank or 0)), tuple(lines)
    return (), ()


def lagging(run: Run) -> tuple[tuple[int, ...], Happened | None]:
    """The ranks that torch's own report on a desync calls the lagging ones, and its line."""
    for each in run.happened:
        if isinstance(each.event, Lagging):
            return each.event.ranks, each
    return (), None


def _is_whole(name: str, members: dict[Process, list[Happened]]) -> bool:
    default = name in (*_DEFAULT, _DEFAULT_NAME) or name.endswith(f"({_DEFAULT_NAME})")
    if len(members) < (2 if default else _FEW):
        return False
    return all(
        isinstance(each.event, WorkStatus) and each.event.rank == process.rank
        for process, told in members.items()
        for each in told
    )


def _enqueued(each: Happened) -> int:
    return each.event.enqueued if isinstance(each.event, WorkStatus) else 0


def _completed(each: Happened) -> int:
    return each.event.completed if isinstance(each.event, WorkStatus) else 0
