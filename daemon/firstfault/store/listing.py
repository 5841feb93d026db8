"""What the daemon and commands read of stored jobs: their verdicts and states."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.store.body import verdict_in
from firstfault.store.database import Database
from firstfault.store.schema import jobs, verdicts
from firstfault.store.work import status


class ReadError(RuntimeError):
    """The store cannot be read; the message says why and what to do."""


def current_verdicts(
    database: Database, job: str, cluster: str | None = None, any_cluster: bool = False
) -> list[j.StoredVerdict]:
    """The newest verdict of each incarnation of ``job``, the last that ended first.

    Raises `ReadError`.
    """
    query = (
        sa.select(jobs.c.cluster, jobs.c.job, jobs.c.incarnation, verdicts)
        .join(
            verdicts,
            sa.and_(
                verdicts.c.job_key == jobs.c.key, verdicts.c.revision == jobs.c.verdict_revision
            ),
        )
        .where(jobs.c.job == job)
        .order_by(jobs.c.last_ended_at.desc(), jobs.c.key.desc())
    )
    if not any_cluster:
        query = query.where(jobs.c.cluster == (cluster or ""))
    try:
        with database.reading() as connection:
            rows = connection.execute(query).all()
    except sa.exc.DBAPIError as error:
        raise ReadError(
            f"the store {database.engine.url.render_as_string(hide_password=True)} cannot be read: "
            f"{error.orig}. Has the daemon run with this configuration, and may this user read it?"
        ) from error
    return [
        j.StoredVerdict(
            cluster=row.cluster or None,
            job=row.job,
            incarnation=row.incarnation,
            revision=row.revision,
            created_at=row.created_at,
            verdict=verdict_in(row.body),
        )
        for row in rows
    ]


def verdict_of(database: Database, job_key: int, revision: int) -> v.Verdict | None:
    """One revision of the verdict of the job with this key, None where there is none."""
    query = sa.select(verdicts.c.body).where(
        verdicts.c.job_key == job_key, verdicts.c.revision == revision
    )
    with database.reading() as connection:
        body = connection.execute(query).scalar()
    return None if body is None else verdict_in(body)


def same_failure_at(
    database: Database,
    job: j.JobStatus,
    user: str,
    fingerprint: str,
    since: dt.datetime,
) -> dt.datetime | None:
    """When the last job of ``user`` before ``job``, on the same cluster, ended with a verdict of
    this ``fingerprint``; None where none has ``since``."""
    query = (
        sa.select(jobs.c.last_ended_at)
        .join(
            verdicts,
            sa.and_(
                verdicts.c.job_key == jobs.c.key, verdicts.c.revision == jobs.c.verdict_revision
            ),
        )
        .where(
            jobs.c.cluster == (job.cluster or ""),
            jobs.c.user == user,
            jobs.c.last_ended_at >= since,
            jobs.c.last_ended_at <= job.last_ended_at,
            jobs.c.key != job.key,
            verdicts.c.fingerprint == fingerprint,
        )
        .order_by(jobs.c.last_ended_at.desc())
        .limit(1)
    )
    with database.reading() as connection:
        return connection.execute(query).scalar()


def judged(database: Database, limit: int) -> list[tuple[j.JobStatus, v.Verdict]]:
    """The last jobs with a verdict other than "none", and that verdict, the newest first."""
    query = (
        sa.select(jobs, verdicts.c.body.label("verdict_body"))
        .join(
            verdicts,
            sa.and_(
                verdicts.c.job_key == jobs.c.key, verdicts.c.revision == jobs.c.verdict_revision
            ),
        )
        .where(jobs.c.cause != "none")
        .order_by(jobs.c.last_ended_at.desc(), jobs.c.key.desc())
        .limit(limit)
    )
    with database.reading() as connection:
        return [(status(row), verdict_in(row.verdict_body)) for row in connection.execute(query)]


def states(database: Database) -> dict[str, int]:
    """How many jobs are in each state."""
    query = sa.select(jobs.c.state, sa.func.count().label("jobs")).group_by(jobs.c.state)
    with database.reading() as connection:
        return {row.state: row.jobs for row in connection.execute(query)}
