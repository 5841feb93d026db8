"""Which of torchrun's attempts an event belongs to.

torchrun numbers its log folders (``attempt_N``), but its console lines carry no number: there,
an agent's line "failed (exitcode: ...)" ends its attempt, or that it starts its ranks anew
because agents came or went. All output of the attempt's ranks stands before it (the agent ends
its tailing threads first), and the agent prints its failure table only after its last attempt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from firstfault.model.event import (
    Event,
    ExitNoticed,
    GroupEnded,
    TableEntry,
    TornTraceback,
    Traceback,
    WorkersStarted,
)
from firstfault.model.line import Speaker

# An agent's task, and its pid or main thread's id.
Agent = tuple[int | None, int | None]
_MOST_PID = 1 << 22


_NOBODY = Speaker()
# What an agent's own pid tells of.
_OF_AGENTS = (ExitNoticed, GroupEnded, WorkersStarted)


def speaker_of(event: Event) -> Speaker:
    """The event's speaker, or nobody's."""
    return getattr(event, "speaker", _NOBODY)


class Attempts:
    """The attempts of one launch in one document, found by its ``events``."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._ends = _ends(events)
        self._of_task: dict[int | None, list[Agent]] = {}
        for agent in self._ends:
            self._of_task.setdefault(agent[0], []).append(agent)
        self._final = max((e.place.offset for e in events if _is_final(e)), default=-1)

    def of(self, event: Event) -> int:
        """The attempt of an event."""
        agent = event.agent_pid if isinstance(event, _OF_AGENTS) else None
        found = self.at(speaker_of(event), event.place.offset, agent)
        # An agent that only followed another's restart does not count it.
        return max(found, event.restarts) if isinstance(event, WorkersStarted) else found

    def at(self, who: Speaker, offset: int, agent_pid: int | None = None) -> int:
        """The attempt of a speaker's line at ``offset``."""
        if who.attempt is not None:
            return who.attempt
        anybodys = [] if who.task is not None else list(self._ends)
        agents = self._of_task.get(who.task, anybodys)
        if (who.task, agent_pid) in self._ends:
            agents = [(who.task, agent_pid)]
        return min((self._attempt(offset, self._ends[key]) for key in agents), default=0)

    # The attempt by one agent's count: an attempt's events stand before its end, the last one's
    # table and what follows it after.
    def _attempt(self, offset: int, ends: list[int]) -> int:
        index = bisect_left(ends, offset)
        if index == len(ends) and self._final > ends[-1]:
            return len(ends) - 1
        return index


# An agent's table, or what it says and raises above it: a log may be cut there.
def _is_final(event: Event) -> bool:
    if isinstance(event, TornTraceback):
        return event.speaker.rank is None and event.speaker.local_rank is None
    if isinstance(event, GroupEnded):
        return event.how == "over"
    if isinstance(event, Traceback):
        return event.type.rpartition(".")[2] == "ChildFailedError"
    return isinstance(event, TableEntry)


def attempts(events: Sequence[Event]) -> list[int]:
    """The attempt of each of one launch's events in one document, in the same order."""
    found = Attempts(events)
    return [found.of(event) for event in events]


def _ends(events: Sequence[Event]) -> dict[Agent, list[int]]:
    tables = len({(speaker_of(e).task, e.table) for e in events if isinstance(e, TableEntry)})
    ends: dict[Agent, list[int]] = {}
    for event in events:
        changed = isinstance(event, GroupEnded) and event.how == "changed"
        if isinstance(event, ExitNoticed) or (isinstance(event, GroupEnded) and changed):
            key = (speaker_of(event).task, event.agent_pid)
            ends.setdefault(key, []).append(event.place.offset)
    # Several agents without labels and pids: their ends cannot be told from restarts.
    if len(ends.get((None, None), [])) > 1 and tables != 1:
        del ends[(None, None)]
    # A main thread's id is an address: where nothing randomises these, agents share it.
    threads = [key for key in ends if key[0] is None and (key[1] or 0) > _MOST_PID]
    if 0 < len(threads) < tables:
        for key in threads:
            del ends[key]
    return {key: sorted(set(offsets)) for key, offsets in ends.items()}
