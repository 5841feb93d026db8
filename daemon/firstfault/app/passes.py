"""One pass of each kind of work: take in, judge, ask Slurm, deliver. Each returns what it did.

A pass claims what is due, does it and stores it; a crash at any point leaves the work claimable.
"""

from __future__ import annotations

import datetime as dt
import logging
import random
import time
from collections.abc import Callable

import msgspec

from firstfault.app import counters, lifecycle, memory
from firstfault.app import ends as which_ends
from firstfault.app.admission import admitted
from firstfault.app.journal import say, trouble
from firstfault.app.routing import OWN, Router, to_all
from firstfault.config import Ends
from firstfault.deliver.outcome import Channel, Failed, Needless, retry_at
from firstfault.intake.case import case, has_guessed_output
from firstfault.model import verdict as v
from firstfault.model.case import Case
from firstfault.model.jobs import (
    COLLECTING,
    DELIVERED,
    JUDGED,
    REVISED,
    SETTLED,
    Delivery,
    JobStatus,
)
from firstfault.model.texts import storable
from firstfault.report.masking import masked
from firstfault.slurm.facts import (
    FactsError,
    SlurmFacts,
    ask_again_s,
    has_ended,
    incarnation,
    is_final,
)
from firstfault.store import deliveries, listing, work
from firstfault.store import evidence as stored_evidence
from firstfault.store.backlog import last_record_at
from firstfault.store.database import Database

# After these, work that a killed daemon had claimed is done by the next one. A worker that is only
# slow loses nothing: what it has is its own until somebody else claims it.
JUDGE_LEASE_S = 60.0
JUDGE_LEASE_S_A_NODE = 0.01
LARGE_NODES = 1000
ASK_LEASE_S = 150.0  # pyslurm may take slurm.timeout_s, and sacct after it
DELIVER_LEASE_S = 60.0
BATCH = 50
ASK_BATCH = 500
# Time also passes while the daemon is down, and where the clock is set forward.
LEAST_ASKED = 3

# Nobody is told by what the daemon writes on its own host: shadow mode leaves it on.
REPORT, PRINTED = OWN

DEFAULT_ENDS = Ends()

Clock = Callable[[], dt.datetime]
Diagnose = Callable[[Case], v.Verdict]


def judge(
    database: Database,
    diagnose: Diagnose,
    timing: lifecycle.Timing,
    channels: tuple[str, ...],
    clock: Clock,
    ends: Ends = DEFAULT_ENDS,
    shadow: tuple[str, ...] = (),
    route: Router | None = None,
) -> int:
    """Looks at the jobs that are due; returns how many there were.

    ``route`` tells which channels get a verdict, without it all ``channels``. Those in ``shadow``
    get deliveries that are kept back.
    """
    route = route or to_all(channels)
    claimed_at = clock()
    claim = work.claim_jobs(database, claimed_at, JUDGE_LEASE_S, BATCH)
    for job in claim.jobs:
        begun = time.monotonic()
        late = clock() > claimed_at + dt.timedelta(seconds=JUDGE_LEASE_S / 3)
        if late or job.nodes_reported > LARGE_NODES:
            lease_s = JUDGE_LEASE_S + job.nodes_reported * JUDGE_LEASE_S_A_NODE
            if not work.renew(database, claim, job, clock(), lease_s):
                continue  # another daemon has it by now
        outcome = _outcome(database, diagnose, timing, route, job, clock(), ends)
        outcome = msgspec.structs.replace(outcome, shadow=shadow)
        if work.finish(database, claim, job, outcome, clock()) and outcome.verdict is not None:
            _tell(job, outcome)
        counters.JUDGING_SECONDS.observe(time.monotonic() - begun)
    return len(claim.jobs)


def ask(database: Database, slurm: SlurmFacts, give_up_s: float, clock: Clock) -> int:
    """Asks Slurm of the jobs that are due, in one question; returns how many there were."""
    now = clock()
    jobs = work.claim_questions(database, now, ASK_LEASE_S, ASK_BATCH)
    if not jobs:
        return 0
    begun = time.monotonic()
    try:
        found = slurm.facts([job.job for job in jobs])
        counters.SLURM_QUESTIONS.labels("answered").inc()
    except FactsError as error:
        counters.SLURM_QUESTIONS.labels("failed").inc()
        say(logging.WARNING, "slurm-not-answering", jobs=len(jobs), error=error)
        found = {}
    counters.SLURM_QUESTION_SECONDS.observe(time.monotonic() - begun)
    now = clock()
    answers = []
    for job in jobs:
        facts = incarnation(found.get(job.job, ()), job.last_ended_at, job.cluster)
        final = facts is not None and is_final(facts)
        asked = job.facts_asked + 1
        waited_s = (now - (job.settled_at or job.first_seen_at)).total_seconds()
        gave_up = waited_s >= give_up_s and (asked >= LEAST_ASKED or give_up_s == 0)
        again = now + dt.timedelta(seconds=ask_again_s(asked))
        answers.append(work.Answer(job.key, facts, final or gave_up, again))
        if facts is not None and has_ended(facts):
            say(logging.INFO, "slurm-facts", job=job.job, state=facts.state, final=final)
        elif gave_up and give_up_s > 0:
            say(logging.WARNING, "slurm-facts-given-up", job=job.job, asked=asked)
    work.store_answers(database, answers, now)
    return len(jobs)


class Turn(msgspec.Struct, frozen=True):
    """What came of trying to deliver: how many were due, whether the receiver failed in a way
    that may pass, and for how many seconds it asked to be left alone."""

    done: int
    away: bool = False
    hold_s: float = 0.0


def deliver(database: Database, name: str, channel: Channel, attempts: int, clock: Clock) -> Turn:
    """Sends the next delivery that is due on ``channel``."""
    due = deliveries.claim(database, name, clock(), DELIVER_LEASE_S, 1)
    failures = [_deliver(database, channel, attempts, delivery, clock) for delivery in due]
    away = [failed for failed in failures if failed is not None and failed.retry]
    return Turn(
        done=len(due),
        away=bool(away),
        hold_s=max((failed.after_s or 0.0 for failed in away), default=0.0),
    )


def _deliver(
    database: Database, channel: Channel, attempts: int, delivery: Delivery, clock: Clock
) -> Failed | None:
    known = {
        "job": delivery.current.job,
        "channel": delivery.channel,
        "delivery": delivery.delivery_id,
        "attempt": delivery.attempts,
    }
    if (
        delivery.channel != REPORT
        and delivery.previous is None
        and delivery.current.verdict.cause.id == lifecycle.NONE
    ):
        # The failure that this takes back was never sent here.
        deliveries.needless(database, delivery, "nothing to take back")
        return None
    made = True
    try:
        result = channel.send(delivery)
    except Exception as error:  # noqa: BLE001 - boundary: one message must not stop the others
        trouble("delivery-error", **known)
        result, made = Failed(f"could not be made: {type(error).__name__}"), False
    if isinstance(result, Needless):
        deliveries.needless(database, delivery, result.reason)
        say(logging.INFO, "delivery-needless", **known, reason=result.reason)
        return None
    if not isinstance(result, Failed):
        _note_sent(database, delivery, clock())
        say(logging.INFO, "delivered", **known)
        return None
    chance = random.random()  # noqa: S311 - no secret
    again = retry_at(result, delivery.attempts, attempts, clock(), chance)
    deliveries.failed(database, delivery, result.reason, again)
    counters.DELIVERIES.labels(delivery.channel, "failed" if again else "given-up").inc()
    if again is None:
        say(logging.ERROR, "delivery-given-up", **known, error=result.reason)
    else:
        say(logging.WARNING, "delivery-failed", **known, retry_at=again, error=result.reason)
    return result if made and not result.alone else None


def _note_sent(database: Database, delivery: Delivery, now: dt.datetime) -> None:
    deliveries.sent(database, delivery, now)
    counters.DELIVERIES.labels(delivery.channel, "sent").inc()
    known_at = last_record_at(database, delivery.key) if delivery.previous is None else None
    if known_at is not None:
        waited_s = max(0.0, (now - known_at).total_seconds())
        counters.FIRST_DELIVERY_SECONDS.labels(delivery.channel).observe(waited_s)


def _outcome(
    database: Database,
    diagnose: Diagnose,
    timing: lifecycle.Timing,
    route: Router,
    job: JobStatus,
    now: dt.datetime,
    ends: Ends,
) -> work.Outcome:
    look = lifecycle.look(job, now, timing)
    outcome = work.Outcome(
        state=_waiting_state(job, look.settled),
        settled_at=job.settled_at or (now if look.settled else None),
        tried_at=job.tried_at,
        judged_evidence=job.judged_evidence,
        judged_facts=job.judged_facts,
        look_at=look.look_at,
        ask_at=_first_question(job, now, timing) if look.settled else None,
    )
    if not look.judge:
        return outcome
    verdict, is_guess = _verdict(database, diagnose, job)
    outcome = msgspec.structs.replace(
        outcome,
        tried_at=now,
        judged_evidence=job.evidence_revision,
        judged_facts=job.facts_revision,
    )
    if not lifecycle.counts(verdict, look.settled):
        return outcome
    before = (
        listing.verdict_of(database, job.key, job.verdict_revision)
        if job.verdict_revision
        else None
    )
    changed = lifecycle.is_changed(before, verdict)
    unsent = changed or job.posted != job.verdict_revision
    # Slurm knows whose output it is.
    waits = is_guess and job.facts is None and not job.facts_closed
    may = unsent and lifecycle.may_post(verdict, job) and _is_reported(ends, verdict, job)
    routed = route(job, verdict, now) if may and not waits else None
    post = routed is not None
    return msgspec.structs.replace(
        outcome,
        state=JUDGED if post or job.state not in (DELIVERED, REVISED) else job.state,
        settled_at=outcome.settled_at or now,
        ask_at=_first_question(job, now, timing),
        look_at=None,
        verdict=verdict if changed else None,
        refreshed=None if changed or verdict == before else verdict,
        channels=routed.channels if routed is not None else (),
        not_before=routed.not_before if routed is not None else {},
        redo=(REPORT,) if not changed and verdict != before and job.posted else (),
        post=post,
    )


# What corrects an earlier message always goes.
def _is_reported(ends: Ends, verdict: v.Verdict, job: JobStatus) -> bool:
    return job.posted > 0 or which_ends.is_reported(ends, verdict, job.facts, job.facts_closed)


# Apart, so that the records, which the case repeats, are let go before it is judged.
def _case(database: Database, job: JobStatus) -> tuple[Case, tuple[str, ...], bool]:
    records, notes = admitted(stored_evidence.packed(database, job.key), job)
    return case(records, job.facts), notes, has_guessed_output(records)


# With whether it may be another job's output that tells.
def _verdict(database: Database, diagnose: Diagnose, job: JobStatus) -> tuple[v.Verdict, bool]:
    is_guess = False
    try:
        told, notes, is_guess = _case(database, job)
        if job.nodes_reported >= lifecycle.PACE_NODES:
            memory.give_back()
        verdict = diagnose(told)
        if notes:
            verdict = msgspec.structs.replace(verdict, notes=(*verdict.notes, *notes))
        verdict = masked(storable(verdict))
    except Exception as error:  # noqa: BLE001 - boundary: the other jobs must be judged
        counters.JUDGING_ERRORS.inc()
        trouble("judging-error", job=job.job)
        note = f"The evidence could not be judged ({type(error).__name__}); the log says why."
        verdict = v.Verdict(
            job=v.Job(nodes=job.nodes_expected or None),
            cause=v.Cause(
                lifecycle.UNKNOWN, "The evidence could not be judged", "either", v.UNKNOWN
            ),
            notes=(note,),
        )
    if verdict.job.id is None:
        whose = msgspec.structs.replace(verdict.job, id=job.job, cluster=job.cluster)
        verdict = msgspec.structs.replace(verdict, job=whose)
    return verdict, is_guess


def _waiting_state(job: JobStatus, settled: bool) -> str:
    if job.verdict_revision:
        return job.state
    return SETTLED if settled else COLLECTING


def _first_question(
    job: JobStatus, now: dt.datetime, timing: lifecycle.Timing
) -> dt.datetime | None:
    if job.settled_at is not None or job.facts_closed:
        return None  # asked already: the answers say when to ask again
    return now + dt.timedelta(seconds=timing.first_ask_s)


def _tell(job: JobStatus, outcome: work.Outcome) -> None:
    assert outcome.verdict is not None
    cause = outcome.verdict.cause
    counters.VERDICTS.labels(cause.domain, cause.confidence).inc()
    say(
        logging.INFO,
        "judged",
        cluster=job.cluster,
        job=job.job,
        revision=job.verdict_revision + 1,
        nodes=f"{job.nodes_reported}/{job.nodes_expected}",
        cause=cause.id,
        confidence=cause.confidence,
        rank=outcome.verdict.initiator.rank,
        host=outcome.verdict.initiator.host,
        posted=outcome.post,
    )
