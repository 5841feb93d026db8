"""The work that is due: jobs to look at, and questions for Slurm. Claimed by row, with leases.

A claim that its worker does not finish (it died) is free again after the lease.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.model.slurm import JobFacts
from firstfault.store import failures, incidents, silent
from firstfault.store.database import JOBS, Database, hold
from firstfault.store.schema import deliveries, jobs, messages, verdicts


class Claim(msgspec.Struct, frozen=True):
    """Jobs that this worker may judge until the lease ends."""

    lease: str
    jobs: tuple[j.JobStatus, ...]


class Outcome(msgspec.Struct, frozen=True):
    """What looking at a job gave; stored in one transaction with its deliveries.

    ``verdict`` is a new revision, ``refreshed`` the same verdict with more facts (no new
    revision). ``channels`` get a delivery of the newest revision; those of them in ``shadow`` keep
    it back, and those in ``not_before`` wait until then. ``look_at`` is when to look again though
    nothing changes, ``ask_at`` when to ask Slurm (None: leave as it is).
    """

    state: str
    settled_at: dt.datetime | None
    tried_at: dt.datetime | None
    judged_evidence: int
    judged_facts: int
    verdict: v.Verdict | None = None
    refreshed: v.Verdict | None = None
    channels: tuple[str, ...] = ()
    shadow: tuple[str, ...] = ()
    not_before: Mapping[str, dt.datetime] = {}
    redo: tuple[str, ...] = ()
    post: bool = False
    look_at: dt.datetime | None = None
    ask_at: dt.datetime | None = None


def claim_jobs(database: Database, now: dt.datetime, lease_s: float, limit: int) -> Claim:
    """Up to ``limit`` jobs whose time has come, the longest due first."""
    lease = uuid.uuid4().hex
    free = sa.and_(
        jobs.c.look_at <= now, sa.or_(jobs.c.lease_until.is_(None), jobs.c.lease_until < now)
    )
    until = now + dt.timedelta(seconds=lease_s)
    rows = _claimed(database, free, jobs.c.look_at, limit, {"lease": lease, "lease_until": until})
    return Claim(lease, tuple(status(row) for row in rows))


def renew(
    database: Database, claim: Claim, job: j.JobStatus, now: dt.datetime, lease_s: float
) -> bool:
    """Makes the lease of a claimed job end later; False where it was lost meanwhile."""
    with database.writing() as connection:
        renewed = connection.execute(
            jobs.update()
            .where(jobs.c.key == job.key, jobs.c.lease == claim.lease)
            .values(lease_until=now + dt.timedelta(seconds=lease_s))
        )
        return renewed.rowcount == 1


def finish(
    database: Database, claim: Claim, job: j.JobStatus, outcome: Outcome, now: dt.datetime
) -> bool:
    """Stores ``outcome`` and gives the job back; False where the lease was lost meanwhile.

    Raises `firstfault.model.jobs.StateError` for a state that the job cannot be in next.
    """
    revision = job.verdict_revision + (outcome.verdict is not None)
    mine = sa.and_(jobs.c.key == job.key, jobs.c.lease == claim.lease)
    verdict = outcome.verdict or outcome.refreshed
    with database.writing() as connection:
        # A delivery may have moved the job on while it was judged.
        state = connection.execute(sa.select(jobs.c.state).where(mine).with_for_update()).scalar()
        if state is None:
            return False
        if outcome.post or outcome.state != job.state:
            state = j.moved(state, outcome.state)
        values = _changed(job, outcome, revision, now) | {"state": state}
        if verdict is not None:
            values |= _listed(verdict)
            _write_verdict(connection, job.key, revision, verdict, outcome.verdict is not None, now)
            incidents.replace(connection, job.key, verdict, job.first_ended_at)
        connection.execute(jobs.update().where(mine).values(values))
        _queue(connection, job.key, revision, outcome, now)
        if verdict is not None or (revision and _is_news(job, outcome)):
            failures.record(connection, job.key, verdict)
    return True


def _is_news(job: j.JobStatus, outcome: Outcome) -> bool:
    judged = (outcome.judged_evidence, outcome.judged_facts)
    return judged != (job.judged_evidence, job.judged_facts)


def claim_questions(
    database: Database, now: dt.datetime, lease_s: float, limit: int
) -> list[j.JobStatus]:
    """Jobs of which Slurm is to be asked now; asked again after the lease if nobody answers."""
    due = sa.and_(jobs.c.ask_at <= now, jobs.c.facts_closed.is_(False))
    again = now + dt.timedelta(seconds=lease_s)
    rows = _claimed(database, due, jobs.c.ask_at, limit, {"ask_at": again})
    return [status(row) for row in rows]


def _claimed(
    database: Database,
    due: sa.ColumnElement[bool],
    since: sa.Column[dt.datetime],
    limit: int,
    values: dict[str, object],
) -> list[sa.Row[tuple[object, ...]]]:
    """Rows of jobs that were due, the longest first, with ``values`` set: nobody else has them."""
    keys = sa.select(jobs.c.key).where(due).order_by(since).limit(limit)
    with database.reading() as connection:
        if connection.execute(keys.limit(1)).first() is None:
            return []  # the rule: it takes no lock, and SQLite has but one for writing
    with database.writing() as connection:
        mine = connection.execute(keys.with_for_update(skip_locked=True)).scalars().all()
        changed = jobs.update().where(jobs.c.key.in_(mine)).values(values).returning(jobs)
        found = {row.key: row for row in connection.execute(changed)} if mine else {}
    return [found[key] for key in mine]


def _changed(
    job: j.JobStatus, outcome: Outcome, revision: int, now: dt.datetime
) -> dict[str, object]:
    # What came in while the job was judged must be looked at, whatever the outcome says.
    newer = sa.or_(
        jobs.c.evidence_revision > job.evidence_revision,
        jobs.c.facts_revision > job.facts_revision,
        jobs.c.facts_closed != job.facts_closed,
    )
    values: dict[str, object] = {
        "settled_at": outcome.settled_at,
        "tried_at": outcome.tried_at,
        "judged_evidence": outcome.judged_evidence,
        "judged_facts": outcome.judged_facts,
        "verdict_revision": revision,
        "posted": revision if outcome.post else job.posted,
        "look_at": sa.case(
            (newer, sa.bindparam("soon", now, jobs.c.look_at.type)),
            else_=sa.bindparam("later", outcome.look_at, jobs.c.look_at.type),
        ),
        "lease": None,
        "lease_until": None,
    }
    if outcome.ask_at is not None:
        values["ask_at"] = outcome.ask_at
    return values


class Answer(msgspec.Struct, frozen=True):
    """What Slurm said of one job. ``facts`` None: nothing that is final."""

    key: int
    facts: JobFacts | None
    closed: bool
    ask_at: dt.datetime | None


def store_answers(database: Database, answers: Sequence[Answer], now: dt.datetime) -> None:
    """Stores Slurm's answers; jobs with something new are due at once."""
    with database.writing() as connection:
        hold(connection, JOBS)
        for answer in answers:
            row = connection.execute(sa.select(jobs).where(jobs.c.key == answer.key)).one()
            body = None if answer.facts is None else msgspec.json.encode(answer.facts)
            values: dict[str, object] = {
                "facts_asked": row.facts_asked + 1,
                "facts_closed": answer.closed,
                "ask_at": None if answer.closed else answer.ask_at,
            }
            if body is not None and body != row.facts:
                values |= {"facts": body, "facts_revision": row.facts_revision + 1, "look_at": now}
                if answer.facts is not None:
                    values |= {"name": answer.facts.name, "user": answer.facts.user}
            if answer.closed:
                values["look_at"] = now
            connection.execute(jobs.update().where(jobs.c.key == answer.key).values(values))
        if any(answer.facts is not None for answer in answers):
            silent.note_answer(connection, now)


def next_due_at(database: Database) -> dt.datetime | None:
    """When the next job, question, delivery or message is due; None when nothing is waiting."""
    queries = (
        sa.select(sa.func.min(jobs.c.look_at)),
        sa.select(sa.func.min(jobs.c.ask_at)).where(jobs.c.facts_closed.is_(False)),
        sa.select(sa.func.min(deliveries.c.next_at)),
        sa.select(sa.func.min(messages.c.next_at)),
    )
    with database.reading() as connection:
        times = [connection.execute(query).scalar() for query in queries]
    return min((time for time in times if time is not None), default=None)


def status(row: sa.Row[tuple[object, ...]]) -> j.JobStatus:
    """A row of the jobs table as a value."""
    fields = {name: getattr(row, name) for name in j.JobStatus.__struct_fields__}
    fields["cluster"] = row.cluster or None
    fields["components"] = row.components or 0
    fields["facts"] = None if row.facts is None else msgspec.json.decode(row.facts, type=JobFacts)
    return j.JobStatus(**fields)


def _listed(verdict: v.Verdict) -> dict[str, object]:
    values: dict[str, object] = {
        "cause": verdict.cause.id,
        "title": verdict.cause.title,
        "confidence": verdict.cause.confidence,
        "rank": verdict.initiator.rank,
        "host": verdict.initiator.host,
    }
    if verdict.job.name is not None:
        values["name"] = verdict.job.name
    if verdict.job.user is not None:
        values["user"] = verdict.job.user
    return values


def _write_verdict(
    connection: sa.Connection,
    job_key: int,
    revision: int,
    verdict: v.Verdict,
    new: bool,
    now: dt.datetime,
) -> None:
    values = {
        "cause": verdict.cause.id,
        "confidence": verdict.cause.confidence,
        "fingerprint": verdict.fingerprint,
        "body": v.encode(verdict),
    }
    if new:
        connection.execute(
            verdicts.insert().values(job_key=job_key, revision=revision, created_at=now, **values)
        )
    else:
        connection.execute(
            verdicts.update()
            .where(verdicts.c.job_key == job_key, verdicts.c.revision == revision)
            .values(**values)
        )


def _queue(
    connection: sa.Connection, job_key: int, revision: int, outcome: Outcome, now: dt.datetime
) -> None:
    mine = deliveries.c.job_key == job_key
    if outcome.redo:
        connection.execute(
            deliveries.update()
            .where(mine, deliveries.c.revision == revision, deliveries.c.channel.in_(outcome.redo))
            .values(state=j.PENDING, next_at=now, attempts=0)
        )
    if not outcome.channels:
        return
    # An older revision that has not gone out would only be wrong by now.
    connection.execute(
        deliveries.update()
        .where(
            mine,
            deliveries.c.state.in_((j.PENDING, j.DEAD)),
            deliveries.c.revision < revision,
            deliveries.c.channel.in_(outcome.channels),
        )
        .values(state=j.SUPERSEDED, next_at=None)
    )
    kept_back = sa.select(deliveries.c.channel).where(mine, deliveries.c.state == j.SHADOW)
    # What nobody was told of is not revised in public when shadow mode ends.
    shadow = {*outcome.shadow, *connection.execute(kept_back).scalars()}
    for channel in outcome.channels:
        connection.execute(
            deliveries.insert().values(
                delivery_id=uuid.uuid4().hex[:12],
                job_key=job_key,
                revision=revision,
                channel=channel,
                state=j.SHADOW if channel in shadow else j.PENDING,
                attempts=0,
                next_at=(
                    None if channel in shadow else max(now, outcome.not_before.get(channel, now))
                ),
                created_at=now,
            )
        )
