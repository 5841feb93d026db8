"""One process's end: everything that the evidence says of it, gathered."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from firstfault.faults.exceptions import meaning_of_chain
from firstfault.model.event import (
    AgentSignalled,
    Cancelled,
    ClosingSignal,
    Event,
    ExitNoticed,
    FatalError,
    LauncherEnd,
    OomKill,
    StepEnded,
    TableEntry,
    TaskEnd,
    Traceback,
    Trap,
)
from firstfault.model.line import Span
from firstfault.model.run import Happened, Process, Run
from firstfault.readers.python import parse_exception
from firstfault.signatures import Signature, meaning_of_exception

# The agent's grace time is 30 s; tables tell whole seconds.
_GRACE = dt.timedelta(seconds=29)
# A process that ends says less than this after its exception.
MUCH = 20
_WORKER_PIDS = re.compile(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]{1,200})\)")
_WORKER_SIGNAL = re.compile(
    r"DataLoader worker \(pid \d+\) is killed by signal: ([A-Z][a-z ]{2,30})"
)

# An agent, or another launcher, says how a process ended.
_Exit = ExitNoticed | TableEntry | LauncherEnd | TaskEnd


class Raised(msgspec.Struct, frozen=True):
    """An uncaught exception: its events (console, rank's log, error.json, table), one meaning.

    ``cut`` is True where its line has no end: it may mean more than it says. ``ended`` is False
    where nothing but its place at the end of a log tells that it ended the process, and where it
    may be another's: a thread's, a child's, one that the process went on after.
    """

    event: Traceback
    signature: Signature | None
    seen: tuple[Happened, ...]
    cut: bool = False
    ended: bool = True

    @property
    def means(self) -> str | None:
        """What a signature says that the exception means, None for the program's own."""
        return None if self.signature is None else self.signature.means


class Death(msgspec.Struct, frozen=True):
    """How one process ended. ``exit_code`` is negative for a signal, None where unknown.

    ``closed`` and ``forced``: its agent sent it SIGTERM (at ``closed_at``), or SIGKILL after the
    grace time.
    """

    process: Process
    exit_code: int | None = None
    noticed_at: Span | None = None
    exits: tuple[Happened, ...] = ()
    raised: Raised | None = None
    fatal: tuple[Happened, ...] = ()
    kills: tuple[Happened, ...] = ()
    traps: tuple[Happened, ...] = ()
    closed: bool = False
    forced: bool = False
    closed_at: Span | None = None
    worker_pids: tuple[int, ...] = ()
    worker_signal: str | None = None


def deaths(run: Run) -> tuple[Death, ...]:
    """The end of each process of the run that ended badly or spoke of an error."""
    closings: dict[int, list[ClosingSignal]] = {}
    told: dict[Process, list[Happened]] = {}
    for each in run.happened:
        if isinstance(each.event, ClosingSignal):
            closings.setdefault(each.event.pid, []).append(each.event)
        if each.process is not None:
            told.setdefault(each.process, []).append(each)
    begun = _first_failures(run)
    ended = steps_end(run)
    stopped = _agents_stop(run)
    found = []
    for process in run.roster:
        signals = [event for pid in process.pids for event in closings.get(pid, ())]
        own = [event for event in signals if _ends(event, process)]
        death = _death(process, told.get(process, []), own)
        if death is not None:
            death = _closed_with_agent(_forced_by_time(death, begun), stopped)
            found.append(_forced_by_step(death, ended))
    return tuple(_with_last_words(run, found))


# Where nobody tells how processes ended, a console that ends in an exception ended by it: its
# process did, and so did those that raised the same at their streams' ends.
def _with_last_words(run: Run, found: Sequence[Death]) -> Iterator[Death]:
    lasts = [
        each.event
        for each in run.happened
        if each.last and each.source == "job output" and isinstance(each.event, Traceback)
    ]
    if any(isinstance(each.event, _Exit) for each in run.happened):
        lasts = []
    for death in found:
        raised = death.raised
        if raised is None or raised.ended or not any(says_same(raised.event, e) for e in lasts):
            yield death
            continue
        ended = all(
            isinstance(e.event, Traceback) and e.event.final and not _is_doubtful(e.event)
            for e in raised.seen
        )
        yield msgspec.structs.replace(death, raised=msgspec.structs.replace(raised, ended=ended))


def steps_end(run: Run) -> dict[str, int]:
    """Where srun or slurmstepd first says, by document, that the step is being ended."""
    found: dict[str, int] = {}
    for each in run.happened:
        if isinstance(each.event, StepEnded | Cancelled):
            place = each.event.place
            found[place.document] = min(found.get(place.document, place.offset), place.offset)
    return found


# Where an agent is told to stop, by its document and task; where no label tells agents apart, only
# in a run of which no agent says that a rank of its own failed.
def _agents_stop(run: Run) -> dict[tuple[str, int | None], int]:
    failed = any(isinstance(each.event, ExitNoticed | TableEntry) for each in run.happened)
    found: dict[tuple[str, int | None], int] = {}
    for each in run.happened:
        event = each.event
        if isinstance(event, AgentSignalled) and not (failed and event.speaker.task is None):
            key = (event.place.document, event.speaker.task)
            found[key] = min(found.get(key, event.place.offset), event.place.offset)
    return found


# An agent that is told to stop ends its ranks: what one of them raises below that, and of whose end
# the agent says nothing, may be for that.
def _closed_with_agent(death: Death, stopped: dict[tuple[str, int | None], int]) -> Death:
    if death.exits or death.raised is None:
        return death
    words = [each.event for each in death.raised.seen]
    places = [stopped.get((e.place.document, _task(e)), e.place.offset) for e in words]
    if any(place < e.place.offset for place, e in zip(places, words, strict=True)):
        return msgspec.structs.replace(death, closed=True)
    return death


def _task(event: Event) -> int | None:
    return getattr(getattr(event, "speaker", None), "task", None)


# What srun ends with its step, gets SIGTERM and, after KillWait, SIGKILL.
def _forced_by_step(death: Death, ended: dict[str, int]) -> Death:
    for each in death.exits:
        event = each.event
        if not isinstance(event, TaskEnd) or event.kind != "signal":
            continue
        after = event.place.offset > ended.get(event.place.document, event.place.offset)
        if after and event.number in (9, 15):
            return msgspec.structs.replace(death, closed=True, forced=True)
    return death


# When each table's first failure was noticed.
def _first_failures(run: Run) -> dict[tuple[str, int | None, int], dt.datetime]:
    found: dict[tuple[str, int | None, int], dt.datetime] = {}
    for each in run.happened:
        event = each.event
        if isinstance(event, TableEntry) and event.at is not None and event.at.latest is not None:
            key = (event.place.document, event.speaker.task, event.table)
            found[key] = min(found.get(key, event.at.latest), event.at.latest)
    return found


# torchelastic sends SIGKILL to what has not ended 30 s after its SIGTERM: a table's SIGKILL that
# much later than its first failure is the agent's own, also where no line says so.
def _forced_by_time(death: Death, begun: dict[tuple[str, int | None, int], dt.datetime]) -> Death:
    for each in death.exits:
        event = each.event
        if not isinstance(event, TableEntry) or event.exit_code != -9 or event.at is None:
            continue
        first = begun.get((event.place.document, event.speaker.task, event.table))
        if first and event.at.latest and event.at.latest - first >= _GRACE:
            return msgspec.structs.replace(death, closed=True, forced=True)
    return death


def with_kernel_words(deaths: Iterable[Death], run: Run) -> list[Death]:
    """The deaths with the kernel's lines on their pids, where host and pid agree."""
    words: dict[tuple[int, str | None], list[Happened]] = {}
    hosts: dict[int, dict[str | None, None]] = {}
    for each in run.happened:
        if isinstance(each.event, OomKill | Trap):
            words.setdefault((each.event.pid, each.event.host), []).append(each)
            hosts.setdefault(each.event.pid, {})[each.event.host] = None
    result = []
    for death in deaths:
        own = death.process.host
        mine = [
            each
            for pid in dict.fromkeys((*death.process.pids, *death.worker_pids))
            # A pid names a process on its host only. Where one side's host is not known, the pid
            # must be of a process that really died so: that is the caller's to check.
            for host in ((own, None) if own is not None else hosts.get(pid, ()))
            for each in words.get((pid, host), ())
        ]
        result.append(_with_words(death, mine))
    return result


def _with_words(death: Death, mine: Sequence[Happened]) -> Death:
    return msgspec.structs.replace(
        death,
        kills=_each_once(each for each in mine if isinstance(each.event, OomKill)),
        traps=_each_once(each for each in mine if isinstance(each.event, Trap)),
    )


# A pid names a process of one agent only: another node may have the same.
def _ends(event: ClosingSignal, process: Process) -> bool:
    who = event.speaker
    if who.task is not None and process.task is not None:
        return who.task == process.task
    return who.host is None or process.host is None or who.host == process.host


# Nodes of one machine, and copies of one file, repeat the same kernel line.
def _each_once(found: Iterable[Happened]) -> tuple[Happened, ...]:
    texts: dict[str, Happened] = {}
    for each in found:
        texts.setdefault(each.event.place.text, each)
    return tuple(texts.values())


def _death(process: Process, mine: list[Happened], closings: list[ClosingSignal]) -> Death | None:
    exits = [each for each in mine if isinstance(each.event, _Exit)]
    fatal = tuple(each for each in mine if isinstance(each.event, FatalError))
    raised = _raised(mine, exits)
    if not exits and not fatal and raised is None:
        return None
    codes = {code for each in exits if (code := _code(each.event)) is not None}
    workers: tuple[int, ...] = ()
    signal = None
    if raised is not None:
        texts = [
            text
            for each in raised.seen
            if isinstance(each.event, Traceback)
            for text in texts_of(each.event)
        ]
        workers = tuple(sorted({pid for text in texts for pid in _worker_pids(text)}))
        signal = next(filter(None, map(worker_signal, texts)), None)
    spans = [getattr(each.event, "at", None) for each in exits]
    latest = min((span.latest for span in spans if span and span.latest), default=None)
    return Death(
        process=process,
        exit_code=codes.pop() if len(codes) == 1 else None,
        noticed_at=None if latest is None else Span(None, latest),
        exits=tuple(exits),
        raised=raised,
        fatal=fatal,
        closed=any(not event.forced for event in closings),
        forced=any(event.forced for event in closings),
        closed_at=next((e.at for e in closings if not e.forced and e.at), None),
        worker_pids=workers,
        worker_signal=signal,
    )


# srun's word of a task that is a rank: "oom" is the kernel's SIGKILL.
def _code(event: object) -> int | None:
    if isinstance(event, TaskEnd):
        if event.kind == "oom":
            return -9
        return (
            None if event.number is None else event.number * (-1 if event.kind == "signal" else 1)
        )
    return event.exit_code if isinstance(event, ExitNoticed | TableEntry | LauncherEnd) else None


def texts_of(event: Traceback) -> tuple[str, ...]:
    """The messages of an exception and of those that led to it."""
    return (event.message, *(message for _, message in event.causes))


def worker_signal(text: str) -> str | None:
    """The signal that a DataLoader says ended its worker ("Bus error"), by torch's word for it."""
    match = _WORKER_SIGNAL.search(text)
    return None if match is None else match[1]


def _worker_pids(text: str) -> list[int]:
    match = _WORKER_PIDS.search(text)
    return [int(part) for part in match[1].split(",") if part.strip().isdigit()] if match else []


# The exception that ended the process: what torch's own words call uncaught, else the last
# traceback of a process whose exit code is Python's for an exception.
def _raised(mine: list[Happened], exits: list[Happened]) -> Raised | None:
    found = [each for each in mine if is_exception(each.event)]
    found = [each for each in found if not each.cut] or found
    entries = [e for e in exits if isinstance(e.event, TableEntry) and e.event.error]
    if not found and entries:
        found = [_from_table(entries[0])]
        entries = []
    sure = [
        e for e in found if isinstance(e.event, Traceback) and (e.event.recorded or e.event.hooked)
    ]
    codes = [code for e in exits if (code := _code(e.event)) is not None]
    plain = sorted((e for e in found if e not in sure), key=lambda e: not is_others(e.event))
    ended_by_it = any(code == 1 for code in codes) or bool(entries)
    if not codes and _went_on(mine, plain):
        return None
    if not codes:
        ended_by_it = any(isinstance(e.event, Traceback) and e.event.final for e in plain[-1:])
    chosen = sure or (plain[-1:] if ended_by_it else [])
    if not chosen:
        return None
    # A rank's own files are whole where a console's lines may be mixed or torn.
    last = max(enumerate(chosen), key=lambda each: (_closeness(each[1]), each[0]))[1].event
    assert isinstance(last, Traceback)
    same = [e for e in found if isinstance(e.event, Traceback) and says_same(e.event, last)]
    best = max(same, key=lambda e: _fullness(e.event))
    event = best.event
    assert isinstance(event, Traceback)
    ordered = sorted(
        same, key=lambda e: (isinstance(e.event, Traceback) and e.event.recorded, e.event.place)
    )
    ended = bool(sure or (codes and any(not _is_doubtful(each.event) for each in same)))
    return Raised(event, _signature(event), (*ordered, *entries), best.cut, ended)


def is_others(event: object) -> bool:
    """Whether a thread or a child process raised it: it ends neither the rank nor tells its code."""
    return isinstance(event, Traceback) and (event.thread or event.child)


# A traceback without torch's word that it was not caught, which need not have ended the process.
def _is_doubtful(event: object) -> bool:
    return isinstance(event, Traceback) and (
        is_others(event) or event.mixed or event.cut or event.worked or event.followed > MUCH
    )


# A rank whose work went on after an exception, by another copy of its words or by its own word.
def _went_on(mine: Sequence[Happened], plain: Sequence[Happened]) -> bool:
    if not plain:
        return False
    finished = any(e.means == "finished" for e in mine)
    last = plain[-1].event
    assert isinstance(last, Traceback)
    return finished or any(
        isinstance(e.event, Traceback) and e.event.followed > 0 and says_same(e.event, last)
        for e in plain
    )


def _closeness(each: Happened) -> int:
    if isinstance(each.event, Traceback) and each.event.recorded:
        return 2
    return int(each.source == "rank's log")


def is_exception(event: object) -> bool:
    """Whether a traceback ends in an exception; what a cut log leaves of another line is none."""
    if not isinstance(event, Traceback):
        return False
    return bool(event.message) or "." in event.type or event.type[:1].isupper()


def _from_table(entry: Happened) -> Happened:
    table = entry.event
    assert isinstance(table, TableEntry)
    kind, message = parse_exception(table.error or "") or ("", table.error or "")
    place = table.told_at or table.place
    event = Traceback(place, table.speaker, table.at, kind, message, (), recorded=True)
    return Happened(event, entry.process, entry.source)


def says_same(one: Traceback, other: Traceback) -> bool:
    """Whether two tracebacks tell of the same exception, wherever they stand."""
    return (
        one.type.rpartition(".")[2] == other.type.rpartition(".")[2]
        and one.message.strip()[:200] == other.message.strip()[:200]
    )


def _fullness(event: object) -> tuple[int, int]:
    assert isinstance(event, Traceback)
    return len(event.causes), len(event.frames)


# The first exception of a chain may say more than the last: "exited unexpectedly" says less
# than "killed by signal: Killed".
def _signature(event: Traceback) -> Signature | None:
    own = meaning_of_chain(event)
    if own is not None:
        return own
    for kind, message in event.causes:
        found = meaning_of_exception(kind, message)
        if found is not None and found.means in ("worker-killed", "peer-lost", "waited"):
            return found
    return None
