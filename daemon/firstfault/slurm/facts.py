"""Slurm's facts: who can be asked, what an answer is worth, and which incarnation is meant."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from firstfault.model.slurm import JobFacts

# A job in one of these has not ended for Slurm: "not yet", never "no failure".
NOT_ENDED = frozenset(
    {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "RESIZING", "STOPPED"}
)

# The base states in which a job has not done what it was to do.
BAD_ENDS = (
    "BOOT_FAIL",
    "CANCELLED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "TIMEOUT",
)

# The Epilog runs after End (when the job began to complete) by KillWait and the time that its
# processes take to die; the nodes' clocks may differ by a little.
EPILOG_AFTER_END = dt.timedelta(seconds=600)
CLOCKS_DIFFER = dt.timedelta(seconds=60)

# When to ask again while the answer is not final, in seconds after the answer before: accounting
# runs behind the job by its own queue (slurmdbd may be down for minutes).
LADDER_S = (5.0, 30.0, 120.0, 600.0)


class FactsError(RuntimeError):
    """Slurm could not be asked; the message says how and what to do."""


class SlurmFacts(Protocol):
    """Whoever can be asked about jobs."""

    def facts(self, job_ids: Sequence[str]) -> dict[str, list[JobFacts]]:
        """Every incarnation of each job, by the id asked for; unknown jobs are left out.

        The leader of a heterogeneous job has the GPUs of all components. An incarnation of which
        accounting has the end alone (`is_begun`) is unknown.
        ``job_ids`` are plain numbers (JobIDRaw). Raises `FactsError`.
        """

    def ended(self, since: dt.datetime, until: dt.datetime) -> list[JobFacts]:
        """Every incarnation that ended in one of `BAD_ENDS` from ``since`` to ``until``.

        Without its steps; one of which accounting has the end alone is nobody's. Raises
        `FactsError`.
        """


def is_begun(facts: JobFacts) -> bool:
    """False while accounting has a job's end and not its beginning.

    slurmctld tells of beginnings every five seconds, of ends at once. A record that slurmdbd makes
    of an end alone is called "allocation", is root's and has no partition (seen of 22.05.8).
    """
    return facts.name != "allocation" or facts.partition is not None


def of_nobody(facts: JobFacts) -> JobFacts:
    """``facts`` without what only a job's beginning tells, where that is not known."""
    if is_begun(facts):
        return facts
    return msgspec.structs.replace(facts, name=None, user=None, uid=None)


def with_all_gpus(answers: Sequence[JobFacts]) -> list[JobFacts]:
    """``answers``, with the GPUs of all of its components at the leader of a heterogeneous job."""
    components: dict[tuple[str | None, str], dict[str, list[JobFacts]]] = {}
    for facts in answers:
        leader, plus, offset = facts.id.partition("+")
        if plus and leader != facts.raw_id:
            of_job = components.setdefault((facts.cluster, leader), {})
            of_job.setdefault(offset, []).append(facts)
    return [
        _of_all(facts, components.get((facts.cluster, facts.id.partition("+")[0]), {}))
        if facts.raw_id is not None and facts.id.startswith(f"{facts.raw_id}+")
        else facts
        for facts in answers
    ]


def _of_all(leader: JobFacts, components: Mapping[str, Sequence[JobFacts]]) -> JobFacts:
    started_at = leader.started_at
    if started_at is None:
        return leader
    known = [leader.gpus]
    for ends in components.values():
        # Of a requeued job every component has one for each of its incarnations.
        began = [(abs(facts.started_at - started_at), facts) for facts in ends if facts.started_at]
        if began:
            known.append(min(began, key=lambda one: one[0])[1].gpus)
    told = [gpus for gpus in known if gpus is not None]
    return msgspec.structs.replace(leader, gpus=sum(told) if told else None)


def is_final(facts: JobFacts) -> bool:
    """True when neither the job nor a step of it can still change."""
    return has_ended(facts) and all(step.state not in NOT_ENDED for step in facts.steps)


def has_ended(facts: JobFacts) -> bool:
    """True when Slurm says that the job is over, whatever its steps' records say."""
    return facts.state is not None and facts.state not in NOT_ENDED and facts.ended_at is not None


def incarnation(
    answers: Sequence[JobFacts],
    ended_at: dt.datetime,
    cluster: str | None = None,
) -> JobFacts | None:
    """The ended incarnation whose Epilogs ran at ``ended_at``, None where none fits.

    The Epilog of a node that was lost runs when its slurmd is back: that may be days later.
    """
    ended = [
        (facts.ended_at, facts)
        for facts in answers
        if has_ended(facts)
        and facts.ended_at is not None
        and (cluster is None or facts.cluster is None or facts.cluster == cluster)
    ]
    fitting = [
        (abs(ended_at - end), facts)
        for end, facts in ended
        if end - CLOCKS_DIFFER <= ended_at <= end + EPILOG_AFTER_END
    ]
    if fitting:
        return min(fitting, key=lambda one: one[0])[1]
    lost = [facts for end, facts in ended if facts.state == "NODE_FAIL" and end < ended_at]
    return lost[0] if lost and len(answers) == 1 else None


def ask_again_s(asked: int) -> float:
    """Seconds until the next question after ``asked`` questions (1 or more)."""
    return LADDER_S[min(max(asked, 1), len(LADDER_S)) - 1]
