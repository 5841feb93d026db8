"""When a job is judged, and what is posted. Values in, values out: no clock, no store.

docs/daemon.md draws the states.
"""

from __future__ import annotations

import datetime as dt

import msgspec

from firstfault.model import verdict as v
from firstfault.model.jobs import JobStatus

NONE = "none"
UNKNOWN = "unknown"

# A job of many nodes is judged less often while its records trickle in: judging reads them all.
PACE_NODES = 256


# The collectors of a larger job send one after the other, as Slurm's own messages at its end do.
STAGGERED_NODES = 64
STAGGER_S = 0.002

# Between the last process's death and the last record: Epilogs, collectors, the way here.
REPORTING_S = 10.0
SHORTEST_SETTLE_S = 20.0


class Timing(msgspec.Struct, frozen=True):
    """The settings that say how long is waited, in seconds.

    ``settle_s`` None: as long as Slurm lets processes live after SIGTERM (``kill_wait_s``), and as
    the nodes take to report.
    """

    settle_s: float | None = None
    early_s: float = 5.0
    first_ask_s: float = 1.0
    kill_wait_s: float = 30.0


def settle_s(job: JobStatus, timing: Timing) -> float:
    """How long after the job's end nodes that have not reported are waited for."""
    if timing.settle_s is not None:
        return timing.settle_s
    staggered = job.nodes_expected if job.nodes_expected > STAGGERED_NODES else 0
    return max(SHORTEST_SETTLE_S, timing.kill_wait_s + staggered * STAGGER_S + REPORTING_S)


class Look(msgspec.Struct, frozen=True):
    """What to do with a job now.

    ``judge``: read the evidence. ``settled``: the verdict counts whatever it says; else only a
    confirmed failure does. ``look_at`` is when to look again if nothing comes in, None: never.
    """

    judge: bool
    settled: bool
    look_at: dt.datetime | None


def is_complete(job: JobStatus) -> bool:
    """True when every node of the job has reported.

    Of a heterogeneous job nobody knows so: no node is told how many components there are.
    """
    return job.components == 0 and 0 < job.nodes_expected <= job.nodes_reported


def settles_at(job: JobStatus, timing: Timing) -> dt.datetime:
    """When no more is waited for nodes that have not reported.

    Counted from the job's end by the nodes' clocks, or from the first record's arrival where a
    node's clock is ahead. Records that waited while the daemon was down get a moment to come in
    together.
    """
    ended_at = min(job.first_ended_at, job.first_seen_at)
    waited_s = settle_s(job, timing)
    moment_s = min(timing.early_s, waited_s)
    return max(ended_at + _s(waited_s), job.first_seen_at + _s(moment_s))


def look(job: JobStatus, now: dt.datetime, timing: Timing) -> Look:
    """What is to be done with ``job`` at ``now``."""
    if job.emptied_at is not None:
        return Look(False, True, None)  # of what has come since, too little would be judged
    # Where the clock was set back after the job was claimed, this is what the store says by now.
    job = msgspec.structs.replace(
        job,
        first_seen_at=min(job.first_seen_at, now),
        tried_at=None if job.tried_at is None else min(job.tried_at, now),
    )
    news = (
        job.evidence_revision > job.judged_evidence
        or job.facts_revision > job.judged_facts
        or (job.facts_closed and job.posted == 0 and job.verdict_revision > 0)
    )
    settle_at = settles_at(job, timing)
    settled = job.settled_at is not None or is_complete(job) or now >= settle_at
    pace = _s(timing.early_s * (1 + job.nodes_expected // PACE_NODES))
    if settled:
        if not news and job.verdict_revision > 0:
            return Look(False, True, None)
        # A complete job has nothing more to wait for; a settled one may get a flood of late
        # records, each of which would be judged with all others.
        late = (
            job.settled_at is not None
            and not is_complete(job)
            and job.evidence_revision > job.judged_evidence
            and job.facts_revision == job.judged_facts
        )
        if late and job.tried_at is not None and now < job.tried_at + pace:
            return Look(False, True, job.tried_at + pace)
        return Look(True, True, None)
    next_try = (job.tried_at or job.first_seen_at) + pace
    if news and now >= next_try:
        return Look(True, False, settle_at)
    return Look(False, False, min(settle_at, next_try) if news else settle_at)


def counts(verdict: v.Verdict, settled: bool) -> bool:
    """True when ``verdict`` is to be kept, though nodes may still be missing."""
    return settled or (
        verdict.cause.id not in (NONE, UNKNOWN) and verdict.cause.confidence == v.CONFIRMED
    )


def is_changed(before: v.Verdict | None, after: v.Verdict) -> bool:
    """True when a reader who saw ``before`` must be told ``after``."""
    return before is None or _answer(before) != _answer(after)


def may_post(verdict: v.Verdict, job: JobStatus) -> bool:
    """True when the verdict may go out now.

    A named failure goes at once. "none" never does, and "unknown" waits for Slurm: it is posted
    unless the job succeeded. What corrects an earlier post always goes.
    """
    if job.posted > 0:
        return True
    if verdict.cause.id == NONE:
        return False
    if verdict.cause.id != UNKNOWN:
        return True
    if job.facts is not None:
        return job.facts.state != "COMPLETED"
    return job.facts_closed and job.suspicious


def changes(before: v.Verdict, after: v.Verdict) -> list[str]:
    """What a revision says differently, one sentence part each, for people."""
    said = []
    for what, old, new in (
        ("cause", before.cause.id, after.cause.id),
        ("confidence", before.cause.confidence, after.cause.confidence),
        ("first rank", before.initiator.rank, after.initiator.rank),
        ("host", before.initiator.host, after.initiator.host),
    ):
        if old != new:
            said.append(f"{what} {_shown(old)} -> {_shown(new)}")
    return said


def _answer(verdict: v.Verdict) -> tuple[object, ...]:
    return (
        verdict.cause.id,
        verdict.cause.confidence,
        verdict.initiator.rank,
        verdict.initiator.host,
    )


def _shown(value: object) -> str:
    return "not known" if value is None else str(value)


def _s(seconds: float) -> dt.timedelta:
    return dt.timedelta(seconds=seconds)
