"""From documents to what their readers find, and whose that is."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence

import msgspec

from firstfault.model.document import Document, unpacked
from firstfault.model.event import (
    Cancelled,
    EndFacts,
    Event,
    OomNoticed,
    StepEnded,
    TableEntry,
    WorkStatus,
)
from firstfault.model.line import Place, Span
from firstfault.model.slurm import JobFacts
from firstfault.readers import sacct, scontrol
from firstfault.readers.epilog import epilog_event
from firstfault.readers.error_file import error_file_event
from firstfault.readers.flight_recorder import recorded
from firstfault.readers.kernel import kernel_events, quoted_kernel_events
from firstfault.readers.kind import Kind, kind
from firstfault.readers.kubernetes import pod_ends
from firstfault.readers.output import Output, read_output
from firstfault.readers.slurm_log import slurm_notes
from firstfault.readers.times import Zone, zone
from firstfault.runs.folders import folder_host, short
from firstfault.streams.lines import raw_lines, run_folder

# sacct's first column; the delimiter is any.
_ROW = re.compile(r"\s{0,40}([\w.+\[\]-]{1,200})[^\w.+-]")
# A job's number in Slurm's lines: "StepId=12.0", "*** JOB 12 ON n1", "*** STEP 12.0 ON n1".
_STEP = re.compile(r"(?:StepId=|\*\*\* JOB |\*\*\* STEP )(\d{1,19})")


_NUMBER = re.compile(r"(?<!\d)\d{1,19}(?!\d)")

_LONGEST_TAIL = 1 << 16

# What a node's clock and the controller's may differ by.
_CLOCKS = dt.timedelta(minutes=1)

# What tells how Slurm accounts for the job, the one that tells most first. sacct's text and JSON of
# one job say the same; the text has true exit codes on 22.05 and 23.02.
_ACCOUNTS = (Kind.SACCT_TEXT, Kind.SACCT_JSON, Kind.SCONTROL_JOB, Kind.SEFF)


class Read(msgspec.Struct, frozen=True, gc=False):
    """A document and what its reader found in it.

    ``attempts`` are those of ``events``, ``heard`` those of the output's ``heard``, ``advances``
    those of its ``advances``, in the same order. ``end`` is where the document's last line
    begins, ``whole`` whether that line has its end. ``zoned`` is False where an event's time is
    local, of a zone that is not known.
    """

    document: Document
    kind: Kind
    events: tuple[Event, ...] = ()
    attempts: tuple[int, ...] = ()
    output: Output | None = None
    facts: tuple[JobFacts, ...] = ()
    zoned: bool = True
    end: float = float("inf")
    whole: bool = True


def document_order(document: Document) -> tuple[str, str, int]:
    """The order in which documents are read: whatever order they came in."""
    return document.name, document.host or "", document.size or 0


def read_documents(documents: Sequence[Document]) -> list[Read]:
    """What the readers find in each of the documents."""
    return [read_document(document) for document in documents]


def read_document(document: Document) -> Read:
    """What the reader of the document's kind finds in it."""
    return msgspec.structs.replace(_read(unpacked(document)), document=document)


# Who copies a log says by dots that there was more, which is no word of the job's. Where the line
# before begins, infinite without such dots.
def _before_omission(document: Document, last: bytes) -> float:
    start = max(len(last) - _LONGEST_TAIL, 0)
    data = last[start:].rstrip()
    omission = data.rfind(b"\n") + 1
    if omission == 0 or data[omission:].strip(b" []().") or b".." not in data[omission:]:
        return float("inf")
    before = data[:omission].rstrip().rfind(b"\n") + 1
    return document.excerpts[-1].offset + start + before


def _read(document: Document) -> Read:
    what = _kind(document)
    hours = zone(document)
    events: tuple[Event, ...]
    if what is Kind.OUTPUT:
        output = read_output(document, hours)
        events = _with_quoted(output.events, document, hours)
        last = document.excerpts[-1].data if document.excerpts else b""
        return Read(
            document,
            what,
            events,
            output=output,
            zoned=hours.known or not _are_local(events),
            end=min(
                max((each.offset for each in output.heard), default=float("inf")),
                _before_omission(document, last),
            ),
            whole=not last or last.endswith(b"\n"),
        )
    events = ()
    facts: tuple[JobFacts, ...] = ()
    if what is Kind.KERNEL:
        events = tuple(kernel_events(document, hours))
    elif what is Kind.ERROR_FILE:
        error = error_file_event(document)
        events = () if error is None else (error,)
    elif what is Kind.FLIGHT_RECORDER:
        events = recorded(document)
    elif what is Kind.EPILOG:
        end = epilog_event(document)
        events = () if end is None else (end,)
    elif what is Kind.SLURM_LOG:
        events = tuple(slurm_notes(document, hours))
    elif what is Kind.SCONTROL_NODE:
        events = tuple(scontrol.node_notes(document))
    elif what is Kind.KUBERNETES:
        events = tuple(pod_ends(document))
    elif what in _ACCOUNTS:
        facts = _facts(document, what, hours.offset_s if hours.known else None)
    zoned = hours.known or not _are_local(events)
    return Read(document, what, events, facts=facts, zoned=zoned)


# Whether one of them has a local time of a zone that nothing tells.
def _are_local(events: Iterable[Event]) -> bool:
    spans = (getattr(event, "at", None) for event in events)
    return any(isinstance(span, Span) and span.local for span in spans)


# What a collector took as output is that alone; a person's file may have a kernel log below it.
def _with_quoted(events: tuple[Event, ...], document: Document, hours: Zone) -> tuple[Event, ...]:
    if document.what is not None or run_folder(document.name) is not None:
        return events
    quoted = tuple(quoted_kernel_events(document, hours))
    return tuple(sorted((*events, *quoted), key=lambda e: e.place.offset)) if quoted else events


# A machine may call itself otherwise than Slurm does (NodeHostname, several slurmd on one): where
# the job's nodes are known, another name in a table names none of them.
def with_slurms_names(reads: Iterable[Read], nodes: tuple[str, ...]) -> list[Read]:
    """``reads``, with a host in a table only where it is one of the job's nodes."""
    names = frozenset(short(node) for node in nodes)
    return [_with_names(each, names) if _has_table(each) and names else each for each in reads]


def _has_table(read: Read) -> bool:
    return any(isinstance(event, TableEntry) for event in read.events)


def _with_names(read: Read, names: frozenset[str]) -> Read:
    events = tuple(
        msgspec.structs.replace(event, host=None)
        if isinstance(event, TableEntry) and event.host and short(event.host) not in names
        else event
        for event in read.events
    )
    return msgspec.structs.replace(read, events=events)


def named_hosts(reads: Iterable[Read], nodes: Iterable[str]) -> frozenset[str]:
    """All hosts that the documents name."""
    hosts = set(nodes)
    for read in reads:
        hosts.add(read.document.host or "")
        hosts |= hosts_in(read)
    return frozenset(host for host in hosts if host and short(host) != "localhost")


def hosts_in(read: Read) -> set[str]:
    """All hosts that one document's lines name."""
    hosts = {getattr(event, "host", None) for event in read.events}
    if read.output is not None:
        hosts |= {host for _, host in read.output.task_hosts}
        hosts |= {each.speaker.host for each in read.output.heard}
    return {host for host in hosts if host}


# A file that a person named, read anew as its folder's host's. The output of a whole job is
# not one host's, wherever it lies.
def of_folder(read: Read, known: frozenset[str]) -> Read:
    """``read``, as its folder's host's, where that is one of the ``known`` hosts."""
    document = read.document
    if document.host is not None or document.what is not None:
        return read
    host = folder_host(document.name, known)
    if host is None:
        return read
    if read.output is not None and run_folder(document.name) is None:
        labelled = any(each.speaker.task is not None for each in read.output.heard)
        if labelled or any(short(other) != short(host) for other in hosts_in(read)):
            return read
    return read_document(msgspec.structs.replace(document, host=host))


# A job's output is that, whatever its program prints: it cannot speak for the kernel or for
# Slurm's accounting.
def _kind(document: Document) -> Kind:
    found = kind(document)
    written = document.what in ("job-output", "rank-log") or (
        run_folder(document.name) is not None and found is not Kind.ERROR_FILE
    )
    return Kind.OUTPUT if written and found is not Kind.OTHER else found


def _facts(document: Document, what: Kind, offset_s: int | None) -> tuple[JobFacts, ...]:
    data = b"".join(excerpt.data for excerpt in document.excerpts)
    try:
        if what is Kind.SACCT_JSON:
            return tuple(sacct.parse_json(data))
        text = data.decode("utf-8", "replace")
        if what is Kind.SCONTROL_JOB:
            return tuple(scontrol.parse_jobs(text, offset_s))
        if what is Kind.SEFF:
            return tuple(scontrol.parse_seff(text))
        return _placed(sacct.parse_text(text, offset_s), document)
    except ValueError:
        return ()


# With each job's own row of sacct's table.
def _placed(facts: Sequence[JobFacts], document: Document) -> tuple[JobFacts, ...]:
    rows: dict[str, list[Place]] = {}
    for place, text in raw_lines(document):
        if row := _ROW.match(text):
            rows.setdefault(row[1], []).append(place)
    found = []
    for fact in facts:
        own = [place for place in rows.get(fact.id, ()) if (fact.state or "") in place.text]
        found.append(msgspec.structs.replace(fact, said_at=own[0]) if own else fact)
    return tuple(found)


def one_job(reads: Sequence[Read]) -> JobFacts | None:
    """What accounting says of the job, None where it speaks of none or of several."""
    found = [(_ACCOUNTS.index(read.kind), fact) for read in reads for fact in read.facts]
    ids = {fact.raw_id or fact.id for _, fact in found}
    if len(ids) != 1:
        return None
    found.sort(key=lambda each: each[0])
    # Of a job that was requeued, sacct may tell every life; the last one that began answers.
    found = [each for each in found if each[1].state != "PENDING"] or found
    last = max((when for _, fact in found if (when := _life(fact))), default=None)
    for _, fact in found:
        if last is None or _life(fact) in (None, last):
            return fact
    return found[-1][1]


def _life(fact: JobFacts) -> dt.datetime | None:
    return fact.started_at or fact.submitted_at


# A folder may hold other jobs' outputs too; where accounting or an Epilog names the job, an
# output whose Slurm lines name only others is left out, unless it is surely the job's.
def of_the_job(
    reads: Sequence[Read], facts: JobFacts | None, ends: Sequence[EndFacts]
) -> tuple[list[Read], list[str]]:
    """The documents that are the job's own, and notes on those that are left out."""
    own = {facts.id, facts.raw_id} if facts else {end.job for end in ends}
    kept: list[Read] = []
    notes: list[str] = []
    for read in reads:
        named = jobs_named([read])
        if facts is not None and _is_older(read, facts):
            notes.append(f"{read.document.name} is older than the job: it was left out.")
        elif named and any(own) and not named & own and not _is_taken_for(read.document, own):
            jobs = ", ".join(sorted(named))
            notes.append(f"{read.document.name} is the output of job {jobs}: it was left out.")
        else:
            kept.append(read)
    return kept, notes


# What the collector took as the job's output, or what is called after the job, is the job's, though
# its program quotes another one's.
def _is_taken_for(document: Document, own: set[str | None]) -> bool:
    if document.what in ("job-output", "rank-log"):
        return True
    return any(number in own for number in _NUMBER.findall(document.name.rpartition("/")[2]))


# Dumps of the flight recorder have the same names for every job.
def _is_older(read: Read, facts: JobFacts) -> bool:
    begun = [
        event.begun_at
        for event in read.events
        if isinstance(event, WorkStatus) and event.begun_at is not None
    ]
    started = facts.started_at
    return bool(begun) and started is not None and max(begun) < started - _CLOCKS


def jobs_named(reads: Iterable[Read]) -> frozenset[str]:
    """The jobs that Slurm's lines in the documents' output name."""
    return frozenset(
        job
        for read in reads
        if read.kind is Kind.OUTPUT
        for event in read.events
        if isinstance(event, Cancelled | OomNoticed | StepEnded)
        for job in _STEP.findall(event.place.text)
    )
