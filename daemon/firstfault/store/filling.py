"""Failures of jobs that a program judged that knew nothing of their tables: put there afterwards.

So it is after an update, and where a program of before and one of today share a store. In small
steps, the newest jobs first; each step is one short transaction, so that others get their turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from firstfault.store import failures as writing
from firstfault.store import names
from firstfault.store.body import verdict_in
from firstfault.store.database import JOBS, Database, hold
from firstfault.store.failure_tables import failures
from firstfault.store.schema import evidence, jobs, verdicts

STEP = 500
# Failures that are put in order in one step.
AT_ONCE = 25
# And of so many nodes in all, but for a job that has more by itself.
NODES_AT_ONCE = 1000
_FAR = 1 << 62


class Step(msgspec.Struct, frozen=True):
    """What a step did: ``put`` failures in order, ``unreadable`` verdicts left aside. The next one
    looks at jobs with keys below ``below``, None: nothing is left."""

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
    every = [row for row in rows if _is_stale(row)]
    some = _at_once(every)
    stale = [row.key for row in some]
    if len(some) < len(every):
        # The rest is for the next step.
        return _put(database, stale, [key for key in orphans if key >= stale[-1]], stale[-1])
    return _put(database, stale, orphans, low if len(rows) == limit else None)


def _at_once(rows: Sequence[sa.Row[Any]]) -> Sequence[sa.Row[Any]]:
    """As many of the first rows as go into one transaction, one at least."""
    sums = itertools.accumulate(max(1, row.nodes_expected) for row in rows)
    return rows[: min(AT_ONCE, max(1, sum(each <= NODES_AT_ONCE for each in sums)))]


def _put(
    database: Database, stale: Sequence[int], orphans: Sequence[int], below: int | None
) -> Step:
    if not stale and not orphans:
        return Step(below)
    put = unreadable = 0
    with database.writing() as connection:
        # Several rows of jobs: two who take them might wait for each other.
        hold(connection, JOBS)
        locked = sa.select(jobs).where(jobs.c.key.in_(stale)).with_for_update()
        for job in connection.execute(locked).all():
            try:
                put += _record(connection, job)
            except msgspec.MsgspecError:
                unreadable += 1
        for key in orphans:
            writing.remove(connection, key)
    return Step(below, put + len(orphans), unreadable)


def _looked_at(end: int, limit: int) -> sa.Select[*tuple[Any, ...]]:
    return (
        sa.select(
            jobs.c.key,
            jobs.c.cause,
            jobs.c.verdict_revision,
            jobs.c.nodes_expected,
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


def _record(connection: sa.Connection, job: sa.Row[Any]) -> bool:
    body = connection.execute(
        sa.select(verdicts.c.body).where(
            verdicts.c.job_key == job.key, verdicts.c.revision == job.verdict_revision
        )
    ).scalar()
    if body is None:
        return False
    writing.record(connection, job.key, verdict_in(body))
    sent = (
        sa.select(evidence.c.node, sa.func.max(evidence.c.stored_at).label("at"))
        .where(evidence.c.job_key == job.key)
        .group_by(evidence.c.node)
    )
    times = {(job.cluster, row.node): row.at for row in connection.execute(sent)}
    names.note_records(connection, times)
    return True
