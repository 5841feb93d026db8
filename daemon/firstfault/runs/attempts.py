"""Which of torchrun's attempts an event belongs to.

torchrun numbers its log folders (``attempt_N``), but its console lines carry no number: there,
an agent's line "failed (exitcode: ...)" ends its attempt. All output of the attempt's ranks
stands before it (the agent ends its tailing threads first), and the agent prints its failure
table only after its last attempt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from firstfault.model.event import Event, ExitNoticed, TableEntry
from firstfault.model.line import Speaker


def speaker_of(event: Event) -> Speaker:
    """The event's speaker, or nobody's."""
    return getattr(event, "speaker", Speaker())


def attempts(events: Sequence[Event]) -> list[int]:
    """The attempt of each of one document's events, in the same order."""
    ends = _ends(events)
    finals = _finals(events)
    result = []
    for event in events:
        who = speaker_of(event)
        if who.attempt is not None:
            result.append(who.attempt)
            continue
        agents = [key for key in ends if key[0] == who.task] or (
            [] if who.task is not None else list(ends)
        )
        if isinstance(event, ExitNoticed) and (who.task, event.agent_pid) in ends:
            agents = [(who.task, event.agent_pid)]
        result.append(min((_attempt(event, ends[key], finals) for key in agents), default=0))
    return result


# The attempt by one agent's count: an attempt's events stand before its end, the last one's
# table and what follows it after.
def _attempt(event: Event, ends: list[int], finals: list[int]) -> int:
    index = bisect_left(ends, event.place.offset)
    last = ends[-1]
    if index == len(ends) and any(final > last for final in finals):
        return len(ends) - 1
    return index


def _ends(events: Sequence[Event]) -> dict[tuple[int | None, int | None], list[int]]:
    tables = len({(speaker_of(e).task, e.table) for e in events if isinstance(e, TableEntry)})
    ends: dict[tuple[int | None, int | None], list[int]] = {}
    for event in events:
        if isinstance(event, ExitNoticed):
            key = (speaker_of(event).task, event.agent_pid)
            ends.setdefault(key, []).append(event.place.offset)
    nameless = ends.get((None, None), [])
    if len(nameless) > 1 and tables != 1:
        # Several agents without labels and pids: their ends cannot be told from restarts.
        del ends[(None, None)]
    return {key: sorted(set(offsets)) for key, offsets in ends.items()}


def _finals(events: Sequence[Event]) -> list[int]:
    return [event.place.offset for event in events if isinstance(event, TableEntry)]
