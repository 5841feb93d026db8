"""From evidence to verdict: read, split into runs, judge. Pure: no I/O, no clock."""

from __future__ import annotations

import msgspec

from firstfault.faults.findings import findings
from firstfault.judge.decide import Judgement, at_most_likely, decide
from firstfault.judge.facts import facts_of
from firstfault.judge.runs import answering
from firstfault.judge.surroundings import surroundings
from firstfault.judge.verdict import assemble
from firstfault.judge.went_on import went_on
from firstfault.model import verdict as v
from firstfault.model.case import Case
from firstfault.model.event import (
    EndFacts,
    Event,
    LastWords,
    LaunchBegan,
    LaunchFailure,
    Member,
    Sign,
    SlurmNote,
    Stack,
    TaskStatus,
    Traceback,
    WorkersStarted,
    WorldSize,
    Xid,
)
from firstfault.model.fault import Proof
from firstfault.model.run import Run, Told
from firstfault.readers.alarm import alarms
from firstfault.readers.kind import Kind, kind
from firstfault.report import causes
from firstfault.runs.reading import read_documents
from firstfault.runs.told import ReadAll
from firstfault.runs.told import told as read
from firstfault.signatures import forget_exceptions


def diagnose(case: Case, read_all: ReadAll = read_documents) -> v.Verdict:
    """The verdict on ``case``; the same case gives the same verdict, in any order of its parts.

    ``read_all`` reads the case's documents.
    """
    try:
        return _diagnose(case, read_all)
    finally:
        forget_exceptions()


def _diagnose(case: Case, read_all: ReadAll) -> v.Verdict:
    told = read(case, read_all)
    found = [findings(told, run) for run in told.runs]
    answer = answering(told, found)
    if answer.index is None:
        confidence = v.CONFIRMED if answer.sure and not told.mixed else v.LIKELY
        judged = Judgement("none", confidence, v.UNKNOWN)
        return _say(case, told, None, judged, answer.outcomes)
    run = told.runs[answer.index]
    judgement = decide(told, found[answer.index])
    if not answer.sure or went_on(told, run, judgement):
        judgement = at_most_likely(judgement)
    strange = found[answer.index].strange
    if judgement.cause == "unknown" and not judgement.roots and _is_healthy(told, run):
        strange = (*strange, *_alarms(case))
        if not strange:
            judgement = Judgement("none", v.POSSIBLE, v.UNKNOWN)
    return _say(case, told, answer.index, judgement, answer.outcomes, strange)


def _say(
    case: Case,
    told: Told,
    index: int | None,
    judgement: Judgement,
    outcomes: tuple[str, ...],
    strange: tuple[Proof, ...] = (),
) -> v.Verdict:
    run = None if index is None else told.runs[index]
    verdict = assemble(
        told,
        run or (told.runs[-1] if told.runs else None),
        judgement,
        outcomes,
        strange,
        causes.cause(judgement.cause).domain,
        causes.remedy(judgement.cause, facts_of(told, run, judgement)),
    )
    around = surroundings(verdict.evidence, case.documents)
    return msgspec.structs.replace(verdict, surroundings=around)


# Output in which nothing went wrong, of a job of which Slurm has said nothing else.
def _is_healthy(told: Told, run: Run) -> bool:
    facts = told.facts
    ended_badly = facts is not None and facts.state not in (None, "COMPLETED")
    alarmed = any(_is_alarming(each.event) for each in run.happened)
    return told.outputs > 0 and not ended_badly and not told.exit_status and not alarmed


# A shell goes on after a command that it did not find; daemons' logs tell of other jobs.
def _is_alarming(event: Event) -> bool:
    if isinstance(event, LaunchFailure):
        return event.fatal
    if isinstance(event, Sign):
        return event.means != "finished"
    if isinstance(event, Traceback):
        return not event.followed
    begun = LaunchBegan | WorkersStarted | WorldSize | Member
    harmless = EndFacts | SlurmNote | TaskStatus | Xid | LastWords | Stack
    return not isinstance(event, harmless | begun)


# Words of trouble that nothing knows, at the end of an output.
def _alarms(case: Case) -> tuple[Proof, ...]:
    return tuple(
        Proof(place, "job output")
        for document in sorted(case.documents, key=lambda document: document.name)
        if kind(document) is Kind.OUTPUT
        for place in alarms(document)
    )
