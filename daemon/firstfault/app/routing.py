"""From a stored job and its verdict to the channels that get it: the rules, given what they ask."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping

import msgspec

from firstfault.app.rules import Decision, Rules, Subject, decide
from firstfault.model import verdict as v
from firstfault.model.evidence import EvidenceError, decode
from firstfault.model.jobs import JobStatus
from firstfault.model.slurm import JobFacts
from firstfault.slurm.facts import has_ended
from firstfault.store import deliveries, evidence, listing
from firstfault.store.database import Database, StoreError

# What the daemon writes on its own host is for everyone who may read it; no rule is asked.
OWN = ("report", "log")

_LONGEST_COMMENT = 4096
_BATCH = "batch"


class Route(msgspec.Struct, frozen=True):
    """The channels that get the verdict, and until when some are held back."""

    channels: tuple[str, ...]
    not_before: Mapping[str, dt.datetime] = {}


# None: it must be waited for what Slurm says.
Router = Callable[[JobStatus, v.Verdict, dt.datetime], Route | None]


def to_all(channels: Collection[str]) -> Router:
    """Everything goes to all ``channels``."""
    everyone = Route(tuple(channels))
    return lambda job, verdict, now: everyone


def by_rules(database: Database, rules: Rules, channels: Collection[str]) -> Router:
    """Everything goes where the rules say, and a revision also to who was sent what it revises."""
    if not rules.rule:
        return to_all(channels)

    def route(job: JobStatus, verdict: v.Verdict, now: dt.datetime) -> Route | None:
        told = deliveries.channels_of(database, job.key) if job.posted else frozenset()
        decided = decision(database, rules, channels, job, verdict, now)
        if decided.waits_for and not told:
            return None
        chosen = {*decided.channels, *told, *OWN}
        held = {name: until for name, until in decided.channels.items() if until is not None}
        return Route(tuple(name for name in channels if name in chosen), held)

    return route


def decision(
    database: Database,
    rules: Rules,
    channels: Collection[str],
    job: JobStatus,
    verdict: v.Verdict,
    now: dt.datetime,
) -> Decision:
    """What the rules say of one job, with why."""
    others = [name for name in channels if name not in OWN]
    return decide(rules, subject(database, rules, job, verdict), others, now)


def subject(database: Database, rules: Rules, job: JobStatus, verdict: v.Verdict) -> Subject:
    """What is known of the job, by Slurm's facts first and then by what its nodes were told."""
    facts = job.facts or JobFacts(id=job.job)
    told = _environment(database, job) if _asks_nodes(rules) else None
    known = told or {}
    user = facts.user or verdict.job.user or known.get("SLURM_JOB_USER")
    days = max((rule.repeat_days or 0.0 for rule in rules.rule), default=0.0)
    same_at = None
    if days and user is not None and verdict.fingerprint is not None:
        since = job.last_ended_at - dt.timedelta(days=days)
        same_at = listing.same_failure_at(database, job, user, verdict.fingerprint, since=since)
    return Subject(
        verdict=verdict,
        user=user,
        partition=facts.partition or known.get("SLURM_JOB_PARTITION"),
        account=facts.account or known.get("SLURM_JOB_ACCOUNT"),
        # Nodes are told of no comment where there is none.
        comment=None if told is None else told.get("SLURM_JOB_COMMENT", "")[:_LONGEST_COMMENT],
        state=facts.state,
        nodes=job.nodes_expected or verdict.job.nodes,
        interactive=_is_interactive(job.facts),
        same_at=same_at,
        ended_at=job.last_ended_at,
        final=job.facts_closed,
    )


def _is_interactive(facts: JobFacts | None) -> bool | None:
    """True for a job of salloc or srun: it has no batch step."""
    if facts is None or not facts.steps or not has_ended(facts):
        return None
    return all(step.id != _BATCH for step in facts.steps)


def _asks_nodes(rules: Rules) -> bool:
    return any(rule.partition or rule.account or rule.user or rule.comment for rule in rules.rule)


def _environment(database: Database, job: JobStatus) -> dict[str, str] | None:
    """What a node's Epilog was told of the job, None where no record of one is there."""
    found = evidence.first(database, job.key)
    try:
        return None if found is None else decode(evidence.unpacked(found)).environment
    except (StoreError, EvidenceError):
        return None  # who judges the job says so
