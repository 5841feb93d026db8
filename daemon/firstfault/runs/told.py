"""From a case's documents to everything that they tell, run by run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from firstfault.model.case import Case
from firstfault.model.document import Document
from firstfault.model.event import (
    Cancelled,
    EndFacts,
    Event,
    ExitNoticed,
    GroupEnded,
    KernelSign,
    LaunchBegan,
    LauncherEnd,
    NodeFailure,
    OomKill,
    OomNoticed,
    StepEnded,
    TableEntry,
    TaskEnd,
    Trap,
    WorkersStarted,
    WorldSize,
    Xid,
)
from firstfault.model.line import Speaker
from firstfault.model.run import Happened, Run, Told
from firstfault.model.slurm import JobFacts
from firstfault.readers import nodelist, sacct
from firstfault.readers.epilog import epilog_event
from firstfault.readers.error_file import error_file_event
from firstfault.readers.kernel import kernel_events
from firstfault.readers.kind import Kind, kind
from firstfault.readers.output import Output, read_output
from firstfault.readers.times import zone
from firstfault.runs.attempts import attempts, speaker_of
from firstfault.runs.folders import folder_host, short
from firstfault.runs.kernel_logs import kernel_logs
from firstfault.runs.roster import Roster, Seen, died_alike, heard, seen, twins
from firstfault.streams.lines import run_folder

T = TypeVar("T")
# A job's number in Slurm's lines: "StepId=12.0", "*** JOB 12 ON n1", "*** STEP 12.0 ON n1".
_STEP = re.compile(r"(?:StepId=|\*\*\* JOB |\*\*\* STEP )(\d{1,19})")


class _Read(msgspec.Struct, frozen=True):
    document: Document
    kind: Kind
    events: tuple[Event, ...] = ()
    attempts: tuple[int, ...] = ()
    output: Output | None = None
    facts: tuple[JobFacts, ...] = ()
    zoned: bool = True


class _Parts(msgspec.Struct, frozen=True):
    """The parts of processes that one document names: by its events, and by its streams."""

    pairs: tuple[tuple[Event, Seen | None], ...]
    streams: tuple[Seen, ...]


def told(case: Case) -> Told:
    """Everything that the case's documents tell."""
    reads = [_read(document) for document in sorted(case.documents, key=_document_order)]
    notes: list[str] = []
    ends = [event for read in reads for event in read.events if isinstance(event, EndFacts)]
    facts = case.facts or _one_job(reads)
    nodes = _nodes(facts, ends)
    reads, left_out = _of_the_job(reads, facts, ends)
    notes += left_out
    reads = [_with_slurms_names(read, nodes) for read in reads]
    known = _named_hosts(reads, nodes)
    reads = [_of_folder(read, known) for read in reads]
    task_hosts, clashes = _task_hosts(reads)
    if clashes:
        notes.append("Several steps place the same task on different hosts: hosts are left open.")
    named = [_named_parts(read, nodes) for read in reads]
    pairs = [pair for each in named for pair in each.pairs]
    parts = [part for _, part in pairs if part is not None]
    parts += [part for each in named for part in each.streams]
    roster = Roster(parts, task_hosts, [*twins(pairs), *died_alike(pairs)])
    happened = [
        one
        for read, each in zip(reads, named, strict=True)
        for one in _happened(read, each.pairs, roster)
    ]
    jobs = _jobs(happened, facts) | (frozenset() if facts else _named(reads))
    numbers = sorted(
        {part.attempt for part in parts} | {a for r in reads for a in r.attempts} or {0}
    )
    return Told(
        runs=tuple(_run(number, roster, happened, reads) for number in numbers),
        facts=facts,
        jobs=jobs,
        cluster=(facts.cluster if facts else None) or _first(end.cluster for end in ends),
        user=(facts.user if facts else None) or _first(end.user for end in ends),
        uid=(facts.uid if facts and facts.uid is not None else _first(end.uid for end in ends)),
        nodes=nodes,
        hosts=_hosts(roster, numbers, happened, task_hosts),
        absent=case.nodes_absent,
        kernel=kernel_logs(case, _kernel_hosts(reads), facts),
        outputs=sum(read.output is not None for read in reads),
        exit_status=_first(end.exit_status for end in ends),
        derived_status=_first(end.derived_status for end in ends),
        zoned=all(read.zoned for read in reads),
        notes=tuple(notes),
    )


def _document_order(document: Document) -> tuple[str, str, int]:
    return document.name, document.host or "", document.size or 0


def _read(document: Document) -> _Read:
    what = _kind(document)
    hours = zone(document)
    if what is Kind.OUTPUT:
        output = read_output(document, hours)
        timed = any(getattr(event, "at", None) is not None for event in output.events)
        return _Read(
            document,
            what,
            output.events,
            tuple(attempts(output.events)),
            output,
            zoned=hours.known or not timed,
        )
    events: tuple[Event, ...] = ()
    facts: tuple[JobFacts, ...] = ()
    if what is Kind.KERNEL:
        events = tuple(kernel_events(document, hours))
    elif what is Kind.ERROR_FILE:
        error = error_file_event(document)
        events = () if error is None else (error,)
    elif what is Kind.EPILOG:
        end = epilog_event(document)
        events = () if end is None else (end,)
    elif what in (Kind.SACCT_TEXT, Kind.SACCT_JSON):
        facts = _facts(document, what, hours.offset_s)
    numbers = tuple(speaker_of(event).attempt or 0 for event in events)
    return _Read(document, what, events, numbers, None, facts)


# A machine may call itself otherwise than Slurm does (NodeHostname, several slurmd on one): where
# the job's nodes are known, another name in a table names none of them.
def _with_slurms_names(read: _Read, nodes: tuple[str, ...]) -> _Read:
    if not nodes:
        return read
    names = {short(node) for node in nodes}
    events = tuple(
        msgspec.structs.replace(event, host=None)
        if isinstance(event, TableEntry) and event.host and short(event.host) not in names
        else event
        for event in read.events
    )
    return msgspec.structs.replace(read, events=events)


def _named_hosts(reads: Iterable[_Read], nodes: Iterable[str]) -> frozenset[str]:
    hosts = set(nodes)
    for read in reads:
        hosts.add(read.document.host or "")
        hosts |= _hosts_in(read)
    return frozenset(host for host in hosts if host and short(host) != "localhost")


def _hosts_in(read: _Read) -> set[str]:
    hosts = {getattr(event, "host", None) for event in read.events}
    if read.output is not None:
        hosts |= {host for _, host in read.output.task_hosts}
        hosts |= {each.speaker.host for each in read.output.heard}
    return {host for host in hosts if host}


# A file that a person named, read anew as its folder's host's. The output of a whole job is
# not one host's, wherever it lies.
def _of_folder(read: _Read, known: frozenset[str]) -> _Read:
    document = read.document
    if document.host is not None or document.what is not None:
        return read
    host = folder_host(document.name, known)
    if host is None:
        return read
    if read.output is not None and run_folder(document.name) is None:
        labelled = any(each.speaker.task is not None for each in read.output.heard)
        if labelled or any(short(other) != short(host) for other in _hosts_in(read)):
            return read
    return _read(msgspec.structs.replace(document, host=host))


# A job's output is that, whatever its program prints: it cannot speak for the kernel or for
# Slurm's accounting.
def _kind(document: Document) -> Kind:
    found = kind(document)
    written = document.what in ("job-output", "rank-log") or (
        run_folder(document.name) is not None and found is not Kind.ERROR_FILE
    )
    return Kind.OUTPUT if written and found is not Kind.OTHER else found


def _facts(document: Document, what: Kind, offset_s: int) -> tuple[JobFacts, ...]:
    data = b"".join(excerpt.data for excerpt in document.excerpts)
    try:
        if what is Kind.SACCT_JSON:
            return tuple(sacct.parse_json(data))
        return tuple(sacct.parse_text(data.decode("utf-8", "replace"), offset_s))
    except ValueError:
        return ()


# sacct's text and JSON of one job say the same; the text has true exit codes on 22.05 and 23.02.
def _one_job(reads: Sequence[_Read]) -> JobFacts | None:
    found = [(read.kind is Kind.SACCT_JSON, fact) for read in reads for fact in read.facts]
    ids = {fact.raw_id or fact.id for _, fact in found}
    if len(ids) != 1:
        return None
    found.sort(key=lambda each: each[0])
    last = max((fact.submitted_at for _, fact in found if fact.submitted_at), default=None)
    for _, fact in found:
        if last is None or fact.submitted_at in (None, last):
            return fact
    return found[-1][1]


# A folder may hold other jobs' outputs too; where accounting or an Epilog names the job, an
# output whose Slurm lines name only others is left out.
def _of_the_job(
    reads: Sequence[_Read], facts: JobFacts | None, ends: Sequence[EndFacts]
) -> tuple[list[_Read], list[str]]:
    own = {facts.id, facts.raw_id} if facts else {end.job for end in ends}
    kept: list[_Read] = []
    notes: list[str] = []
    for read in reads:
        named = _named([read])
        if named and any(own) and not named & own:
            jobs = ", ".join(sorted(named))
            notes.append(f"{read.document.name} is the output of job {jobs}: it was left out.")
        else:
            kept.append(read)
    return kept, notes


def _named(reads: Iterable[_Read]) -> frozenset[str]:
    return frozenset(
        job
        for read in reads
        if read.kind is Kind.OUTPUT
        for event in read.events
        if isinstance(event, Cancelled | OomNoticed | StepEnded)
        for job in _STEP.findall(event.place.text)
    )


def _task_hosts(reads: Iterable[_Read]) -> tuple[dict[int, str], bool]:
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
# not where several nodes, tasks, tables or agents speak in it, or one local rank is two ranks.
def _lone_agent(read: _Read, nodes: tuple[str, ...]) -> bool:
    events = read.events
    tables = {(e.speaker.task, e.table) for e in events if isinstance(e, TableEntry)}
    agents = {e.agent_pid for e in events if isinstance(e, ExitNoticed)}
    tasks = {task for e in events if isinstance(e, TaskEnd) for task in e.tasks}
    ranks: dict[int, set[int]] = {}
    for each in read.output.heard if read.output is not None else ():
        who = each.speaker
        if who.local_rank is not None and who.rank is not None:
            ranks.setdefault(who.local_rank, set()).add(who.rank)
    several = max(len(nodes), len(tables), len(agents), len(tasks)) > 1
    return not several and all(len(found) == 1 for found in ranks.values())


def _named_parts(read: _Read, nodes: tuple[str, ...]) -> _Parts:
    lone = _lone_agent(read, nodes)
    pairs = tuple(
        (event, seen(event, attempt, lone_agent=lone))
        for event, attempt in zip(read.events, read.attempts, strict=True)
    )
    streams = [
        heard(each.speaker, each.lines, read.document.name, lone_agent=lone)
        for each in (read.output.heard if read.output is not None else ())
    ]
    return _Parts(pairs, tuple(part for part in streams if part is not None))


def _happened(
    read: _Read, pairs: Iterable[tuple[Event, Seen | None]], roster: Roster
) -> list[Happened]:
    if read.kind is Kind.OUTPUT:
        own = read.document.what == "rank-log" or run_folder(read.document.name) is not None
        source = "rank's log" if own else "job output"
    else:
        source = read.kind.value
    end = _last_line(read)
    cut = read.kind is Kind.OUTPUT and not _ends_whole(read.document)
    return [
        Happened(
            event,
            roster.process(part),
            source,
            last=event.place.offset >= end,
            cut=cut and event.place.offset >= end,
        )
        for event, part in pairs
    ]


# What begins or ends as it should tells who takes part, not what went wrong.
def _is_benign(event: Event) -> bool:
    if isinstance(event, LauncherEnd):
        return event.exit_code == 0
    return isinstance(event, WorkersStarted | GroupEnded | LaunchBegan | WorldSize)


def _last_line(read: _Read) -> float:
    heard = read.output.heard if read.output is not None else ()
    return max((each.offset for each in heard), default=float("inf"))


def _ends_whole(document: Document) -> bool:
    last = document.excerpts[-1].data if document.excerpts else b""
    return not last or last.endswith(b"\n")


# Kernel events, Slurm's lines and a job's facts belong to every attempt; the judge sorts them.
def _run(number: int, roster: Roster, happened: Sequence[Happened], reads: Sequence[_Read]) -> Run:
    numbers = [attempt for read in reads for attempt in read.attempts]
    mine = [
        each
        for each, attempt in zip(happened, numbers, strict=True)
        if (attempt == number or not _has_attempt(each.event)) and not _is_benign(each.event)
    ]
    progressed = any(
        each.lines > 0
        for read in reads
        if read.output is not None
        for each in read.output.heard
        if each.speaker.attempt == number and _is_progress(read, each.speaker)
    )
    return Run(number, roster.processes(number), tuple(mine), progressed)


def _has_attempt(event: Event) -> bool:
    return not isinstance(
        event,
        OomKill
        | Trap
        | KernelSign
        | Xid
        | TaskEnd
        | OomNoticed
        | Cancelled
        | NodeFailure
        | EndFacts,
    )


# A rank's standard output is its progress; its standard error may hold its failure alone.
def _is_progress(read: _Read, speaker: Speaker) -> bool:
    return speaker.run is not None and read.document.name.endswith("stdout.log")


def _jobs(happened: Iterable[Happened], facts: JobFacts | None) -> frozenset[str]:
    jobs: set[str] = set()
    if facts is not None:
        return frozenset({facts.id, facts.raw_id or facts.id})
    for each in happened:
        event = each.event
        if isinstance(event, Cancelled | OomNoticed | EndFacts) and event.job:
            jobs.add(event.job)
    return frozenset(jobs)


def _nodes(facts: JobFacts | None, ends: Sequence[EndFacts]) -> tuple[str, ...]:
    for text in (facts.nodes if facts else None, *(end.nodes for end in ends)):
        if text:
            try:
                return nodelist.expand(text)
            except nodelist.NodeListError:
                continue
    return ()


def _hosts(
    roster: Roster, numbers: Iterable[int], happened: Iterable[Happened], task_hosts: dict[int, str]
) -> frozenset[str]:
    hosts = {process.host for number in numbers for process in roster.processes(number)}
    hosts |= {getattr(each.event, "host", None) for each in happened}
    return frozenset(host for host in (*hosts, *task_hosts.values()) if host)


def _kernel_hosts(reads: Iterable[_Read]) -> list[str | None]:
    return [read.document.host for read in reads if read.kind is Kind.KERNEL]


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)
