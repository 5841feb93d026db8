"""Failures of jobs that a program judged that knew nothing of their tables: put there afterwards.

So it is after an update, and where a program of before and one of today share a store. In small
steps, the newest jobs first; each job is a short transaction of its own.
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from firstfault.store import failures as writing
from firstfault.store import names
from firstfault.store.body import verdict_in
from firstfault.store.database import Database
from firstfault.store.failure_tables import failures
from firstfault.store.schema import evidence, jobs, verdicts

STEP = 500
_FAR = 1 << 62


class Step(msgspec.Struct, frozen=True):
    """What a step did: ``put`` failures in order, ``unreadable`` verdicts left aside. ``below`` is
    where the next one goes on, None: nothing is left."""

    below: int | None
    put: int = 0
    unreadable: int = 0


def fill(database: Database, below: int | None = None, limit: int = STEP) -> Step:
    """Looks at so many jobs with keys below ``below`` (None: the newest), and at their failures."""
    end = _FAR if below is None else below
    with database.reading() as connection:
        rows = connection.execute(_looked_at(end, limit)).all()
        low = rows[-1].key if len(rows) == limit else 0
        orphans = connection.execute(_without_job(low, end)).scalars().all()
    put = unreadable = 0
    for row in rows:
        if _is_stale(row):
            try:
                put += _record(database, row.key)
            except msgspec.MsgspecError:
                unreadable += 1
    for key in orphans:
        with database.writing() as connection:
            writing.remove(connection, key)
    return Step(low if len(rows) == limit else None, put + len(orphans), unreadable)


def _looked_at(end: int, limit: int) -> sa.Select[*tuple[Any, ...]]:
    return (
        sa.select(
            jobs.c.key,
            jobs.c.cause,
            jobs.c.verdict_revision,
            failures.c.key.label("known"),
            failures.c.verdict_revision.label("recorded"),
        )
        .outerjoin(failures, failures.c.key == jobs.c.key)
        .where(jobs.c.key < end)
        .order_by(jobs.c.key.desc())
        .limit(limit)
    )


def _without_job(low: int, end: int) -> sa.Select[*tuple[Any, ...]]:
    has_job = sa.exists().where(jobs.c.key == failures.c.key)
    return (
        sa.select(failures.c.key)
        .where(failures.c.key >= low, failures.c.key < end, ~has_job)
        .limit(STEP)
    )


def _is_stale(row: sa.Row[Any]) -> bool:
    if row.cause is None or not row.verdict_revision:
        return False
    if row.cause == "none":
        return row.known is not None
    return bool(row.known is None or row.recorded != row.verdict_revision)


def _record(database: Database, key: int) -> bool:
    with database.writing() as connection:
        locked = sa.select(jobs).where(jobs.c.key == key).with_for_update()
        job = connection.execute(locked).first()
        if job is None:
            return False
        body = connection.execute(
            sa.select(verdicts.c.body).where(
                verdicts.c.job_key == key, verdicts.c.revision == job.verdict_revision
            )
        ).scalar()
        if body is None:
            return False
        writing.record(connection, key, verdict_in(body))
        sent = (
            sa.select(evidence.c.node, sa.func.max(evidence.c.stored_at).label("at"))
            .where(evidence.c.job_key == key)
            .group_by(evidence.c.node)
        )
        times = {(job.cluster, row.node): row.at for row in connection.execute(sent)}
        names.note_records(connection, times)
    return True
