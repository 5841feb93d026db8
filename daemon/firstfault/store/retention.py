"""Giving up what is old, or too much: in small steps, and never what is still open.

A job is open while it is not judged, while it is due to be looked at or asked about, and while a
delivery of it waits. Each function is one short transaction, so that others get their turn.
"""

from __future__ import annotations

import datetime as dt

import msgspec
import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.store import failures
from firstfault.store.database import Database
from firstfault.store.schema import deliveries, evidence, jobs, metadata

# Records that go in one transaction: a large job's go in several.
STEP = 200
# Pages that SQLite gives back to the file system after a step.
PAGES = 2000


class Removed(msgspec.Struct, frozen=True):
    """What one step removed: records and their packed bytes; ``job`` None: nothing was left."""

    job: str | None = None
    records: int = 0
    size: int = 0


class Expired(msgspec.Struct, frozen=True):
    """A job that is to be removed."""

    key: int
    cluster: str | None
    job: str
    incarnation: int


_OF_A_JOB = [t for t in metadata.tables.values() if "job_key" in t.c and t is not evidence]
_WAITS = sa.exists().where(deliveries.c.job_key == jobs.c.key, deliveries.c.state == j.PENDING)
_CLOSED = sa.and_(
    # Nearly all jobs are so: as "in" and "is null" these would draw SQLite to indexes of little use,
    # away from that by time.
    jobs.c.state.not_in(sorted(j.TRANSITIONS.keys() - j.CLOSED)),
    (sa.type_coerce(jobs.c.look_at, sa.BigInteger) + 0).is_(None),
    jobs.c.lease_until.is_(None),
    sa.or_(jobs.c.ask_at.is_(None), jobs.c.facts_closed.is_(True)),
    ~_WAITS,
)


def evidence_size(database: Database) -> int:
    """The bytes of all stored evidence, packed as it is."""
    with database.reading() as connection:
        return int(connection.execute(sa.select(sa.func.sum(evidence.c.packed_size))).scalar() or 0)


def remove_evidence(database: Database, before: dt.datetime, now: dt.datetime) -> Removed:
    """Removes evidence of one closed job whose last record was stored before ``before``."""
    later = evidence.alias()
    fresh = sa.exists().where(later.c.job_key == evidence.c.job_key, later.c.stored_at >= before)
    return _remove(database, sa.and_(evidence.c.stored_at < before, ~fresh), now)


def remove_oldest_evidence(database: Database, now: dt.datetime) -> Removed:
    """Removes evidence of the closed job that has the oldest record."""
    return _remove(database, sa.true(), now)


def expired(database: Database, before: dt.datetime, limit: int) -> list[Expired]:
    """Closed jobs that were first seen before ``before``, the oldest first."""
    query = (
        sa.select(*(jobs.c[name] for name in Expired.__struct_fields__))
        .where(jobs.c.first_seen_at < before, _CLOSED)
        .order_by(jobs.c.first_seen_at)
        .limit(limit)
    )
    with database.reading() as connection:
        rows = connection.execute(query).all()
    return [Expired(row.key, row.cluster or None, row.job, row.incarnation) for row in rows]


def remove_job(database: Database, job: Expired) -> Removed:
    """Removes a job, or, where it has more evidence than goes in one step, some of that.

    It is gone when ``records`` is less than `STEP`. A job that is open again is left alone.
    """
    with database.writing() as connection:
        if _locked(connection, job.key) is None:
            return Removed()
        records, size = _delete_evidence(connection, job.key)
        if records < STEP:
            failures.remove(connection, job.key)
            for table in _OF_A_JOB:
                connection.execute(table.delete().where(table.c.job_key == job.key))
            connection.execute(jobs.delete().where(jobs.c.key == job.key))
    give_back(database)
    return Removed(job.job, records, size)


def give_back(database: Database) -> None:
    """Returns free pages to the file system, where the store is an SQLite file made for it."""
    if database.engine.dialect.name == "sqlite":
        with database.engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            # Each step of the statement frees one page, and only this goes through all steps.
            driver.executescript(f"PRAGMA incremental_vacuum({PAGES})")


def _remove(database: Database, old: sa.ColumnElement[bool], now: dt.datetime) -> Removed:
    closed = sa.exists().where(jobs.c.key == evidence.c.job_key, _CLOSED)
    oldest = (
        sa.select(evidence.c.job_key).where(old, closed).order_by(evidence.c.stored_at).limit(1)
    )
    with database.reading() as connection:
        job_key = connection.execute(oldest).scalar()
    if job_key is None:
        return Removed()
    with database.writing() as connection:
        job = _locked(connection, job_key)
        if job is None:
            return Removed()
        # From the first of it on the rest is not enough to judge by.
        connection.execute(
            jobs.update()
            .where(jobs.c.key == job_key, jobs.c.emptied_at.is_(None))
            .values(emptied_at=now)
        )
        records, size = _delete_evidence(connection, job_key)
    give_back(database)
    return Removed(job, records, size)


def _locked(connection: sa.Connection, job_key: int) -> str | None:
    """The job's number where it is closed still; it stays so until the transaction ends."""
    query = sa.select(jobs.c.job).where(jobs.c.key == job_key, _CLOSED)
    number: str | None = connection.execute(query.with_for_update(of=jobs)).scalar()
    return number


def _delete_evidence(connection: sa.Connection, job_key: int) -> tuple[int, int]:
    rows = connection.execute(
        sa.select(evidence.c.key, evidence.c.packed_size)
        .where(evidence.c.job_key == job_key)
        .order_by(evidence.c.key)
        .limit(STEP)
    ).all()
    if rows:
        keys = [key for key, _ in rows]
        connection.execute(evidence.delete().where(evidence.c.key.in_(keys)))
    return len(rows), sum(size or 0 for _, size in rows)
