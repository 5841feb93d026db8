"""From a case's documents to everything that they tell, run by run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from firstfault.model.case import Case
from firstfault.model.document import Document
from firstfault.model.event import Cancelled, EndFacts, NodeFailure, OomNoticed, TaskEnd
from firstfault.model.run import Happened, Run, Told
from firstfault.model.slurm import JobFacts
from firstfault.readers import nodelist
from firstfault.readers.kind import Kind
from firstfault.runs.kernel_logs import kernel_logs
from firstfault.runs.launch import OfLaunch, of_launch
from firstfault.runs.quoted import may_quote, without_quotes
from firstfault.runs.reading import (
    Read,
    document_order,
    jobs_named,
    named_hosts,
    of_folder,
    of_the_job,
    one_job,
    read_documents,
    with_slurms_names,
)
from firstfault.runs.splitting import Launch, launches

T = TypeVar("T")
# What reads documents, in their order.
ReadAll = Callable[[Sequence[Document]], list[Read]]
_ANOTHERS = "The output names no node of the job that accounting tells of: it may be another job's."
_QUOTED = "By srun's words the output holds a launch more than the job had: it may quote a log."
_CLASH = "Several steps place the same task on different hosts: hosts are left open."


def told(case: Case, read_all: ReadAll = read_documents) -> Told:
    """Everything that the case's documents tell; ``read_all`` reads them."""
    reads = read_all(sorted(case.documents, key=document_order))
    ends = [event for each in reads for event in each.events if isinstance(event, EndFacts)]
    facts = case.facts or one_job(reads)
    nodes = _nodes(facts, ends)
    reads, notes = of_the_job(reads, facts, ends)
    reads = with_slurms_names(reads, nodes)
    reads = without_quotes(reads, nodes)
    mixed = _is_anothers(reads, nodes)
    if mixed:
        notes.append(_ANOTHERS)
    known = named_hosts(reads, nodes)
    reads = [of_folder(each, known) for each in reads]
    own = {facts.id, facts.raw_id} if facts else {end.job for end in ends}
    parts = launches(reads, frozenset(job for job in own if job is not None))
    found = [of_launch(launch, nodes) for launch in parts]
    if any(each.clashes for each in found):
        notes.append(_CLASH)
    if may_quote(_since_requeue(parts, found), nodes, _steps(facts)):
        mixed = True
        notes.append(_QUOTED)
    happened = [one for each in found for run in each.runs for one in run.happened]
    jobs = _jobs(happened, facts) | (frozenset() if facts else jobs_named(reads))
    return Told(
        runs=tuple(run for each in found for run in each.runs),
        facts=facts,
        jobs=jobs,
        cluster=(facts.cluster if facts else None) or _first(end.cluster for end in ends),
        user=(facts.user if facts else None) or _first(end.user for end in ends),
        uid=(facts.uid if facts and facts.uid is not None else _first(end.uid for end in ends)),
        nodes=nodes,
        hosts=frozenset().union(*(each.hosts for each in found)),
        absent=case.nodes_absent,
        kernel=kernel_logs(case, _kernel_hosts(reads), facts),
        outputs=sum(each.output is not None for each in reads),
        exit_status=_first(end.exit_status for end in ends),
        derived_status=_first(end.derived_status for end in ends),
        zoned=all(each.zoned for each in reads),
        notes=tuple(notes),
        mixed=mixed,
        no_folder=_first(
            row.path
            for node in case.coverage
            for row in node.coverage
            if row.what == "job-output" and row.reason == "no-folder"
        ),
        worked=tuple(
            (each.document.name, each.output.worked.offset, each.output.worked.plain)
            for each in reads
            if each.output is not None and each.output.worked.offset >= 0
        ),
    )


# The launches of the job's present life: it may have been on other nodes before.
def _since_requeue(parts: Sequence[Launch], found: Sequence[OfLaunch]) -> list[tuple[Run, ...]]:
    last = max((part.requeue for part in parts), default=0)
    return [each.runs for part, each in zip(parts, found, strict=True) if part.requeue == last]


# How many steps srun started, None where accounting does not tell.
def _steps(facts: JobFacts | None) -> int | None:
    if facts is None or not facts.steps:
        return None
    # "0+1" is the part of step 0 on a heterogeneous job's second component.
    numbers = {step.id.partition("+")[0] for step in facts.steps}
    return sum(number.isdigit() for number in numbers)


# srun and slurmstepd name nodes as accounting does: where none of those is the job's, the output is
# another job's.
def _is_anothers(reads: Iterable[Read], nodes: Sequence[str]) -> bool:
    named = {
        event.host
        for each in reads
        for event in each.events
        if isinstance(event, Cancelled | TaskEnd | NodeFailure) and event.host
    }
    return bool(nodes and named) and not named & set(nodes)


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


def _kernel_hosts(reads: Iterable[Read]) -> list[str | None]:
    return [each.document.host for each in reads if each.kind is Kind.KERNEL]


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)
