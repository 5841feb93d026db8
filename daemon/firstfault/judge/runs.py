"""Which of a job's runs answers for it, and whether the job failed at all."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firstfault.faults.card_words import is_last_word
from firstfault.faults.processes import is_torchruns_end
from firstfault.faults.system import PANICS, is_bare
from firstfault.model.event import (
    Cancelled,
    ExitNoticed,
    FatalError,
    Interrupt,
    KernelSign,
    LaunchFailure,
    MemoryPoll,
    NodeFailure,
    OomNoticed,
    PodEnd,
    Sign,
    StepEnded,
    TableEntry,
    TaskEnd,
    Traceback,
)
from firstfault.model.fault import Findings
from firstfault.model.run import Happened, Run, Told
from firstfault.model.slurm import JobFacts

_RANK_EFFECTS = frozenset({"peer-lost", "waited", "ended-by-agent", "terminated", "teardown"})
_SUCCESS = frozenset({"COMPLETED"})


class Answer(msgspec.Struct, frozen=True):
    """``index`` is the run that answers; None: the job did not fail. ``outcomes`` run by run.

    ``sure`` is False where the job may have ended otherwise than that run.
    """

    index: int | None
    outcomes: tuple[str, ...]
    sure: bool


def answering(told: Told, found: Sequence[Findings]) -> Answer:
    """The run that answers for the job.

    The first failing run, unless a later one made progress: then the last failing one. A job that
    succeeded has none.
    """
    failing = [failed(each) for each in found]
    if not _job_failed(told):
        sure = told.facts is not None
        if sure or not failing[-1]:
            return Answer(None, (*_earlier(told, failing, "succeeded"), "succeeded"), sure)
    outcomes = ["failed" if bad else "unknown" for bad in failing]
    last = told.runs[-1]
    went_on = len(found) > 1 and not failing[-1] and not _known_failed(told)
    if went_on and (last.progressed or last.finished_agents > 0):
        whole = 0 < (last.expected_agents or 0) <= last.finished_agents
        ended = "succeeded" if whole else "unknown"
        return Answer(None, (*_earlier(told, failing, "unknown"), ended), False)
    if not any(failing):
        return Answer(len(found) - 1, tuple(outcomes), False)
    first = failing.index(True)
    final = len(failing) - 1 - failing[::-1].index(True)
    progressed = any(run.progressed for run in told.runs[first + 1 :])
    index = final if progressed else first
    sure = not went_on and _failure_is_known(told, told.runs[index])
    return Answer(index, tuple(outcomes), sure)


# What became of the runs before the last one: a life of the job that Slurm ended to requeue it
# was gone through like one that failed.
def _earlier(told: Told, failing: Sequence[bool], otherwise: str) -> list[str]:
    last = told.runs[-1].requeue
    return [
        "recovered" if bad or run.requeue < last else otherwise
        for run, bad in zip(told.runs[:-1], failing[:-1], strict=True)
    ]


# An agent may start its ranks anew after a failure: that the job failed, its table, srun, Slurm or
# an exit status must tell; or nothing followed a rank's last words, and no agent spoke.
def _failure_is_known(told: Told, run: Run) -> bool:
    if _known_failed(told):
        return True
    events = [each.event for each in run.happened]
    if told.outputs == 0 and any(
        isinstance(e, KernelSign) and e.signature in PANICS for e in events
    ):
        # Nothing outlives its node's panic.
        return True
    if any(isinstance(e, KernelSign) and is_bare(told, e) for e in events):
        return True
    ended = any(_is_end(each) for each in run.happened)
    restarts = any(isinstance(e, ExitNoticed) for e in events)
    return ended or (not restarts and _ends_in_words(run))


# A log that ends in a traceback; or in others' words of a lost peer, after an exception that torch
# calls uncaught and that its rank said nothing after; or what C++ says of a card's error as it ends
# a process for it. A rank's own file ends with its attempt, whatever came after.
def _ends_in_words(run: Run) -> bool:
    last = [e for e in run.happened if e.last and e.source != "rank's log"]
    if any(isinstance(e.event, Traceback | FatalError) for e in last):
        return True
    mourning = {
        e.event.place.document
        for e in last
        if isinstance(e.event, Sign) and e.event.means in ("peer-lost", "waited")
    }
    return any(
        (isinstance(e.event, Sign) and e.source != "rank's log" and _is_terminated(e.event))
        or (
            isinstance(e.event, Traceback)
            and e.event.hooked
            and not e.event.followed
            and e.event.place.document in mourning
        )
        for e in run.happened
    )


def _is_terminated(event: Sign) -> bool:
    return is_last_word(event.means, event.place.text) and not event.worked


# A script may go on after something that could not be started; a pod is started anew.
def _is_end(each: Happened) -> bool:
    event = each.event
    if isinstance(event, LaunchFailure):
        return event.fatal and each.last
    if isinstance(event, PodEnd):
        return not event.last
    if isinstance(event, OomNoticed):
        # slurmstepd says so of the batch step as the job ends: its state is OUT_OF_MEMORY then.
        return each.last and event.step == "batch"
    if is_torchruns_end(each):
        return True
    ends = TableEntry | TaskEnd | StepEnded | Cancelled | NodeFailure | MemoryPoll | Interrupt
    return isinstance(event, ends)


def failed(found: Findings) -> bool:
    """Whether anything in a run's findings went wrong."""
    return bool(
        found.faults
        or found.unnamed
        or any(effect.kind in _RANK_EFFECTS for effect in found.effects)
    )


# Slurm's word where there is one. Zero exit codes alone tell little: Slurm leaves them for a
# time limit, a cancellation and a preemption too.
def _job_failed(told: Told) -> bool:
    facts = told.facts
    if facts is not None and facts.state is not None:
        return facts.state not in _SUCCESS or _hides_a_failure(facts)
    return not (told.exit_status == 0 and told.derived_status in (0, None))


# A script may go on after a step that failed: what its last step did, counts.
def _hides_a_failure(facts: JobFacts) -> bool:
    states = {int(step.id): step.state for step in facts.steps if step.id.isdigit()}
    if states and states[max(states)] is not None:
        return states[max(states)] not in _SUCCESS
    code = facts.derived_exit_code
    return code is not None and (code.code, code.signal) != (0, 0)


def _known_failed(told: Told) -> bool:
    facts = told.facts
    if facts is not None and facts.state is not None:
        return facts.state not in _SUCCESS
    return bool(told.exit_status)
