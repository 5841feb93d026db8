"""One launch's runs: who took part in each of its attempts, and what happened to whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from firstfault.model.event import (
    AgentSignalled,
    Cancelled,
    ClosingSignal,
    Event,
    ExitNoticed,
    FatalError,
    GroupEnded,
    Lagging,
    LastWords,
    LaunchBegan,
    LauncherEnd,
    Member,
    OomNoticed,
    RecordedWork,
    ShellKill,
    Sign,
    Stack,
    StepEnded,
    TableEntry,
    TaskEnd,
    TornTraceback,
    Traceback,
    WorkersStarted,
    WorkStatus,
    WorldSize,
)
from firstfault.model.line import Speaker
from firstfault.model.run import Happened, Run
from firstfault.readers.elastic import of_agent
from firstfault.readers.kind import Kind
from firstfault.runs.attempts import Attempts
from firstfault.runs.communicators import with_communicator_ranks
from firstfault.runs.parts import Seen, died_alike, heard, parts_of, twins
from firstfault.runs.reading import Read
from firstfault.runs.roster import Roster
from firstfault.runs.splitting import Launch
from firstfault.runs.tasks import are_surely_ranks, with_task_ranks
from firstfault.streams.lines import run_folder

# What tells who takes part, not what went wrong.
_BENIGN = (WorkersStarted, GroupEnded, LaunchBegan, WorldSize, Member)
# Kernel events, Slurm's lines and a job's facts belong to every attempt; the judge sorts them.
_OF_ATTEMPTS = (
    AgentSignalled,
    ClosingSignal,
    ExitNoticed,
    FatalError,
    LastWords,
    LauncherEnd,
    RecordedWork,
    ShellKill,
    Sign,
    Stack,
    StepEnded,
    TableEntry,
    TornTraceback,
    Traceback,
    WorkStatus,
    Lagging,
)
# So many different lines of a speaker's advance are progress.
_PROGRESS = 2


class OfLaunch(msgspec.Struct, frozen=True):
    """A launch's runs, the hosts that it names, and whether steps place a task differently."""

    runs: tuple[Run, ...]
    hosts: frozenset[str]
    clashes: bool


class _Parts(msgspec.Struct, frozen=True, gc=False):
    """The parts of processes that one document names: by its events, and by its streams."""

    pairs: tuple[tuple[Event, tuple[Seen, ...]], ...]
    streams: tuple[Seen, ...]


def of_launch(launch: Launch, nodes: tuple[str, ...]) -> OfLaunch:
    """The runs of one launch of a job on ``nodes`` (empty where they are not known)."""
    reads = with_communicator_ranks(_in_last_attempt(launch.reads))
    given = launch = msgspec.structs.replace(launch, reads=reads)
    reads = with_task_ranks(launch.reads)
    if reads is not launch.reads:
        launch = msgspec.structs.replace(launch, reads=reads)
    task_hosts, clashes = _task_hosts(reads)
    known: dict[Seen, Seen] = {}
    named = [_named_parts(read, nodes, known) for read in reads]
    parts = [part for each in named for _, found in each.pairs for part in found]
    parts += [part for each in named for part in each.streams]
    pairs = [(event, found[0] if found else None) for each in named for event, found in each.pairs]
    told = {e.agents for e, _ in pairs if isinstance(e, WorkersStarted) and e.agents}
    told = told or {len(nodes)}
    roster = Roster(
        parts,
        task_hosts,
        [*twins(pairs), *died_alike(pairs)],
        agents=told.pop() if len(told) == 1 else None,
        guessed=launch is not given and not are_surely_ranks(given.reads),
    )
    happened = [
        _happened(read, event, found, roster)
        for read, each in zip(reads, named, strict=True)
        for event, found in each.pairs
    ]
    attempts = [attempt for read in reads for attempt in read.attempts]
    numbers = sorted({part.attempt for part in parts} | set(attempts) or {0})
    runs = tuple(
        _run(launch, number, roster, list(zip(happened, attempts, strict=True)))
        for number in numbers
    )
    hosts = {process.host for run in runs for process in run.roster}
    hosts |= {getattr(each.event, "host", None) for each in happened} | set(task_hosts.values())
    return OfLaunch(runs, frozenset(host for host in hosts if host), clashes)


# Each attempt's ranks write their dumps over those of the attempt before.
def _in_last_attempt(reads: tuple[Read, ...]) -> tuple[Read, ...]:
    if not any(read.kind is Kind.FLIGHT_RECORDER for read in reads):
        return reads
    last = max((attempt for read in reads for attempt in read.attempts), default=0)
    return tuple(
        msgspec.structs.replace(read, attempts=(last,) * len(read.events))
        if read.kind is Kind.FLIGHT_RECORDER
        else read
        for read in reads
    )


def _task_hosts(reads: Iterable[Read]) -> tuple[dict[int, str], bool]:
    names: dict[int, set[str]] = {}
    for read in reads:
        if read.output is None:
            continue
        for task, host in read.output.task_hosts:
            names.setdefault(task, set()).add(host)
        for event in read.events:
            if isinstance(event, TaskEnd):
                for task in event.tasks:
                    names.setdefault(task, set()).add(event.host)
    clear = {task: next(iter(hosts)) for task, hosts in names.items() if len(hosts) == 1}
    return clear, len(clear) < len(names)


# Whether a document speaks of one agent's ranks alone, so that a local rank names one of them:
# not where several nodes, tasks, tables or agents speak in it, or one local rank is two ranks or two
# processes, or where a rank failed of which the one table does not tell.
def _lone_agent(read: Read, nodes: tuple[str, ...]) -> bool:
    if len(nodes) > 1:
        return False
    events = read.events
    tables = {(e.speaker.task, e.table) for e in events if isinstance(e, TableEntry)}
    agents = {e.agent_pid for e in events if isinstance(e, ExitNoticed)}
    agents |= {e.agent_pid for e in events if isinstance(e, ClosingSignal) and e.agent_pid}
    envelopes = [e for e in events if isinstance(e, Traceback) and _is_envelope(e)]
    tasks = {task for e in events if isinstance(e, TaskEnd) for task in e.tasks}
    ranks: dict[int, set[int]] = {}
    for each in read.output.heard if read.output is not None else ():
        who = each.speaker
        if who.local_rank is not None and who.rank is not None:
            ranks.setdefault(who.local_rank, set()).add(who.rank)
    several = any(len(each) > 1 for each in (tables, agents, tasks, envelopes))
    alike = all(len(found) == 1 for found in ranks.values())
    return not several and alike and not _has_another_process(read) and not _has_another_rank(read)


def _has_another_process(read: Read) -> bool:
    pids: dict[tuple[int, int], set[int]] = {}
    for event, attempt in zip(read.events, read.attempts, strict=True):
        if isinstance(event, ExitNoticed | TableEntry):
            pids.setdefault((attempt, event.local_rank), set()).add(event.pid)
    return any(len(found) > 1 for found in pids.values())


# A rank that raised an error was ended by its agent, or is in its table.
def _has_another_rank(read: Read) -> bool:
    listed = {event.rank for event in read.events if isinstance(event, TableEntry)}
    ended = {event.pid for event in read.events if isinstance(event, ClosingSignal)}
    raised = {e.speaker.rank for e in read.events if isinstance(e, Traceback) and e.hooked}
    return bool(listed) and len(raised - listed - {None}) > len(ended)


# An agent raises it once, when all is over.
def _is_envelope(event: Traceback) -> bool:
    return event.type.endswith("ChildFailedError") and of_agent(event.frames)


# ``known`` keeps one of each: a job of thousands of nodes names the same ones again and again.
def _named_parts(read: Read, nodes: tuple[str, ...], known: dict[Seen, Seen]) -> _Parts:
    lone = _lone_agent(read, nodes)

    def named(event: Event, attempt: int) -> tuple[Seen, ...]:
        parts = parts_of(event, attempt, lone_agent=lone, nodes=len(nodes))
        return tuple(known.setdefault(part, part) for part in parts)

    pairs = tuple(
        (event, named(event, attempt))
        for event, attempt in zip(read.events, read.attempts, strict=True)
    )
    if read.output is None:
        return _Parts(pairs, ())
    numbers = Attempts(read.events)
    streams = [
        heard(
            each.speaker,
            numbers.at(each.speaker, each.offset),
            each.lines,
            read.document.name,
            lone_agent=lone,
        )
        for each in read.output.heard
    ]
    return _Parts(pairs, tuple(part for part in streams if part is not None))


def _happened(read: Read, event: Event, found: Sequence[Seen], roster: Roster) -> Happened:
    if read.kind is Kind.OUTPUT:
        own = read.document.what == "rank-log" or run_folder(read.document.name) is not None
        source = "rank's log" if own else "job output"
    else:
        source = read.kind.value
    last = event.place.offset >= read.end
    return Happened(
        event,
        roster.process(found[0] if len(found) == 1 else None),
        source,
        last=last,
        cut=(last and not read.whole) or (isinstance(event, Traceback) and event.bare),
    )


# What begins or ends as it should is none of it.
def _is_benign(event: Event) -> bool:
    if isinstance(event, LauncherEnd):
        return event.exit_code == 0
    return isinstance(event, _BENIGN)


def _run(
    launch: Launch, number: int, roster: Roster, happened: Sequence[tuple[Happened, int]]
) -> Run:
    mine = [
        each
        for each, attempt in happened
        if (attempt == number or not isinstance(each.event, _OF_ATTEMPTS))
        and not _is_benign(each.event)
    ]
    told = [each.event for each, attempt in happened if attempt == number]
    sizes = {e.world_size for e in told if isinstance(e, WorkersStarted) and e.world_size}
    sizes = sizes or {event.size for event in told if isinstance(event, WorldSize)}
    agents = {e.agents for e in told if isinstance(e, WorkersStarted) and e.agents}
    return Run(
        attempt=number,
        roster=roster.processes(number),
        happened=tuple(mine),
        progressed=_progressed(launch.reads, number),
        launch=launch.number,
        requeue=launch.requeue,
        step=_step(mine),
        expected_ranks=sizes.pop() if len(sizes) == 1 else None,
        expected_agents=agents.pop() if len(agents) == 1 else None,
        finished_agents=sum(isinstance(e, GroupEnded) and e.how == "finished" for e in told),
    )


# A rank's standard output is its progress, its standard error may hold its failure alone; in a
# console, what loops print of their steps is.
def _progressed(reads: Iterable[Read], number: int) -> bool:
    for read in reads:
        if read.output is None:
            continue
        if run_folder(read.document.name) is not None:
            heard_of = read.output.heard if read.document.name.endswith("stdout.log") else ()
            if any(each.speaker.attempt == number and each.lines > 0 for each in heard_of):
                return True
            continue
        numbers = Attempts(read.events)
        voices: dict[Speaker, set[str]] = {}
        for each in read.output.advances:
            if numbers.at(each.speaker, each.offset) == number:
                voices.setdefault(each.speaker, set()).add(each.text)
        if any(len(texts) >= _PROGRESS for texts in voices.values()):
            return True
    return False


# The step that Slurm's lines name, where it is one.
def _step(happened: Iterable[Happened]) -> str | None:
    steps = {
        each.event.step
        for each in happened
        if isinstance(each.event, Cancelled | StepEnded | OomNoticed) and each.event.step
    }
    return steps.pop() if len(steps) == 1 else None
