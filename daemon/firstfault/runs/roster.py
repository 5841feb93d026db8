"""Who took part: ranks joined with local ranks, tasks, hosts, run folders and pids.

Every line names a part of a process: a task and a local rank, a run folder and a local rank, a
global rank, a pid. Parts that some line names together are joined; nothing else is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from firstfault.model.run import Process
from firstfault.runs.parts import Key, Seen

T = TypeVar("T")


class Joined:
    """Sets of keys that are one and the same."""

    def __init__(self) -> None:
        self._parent: dict[Key, Key] = {}

    def find(self, key: Key) -> Key:
        """The set's representative."""
        parent = self._parent.setdefault(key, key)
        while parent != self._parent[parent]:
            self._parent[parent] = self._parent[self._parent[parent]]
            parent = self._parent[parent]
        self._parent[key] = parent
        return parent

    def join(self, keys: Iterable[Key]) -> bool:
        """Makes one set of all ``keys``; the smallest (as text) represents it.

        Whether they were not one set before.
        """
        found = {self.find(key) for key in keys}
        if len(found) < 2:
            return False
        roots = sorted(found, key=repr)
        for root in roots[1:]:
            self._parent[root] = roots[0]
        return True


class Roster:
    """The processes of all attempts, and who an event's process is."""

    def __init__(
        self,
        parts: Sequence[Seen],
        task_hosts: dict[int, str],
        same: Sequence[tuple[Seen, Seen]] = (),
        agents: int | None = None,
        *,
        guessed: bool = False,
    ) -> None:
        self._guessed = guessed
        self._agents = Joined()
        self._own = Joined()
        self._bases: dict[Key, int] = {}
        self._task_hosts = task_hosts
        # A host with several tasks has several agents: there a host names none of them.
        agents_on = Counter(task_hosts.values())
        for task, host in sorted(task_hosts.items()):
            if agents_on[host] == 1:
                self._agents.join([("task", task), ("host", host)])
        # Many parts name the same things; each set of names joins but once.
        bonds = tuple({_names(part): part for part in parts}.values())
        for part in bonds:
            self._agents.join(part.agent)
        for one, other in same:
            self._agents.join((*one.agent, *other.agent))
        # A rank seen by two agents' names makes these one agent, which may join more ranks.
        settled = False
        for _ in range(3):
            settled = settled or not self._join_processes(bonds)
        if agents is not None and self._join_last_folder(parts, agents):
            settled = not self._join_processes(bonds)
        self._bases = self._contiguous(bonds)
        if self._bases or not settled:
            self._join_processes(bonds)
        self._named: dict[Key, set[str]] = {}
        for part in parts:
            if part.host is not None and part.agent:
                self._named.setdefault(self._agents.find(part.agent[0]), set()).add(part.host)
        self._processes = self._collect(parts)

    # Whether agents were joined: else doing it again would change nothing.
    def _join_processes(self, parts: Sequence[Seen]) -> bool:
        ranks: list[tuple[Key, Seen]] = []
        for part in parts:
            keys = self._keys(part)
            self._own.join(keys)
            if keys and part.agent and part.rank is not None:
                ranks.append((keys[0], part))
        agents: dict[Key, list[Key]] = {}
        for key, part in ranks:
            agents.setdefault(self._own.find(key), []).extend(part.agent)
        joined = False
        for names in agents.values():
            joined = self._agents.join(names) or joined
        return joined

    def _keys(self, part: Seen) -> list[Key]:
        keys: list[Key] = [(part.attempt, *key) for key in part.own]
        if part.agent and part.local_rank is not None:
            agent = self._agents.find(part.agent[0])
            keys.append((part.attempt, "local", agent, part.local_rank))
            base = self._bases.get((part.attempt, agent))
            if base is not None:
                keys.append((part.attempt, "rank", base + part.local_rank))
        return keys

    # Of as many run folders as agents, all but one of which are joined, the last ones are too.
    def _join_last_folder(self, parts: Sequence[Seen], agents: int) -> bool:
        folders: set[Key] = {("run", part.run) for part in parts if part.run is not None}
        places: set[Key] = {("task", part.task) for part in parts if part.task is not None}
        if not places:
            places = {("host", part.host) for part in parts if part.host is not None}
        if not len(folders) == len(places) == agents > 1:
            return False
        taken = {self._agents.find(key) for key in folders}
        held = {self._agents.find(key) for key in places}
        left = [key for key in folders if self._agents.find(key) not in held]
        free = [key for key in places if self._agents.find(key) not in taken]
        if len(left) != 1 or len(free) != 1 or len(taken) != agents or len(held) != agents:
            return False
        self._agents.join((left[0], free[0]))
        return True

    # torchelastic gives an agent's local ranks consecutive global ranks
    # (agent/server/api.py, _assign_worker_ranks): one of them tells the others.
    def _contiguous(self, parts: Sequence[Seen]) -> dict[Key, int]:
        elastic: set[Key] = set()
        found: dict[Key, set[int]] = {}
        for part in parts:
            for key in part.agent:
                if key[0] in ("table", "agent", "run", "list"):
                    elastic.add((part.attempt, self._agents.find(key)))
            if part.agent and part.rank is not None and part.local_rank is not None:
                place = (part.attempt, self._agents.find(part.agent[0]))
                found.setdefault(place, set()).add(part.rank - part.local_rank)
        return {
            place: next(iter(bases))
            for place, bases in found.items()
            if len(bases) == 1 and place in elastic and min(bases) >= 0
        }

    def _collect(self, parts: Sequence[Seen]) -> dict[Key, Process]:
        groups: dict[Key, list[Seen]] = {}
        for part in parts:
            keys = self._keys(part)
            if keys:
                groups.setdefault(self._own.find(keys[0]), []).append(part)
        return {root: self._process(group) for root, group in groups.items()}

    def _process(self, group: list[Seen]) -> Process:
        task = _only(part.task for part in group)
        hosts = {part.host for part in group if part.host is not None}
        if task is not None and task in self._task_hosts:
            hosts.add(self._task_hosts[task])
        if not hosts:
            hosts = self._agent_hosts(group)
        return Process(
            attempt=group[0].attempt,
            rank=_only(self._rank(part) for part in group),
            local_rank=_only(part.local_rank for part in group),
            host=_one_host(hosts),
            task=task,
            run=_only(part.run for part in group),
            pids=tuple(sorted({part.pid for part in group if part.pid is not None})),
            lines=_heard_lines(group),
            guessed=self._guessed,
        )

    def _rank(self, part: Seen) -> int | None:
        if part.rank is not None or part.local_rank is None or not part.agent:
            return part.rank
        base = self._bases.get((part.attempt, self._agents.find(part.agent[0])))
        return None if base is None else base + part.local_rank

    # A part may name no host, but its agent may be a task whose host is known, or have a table.
    def _agent_hosts(self, group: list[Seen]) -> set[str]:
        roots = {self._agents.find(key) for part in group for key in part.agent}
        placed = {
            host
            for task, host in self._task_hosts.items()
            if self._agents.find(("task", task)) in roots
        }
        return placed or set().union(*(self._named.get(root, set()) for root in roots))

    def process(self, part: Seen | None) -> Process | None:
        """The process that ``part`` is a part of."""
        if part is None:
            return None
        keys = self._keys(part)
        return self._processes.get(self._own.find(keys[0])) if keys else None

    def processes(self, attempt: int) -> tuple[Process, ...]:
        """The attempt's processes, by rank."""
        found = [each for each in self._processes.values() if each.attempt == attempt]
        return tuple(sorted(found, key=_order))


def _names(part: Seen) -> tuple[object, ...]:
    return part.attempt, part.own, part.agent, part.local_rank, part.rank


def _order(process: Process) -> tuple[bool, int, str, int]:
    return (
        process.rank is None,
        process.rank if process.rank is not None else 0,
        process.host or "",
        process.local_rank if process.local_rank is not None else -1,
    )


def _heard_lines(group: list[Seen]) -> int | None:
    counts = [part.lines for part in group if part.lines is not None]
    return sum(counts) if counts else None


def _only(values: Iterable[T | None]) -> T | None:
    found = {value for value in values if value is not None}
    return found.pop() if len(found) == 1 else None


# A node's short name and its full name are one host; the name that Slurm uses is the short one.
def _one_host(hosts: set[str]) -> str | None:
    short = {host for host in hosts if "." not in host}
    if len(short) == 1 and all(host.partition(".")[0] in short for host in hosts):
        return short.pop()
    return _only(hosts)
