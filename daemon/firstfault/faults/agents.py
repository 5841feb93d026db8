"""What each agent said of its ranks: whom it saw fail, whom it ended.

A job has as many agents as nodes and each of their words names a few ranks: everything is looked
up by agent, found once for a run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import msgspec

from firstfault.model.event import ClosingSignal, ExitNoticed, TableEntry
from firstfault.model.run import Process, Run

Key = tuple[str, object]


class Agent(msgspec.Struct, frozen=True):
    """One agent's ranks (``mates``, as in the roster), which of them ``failed``, and the pids that
    it ``ended``. A rank that it ended itself counts as none that failed.
    """

    mates: tuple[Process, ...]
    failed: frozenset[Process]
    ended: frozenset[int]

    @property
    def nameless(self) -> frozenset[int]:
        """The ``ended`` pids that are no known rank's."""
        return self.ended - {pid for mate in self.mates for pid in mate.pids}

    @property
    def host(self) -> str | None:
        """The host of the first of its ranks."""
        return self.mates[0].host


def key_of(process: Process) -> Key:
    """What tells the process's agent from others: its task, run folder or host."""
    for name in ("task", "run", "host"):
        value = getattr(process, name)
        if value is not None:
            return name, value
    return "", None


class Agents:
    """The agents of a run."""

    def __init__(self, run: Run) -> None:
        self._mates: dict[Key, list[Process]] = defaultdict(list)
        for process in run.roster:
            self._mates[key_of(process)].append(process)
        self._failed: dict[Key, set[Process]] = defaultdict(set)
        self._pids: dict[Key, set[int]] = defaultdict(set)
        self._own_pids: dict[Process, set[int]] = defaultdict(set)
        for each in run.happened:
            event = each.event
            if each.process is None or not isinstance(event, ExitNoticed | TableEntry):
                continue
            self._failed[key_of(each.process)].add(each.process)
            if isinstance(event, ExitNoticed) and event.agent_pid is not None:
                self._pids[key_of(each.process)].add(event.agent_pid)
                self._own_pids[each.process].add(event.agent_pid)
        events = [e.event for e in run.happened if isinstance(e.event, ClosingSignal)]
        self._closings = dict(enumerate(events))
        self._found = _ByTask(self._closings)

    def of(self, process: Process) -> Agent:
        """The agent of a process of the roster."""
        key = key_of(process)
        ended = {self._closings[number].pid for number in self._ended(process, self._pids[key])}
        gone = {p for p in self._failed[key] if not set(p.pids) & ended}
        return Agent(tuple(self._mates[key]), frozenset(gone), frozenset(ended))

    def each_of(self, processes: Iterable[Process]) -> list[Agent]:
        """The agents of ``processes``, each once, as the last of its processes finds it."""
        last = {key_of(process): process for process in processes}
        return [self.of(process) for process in last.values()]

    def sizes_but(self, key: Key) -> set[int]:
        """How many ranks the agents other than that of ``key`` have."""
        return {len(mates) for other, mates in self._mates.items() if other != key}

    def all_closings_are_known(self, run: Run) -> bool:
        """Whether each process that an agent ended is told to be one agent's."""
        known: set[int] = set()
        for process in run.roster:
            if len(known) == len(self._closings):
                break
            known |= self._ended(process, self._own_pids[process])
        return len(known) == len(self._closings)

    def _ended(self, process: Process, pids: Collection[int]) -> set[int]:
        return self._found.of(process, pids, lone=len(self._mates) == 1)


# Closing signals by what their lines name, numbered: a task and a host name their agent, else its
# pid does; where one agent is all there is, they are its own.
class _ByTask:
    def __init__(self, events: Mapping[int, ClosingSignal]) -> None:
        self._of_task: dict[int, set[int]] = defaultdict(set)
        for number, event in events.items():
            if event.speaker.task is not None:
                self._of_task[event.speaker.task].add(number)
        taskless = {n: e for n, e in events.items() if e.speaker.task is None}
        self._taskless, self._every = _ByHost(taskless), _ByHost(events)

    def of(self, process: Process, pids: Collection[int], *, lone: bool) -> set[int]:
        if process.task is None:
            return self._every.of(process.host, pids, lone=lone)
        own = self._of_task.get(process.task, set())
        return own | self._taskless.of(process.host, pids, lone=lone)


class _ByHost:
    def __init__(self, events: Mapping[int, ClosingSignal]) -> None:
        self._of_host: dict[str, set[int]] = defaultdict(set)
        for number, event in events.items():
            if event.speaker.host is not None:
                self._of_host[event.speaker.host].add(number)
        hostless = {n: e for n, e in events.items() if e.speaker.host is None}
        self._hostless, self._every = _ByPid(hostless), _ByPid(events)

    def of(self, host: str | None, pids: Collection[int], *, lone: bool) -> set[int]:
        if host is None:
            return self._every.of(pids, lone=lone)
        return self._of_host.get(host, set()) | self._hostless.of(pids, lone=lone)


class _ByPid:
    def __init__(self, events: Mapping[int, ClosingSignal]) -> None:
        self._of_pid: dict[int | None, set[int]] = defaultdict(set)
        for number, event in events.items():
            self._of_pid[event.agent_pid].add(number)
        self._every = set(events)

    def of(self, pids: Collection[int], *, lone: bool) -> set[int]:
        if not pids:
            return self._every if lone else set()
        own = set().union(*(self._of_pid.get(pid, set()) for pid in pids))
        return own | self._of_pid.get(None, set()) if lone else own
