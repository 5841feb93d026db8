"""Ranks that NCCL's own words give to processes, and so to its lines.

NCCL writes to a console without any rank's prefix. Where it says which rank of all each process is,
what a process's lines tell is that rank's. A communicator may be of a part of the ranks, in which they
are numbered anew: only one counts that is surely all ranks'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from firstfault.model.event import Event, Member, Sign, WorkersStarted, WorldSize
from firstfault.readers.communicators import PREFIX
from firstfault.runs.reading import Read

# An attempt, a host and a pid.
_Who = tuple[int, str, int]


def with_communicator_ranks(reads: tuple[Read, ...]) -> tuple[Read, ...]:
    """``reads``, in which NCCL's lines are their rank's, where it says whose; else the same object."""
    members = [(attempt, e) for e, attempt in _events(reads) if isinstance(e, Member)]
    ranks = _ranks(members, _sizes(reads)) if members else {}
    if not ranks:
        return reads
    return tuple(_with_ranks(read, ranks) for read in reads)


def _events(reads: Iterable[Read]) -> Iterator[tuple[Event, int]]:
    for read in reads:
        yield from zip(read.events, read.attempts, strict=True)


def _sizes(reads: Iterable[Read]) -> set[int]:
    events = [event for event, _ in _events(reads)]
    told = {e.world_size for e in events if isinstance(e, WorkersStarted) and e.world_size}
    return told or {e.size for e in events if isinstance(e, WorldSize)}


# Of the largest communicator: it is all ranks' where as many processes speak, or a program says so.
def _ranks(members: Sequence[tuple[int, Member]], sizes: set[int]) -> dict[_Who, int]:
    size = max(each.size for _, each in members)
    found: dict[_Who, set[int]] = {}
    for attempt, each in members:
        who = (attempt, each.host, each.pid)
        found.setdefault(who, set())
        if each.size == size:
            found[who].add(each.rank)
            if each.speaker.rank not in (None, each.rank):
                return {}
    ranks = {who: next(iter(each)) for who, each in found.items() if len(each) == 1}
    attempts = {attempt for attempt, _, _ in found}
    whole = all(sum(who[0] == attempt for who in found) == size for attempt in attempts)
    alone = len({(who[0], rank) for who, rank in ranks.items()}) == len(ranks) == len(found)
    return ranks if alone and (sizes == {size} or (whole and not sizes)) else {}


def _with_ranks(read: Read, ranks: dict[_Who, int]) -> Read:
    events = tuple(
        _with_rank(event, attempt, ranks)
        for event, attempt in zip(read.events, read.attempts, strict=True)
    )
    return msgspec.structs.replace(read, events=events)


def _with_rank(event: Event, attempt: int, ranks: dict[_Who, int]) -> Event:
    if isinstance(event, Member):
        own = ranks.get((attempt, event.host, event.pid))
        return event if own is None else msgspec.structs.replace(event, rank=own, known=True)
    if not isinstance(event, Sign) or event.speaker.rank is not None:
        return event
    match = PREFIX.search(event.place.text)
    rank = match and ranks.get((attempt, match["host"], int(match["pid"])))
    if match is None or rank is None or event.speaker.local_rank is not None:
        return event
    who = msgspec.structs.replace(
        event.speaker, rank=rank, host=event.speaker.host or match["host"]
    )
    return msgspec.structs.replace(event, speaker=who)
