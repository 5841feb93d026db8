"""The parts of processes that single lines name, and which of these are the same process's."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache

import msgspec

from firstfault.model.event import (
    Event,
    ExitNoticed,
    FatalError,
    Frame,
    LauncherEnd,
    Member,
    TableEntry,
    Traceback,
    WorkersStarted,
    WorldSize,
)
from firstfault.model.line import Speaker
from firstfault.runs.attempts import speaker_of
from firstfault.signatures import EFFECTS, meaning_of_exception
from firstfault.streams.lines import run_folder

Key = tuple[Hashable, ...]


class Seen(msgspec.Struct, frozen=True, gc=False):
    """One event's or stream's part of a process: the agent's keys, and the process's own."""

    attempt: int
    agent: tuple[Key, ...]
    own: tuple[Key, ...]
    rank: int | None
    local_rank: int | None
    host: str | None
    task: int | None
    run: str | None
    pid: int | None
    lines: int | None = None


def parts_of(event: Event, attempt: int, *, lone_agent: bool, nodes: int = 0) -> tuple[Seen, ...]:
    """The parts of processes that ``event`` names: one, none, or an agent's list of its ranks.

    ``lone_agent`` says that the event's document has one agent only, so that a local rank alone
    names a process; ``nodes`` is how many nodes the job has, 0 where that is not known.
    """
    if isinstance(event, WorkersStarted):
        who, document = event.speaker, event.place.document
        # Of two agents that the lines do not tell apart, each list is its own.
        key = _agent(event) or (("list", document, event.place.offset),)
        return tuple(
            _seen(
                Seen(
                    attempt,
                    () if lone_agent else key,
                    (),
                    rank,
                    local,
                    who.host,
                    who.task,
                    who.run,
                    None,
                ),
                document,
                lone_agent=lone_agent,
            )
            for local, rank in event.ranks
        )
    part = _part(event, attempt, lone_agent=lone_agent, nodes=nodes)
    return () if part is None else (part,)


# An agent that neither a label nor its pid names may be any of several.
def _agent(event: ExitNoticed | WorkersStarted) -> tuple[Key, ...]:
    task, pid = event.speaker.task, event.agent_pid
    if task is None and pid is None:
        return ()
    return (("agent", event.place.document, task, pid),)


def _part(event: Event, attempt: int, *, lone_agent: bool, nodes: int) -> Seen | None:
    who = speaker_of(event)
    rank, local, host, run, pid = who.rank, who.local_rank, who.host, who.run, None
    agent: list[Key] = []
    if isinstance(event, TableEntry):
        rank, local, pid = event.rank, event.local_rank, event.pid
        host = event.host or host
        folder = run_folder(event.error_file) if event.error_file else None
        run = folder.run if folder else run
        agent.append(("table", event.place.document, who.task, event.table))
    elif isinstance(event, ExitNoticed):
        local, pid = event.local_rank, event.pid
        agent += _agent(event)
    elif isinstance(event, LauncherEnd):
        rank, local, host, pid = event.rank, event.local_rank, event.host or host, event.pid
        if event.launcher == "spawn" and lone_agent and nodes <= 1:
            # On one node the index of a process is its rank.
            rank = local
    elif isinstance(event, Member):
        if not event.known:
            return None
        rank, host, pid = event.rank, event.host, event.pid
    elif isinstance(event, WorldSize):
        rank = event.rank if event.rank is not None else rank
    if local is None and rank is None:
        return None
    return _seen(
        Seen(attempt, tuple(agent), (), rank, local, host, who.task, run, pid),
        event.place.document,
        lone_agent=lone_agent,
    )


def heard(
    who: Speaker, attempt: int, lines: int, document: str, *, lone_agent: bool
) -> Seen | None:
    """The part of a process that a stream of ``lines`` names, None for a launcher's or nobody's."""
    if who.local_rank is None and who.rank is None:
        return None
    part = Seen(attempt, (), (), who.rank, who.local_rank, who.host, who.task, who.run, None, lines)
    return _seen(part, document, lone_agent=lone_agent)


# One and the same where the parts of one process, read one after the other, name it.
@lru_cache(maxsize=1024)
def _key(kind: str, value: int | str) -> Key:
    return kind, value


def _seen(part: Seen, document: str, *, lone_agent: bool) -> Seen:
    agent = list(part.agent)
    if part.task is not None:
        agent.append(_key("task", part.task))
    if part.run is not None:
        agent.append(_key("run", part.run))
    if part.host is not None:
        agent.append(_key("host", part.host))
    if lone_agent and part.task is None:
        agent.append(_key("document", document))
    own: list[Key] = []
    if part.rank is not None:
        own.append(_key("rank", part.rank))
    if part.pid is not None and part.local_rank is not None:
        # Nodes with pid namespaces of their own have the same low pids.
        own.append(("pid", document, part.task, part.pid, part.local_rank))
    return msgspec.structs.replace(part, agent=tuple(agent), own=tuple(own))


def twins(events: Sequence[tuple[Event, Seen | None]]) -> list[tuple[Seen, Seen]]:
    """Pairs of a console's stream and a rank's file that are the same process.

    They are when one error stands in both and nowhere else: the same stack and message, of the
    same local rank and attempt. That a peer was lost tells no rank from another: several say so
    in the same words.
    """
    texts: dict[Key, dict[bool, dict[Seen, tuple[Frame, ...]]]] = {}
    for event, part in events:
        if part is None or part.local_rank is None:
            continue
        if isinstance(event, Traceback):
            sign = meaning_of_exception(event.type, event.message)
            if sign is not None and sign.means in EFFECTS:
                continue
            said: Key = (event.type, event.message)
        elif isinstance(event, FatalError):
            said = (event.signal,)
        else:
            continue
        bare = msgspec.structs.replace(part, pid=None)
        sides = texts.setdefault((part.attempt, part.local_rank, *said), {})
        sides.setdefault(part.run is not None, {})[bare] = event.frames
    pairs = []
    for sides in texts.values():
        files, consoles = sides.get(True, {}), sides.get(False, {})
        if len(files) == 1 and len(consoles) == 1:
            (file, stack), (console, other) = (*files.items(), *consoles.items())
            if stack == other:
                pairs.append((file, console))
    return pairs


def died_alike(events: Sequence[tuple[Event, Seen | None]]) -> list[tuple[Seen, Seen]]:
    """Pairs of a table's entry and a rank's file that are the same process.

    A process that dies of a signal leaves no error.json that would name its run folder. It is
    told by its death where one entry alone has that signal, local rank and attempt, and one
    folder alone has faulthandler's word of it; a folder that a table names is that table's.
    """
    named = {part.run for event, part in events if isinstance(event, TableEntry) and part}
    entries: dict[Key, dict[int, Seen]] = {}
    files: dict[Key, dict[str, Seen]] = {}
    for event, part in events:
        if part is None:
            continue
        if isinstance(event, TableEntry) and event.exit_code < 0:
            key = (part.attempt, part.local_rank, -event.exit_code)
            entries.setdefault(key, {})[event.pid] = part
        elif isinstance(event, FatalError) and part.run is not None and part.run not in named:
            key = (part.attempt, part.local_rank, event.signal)
            files.setdefault(key, {})[part.run] = part
    return [
        (next(iter(files[key].values())), next(iter(found.values())))
        for key, found in sorted(entries.items())
        if len(found) == 1 and len(files.get(key, ())) == 1
    ]
