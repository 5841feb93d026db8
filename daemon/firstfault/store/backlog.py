"""What waits in the store, counted: for the metrics, and for those who ask how far behind it is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

import msgspec
import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.store.database import Database
from firstfault.store.schema import deliveries, evidence, incidents, jobs

_UNJUDGED = (j.SEEN, j.COLLECTING, j.SETTLED)


class Waiting(msgspec.Struct, frozen=True):
    """How many are due, and for how many seconds the first of them has been."""

    count: int
    oldest_s: float


class Outbox(msgspec.Struct, frozen=True):
    """One channel: ``oldest_s`` is for how long the oldest delivery that is pending has been; one
    that is held back until later is not late yet. ``due`` of the pending ones wait for nothing but
    their turn."""

    channel: str
    pending: int
    due: int
    dead: int
    shadow: int
    oldest_s: float


class Backlog(msgspec.Struct, frozen=True):
    """All of it; ``size`` is the store's in bytes. ``unjudged`` are jobs without a verdict yet, due
    or not, and how long ago the first of them was seen; ``incidents`` those that go on, by whether
    somebody takes care of them."""

    judge: Waiting
    ask: Waiting
    unjudged: Waiting
    incidents: dict[bool, int]
    outbox: tuple[Outbox, ...]
    size: int


def backlog(database: Database, channels: Iterable[str], now: dt.datetime) -> Backlog:
    """Counts, from indexes alone but for what is pending. Raises what SQLAlchemy raises."""
    with database.reading() as connection:
        return Backlog(
            judge=_due(connection, jobs.c.look_at, now),
            ask=_due(connection, jobs.c.ask_at, now, jobs.c.facts_closed.is_(False)),
            unjudged=_waiting(connection, jobs.c.first_seen_at, now, jobs.c.state.in_(_UNJUDGED)),
            incidents=_incidents(connection),
            outbox=tuple(_outbox(connection, channel, now) for channel in channels),
            size=_size(connection),
        )


def size(database: Database) -> int:
    """The store's size in bytes: of SQLite's files, or of the PostgreSQL database."""
    with database.reading() as connection:
        return _size(connection)


def unjudged_since(database: Database) -> dt.datetime | None:
    """When the first job was seen of those without a verdict; None where each has one."""
    # With the count: for the least alone, SQLite would walk through all jobs by when they were seen.
    query = sa.select(sa.func.count(), sa.func.min(jobs.c.first_seen_at))
    with database.reading() as connection:
        _, first_at = connection.execute(query.where(jobs.c.state.in_(_UNJUDGED))).one()
    found: dt.datetime | None = first_at
    return found


def last_record_at(database: Database, delivery_key: int) -> dt.datetime | None:
    """When the last record of a delivery's job was stored; None where none is kept any more."""
    job_key = sa.select(deliveries.c.job_key).where(deliveries.c.key == delivery_key)
    query = sa.select(sa.func.max(evidence.c.stored_at)).where(
        evidence.c.job_key == job_key.scalar_subquery()
    )
    with database.reading() as connection:
        return connection.execute(query).scalar()


def _due(
    connection: sa.Connection,
    column: sa.Column[dt.datetime],
    now: dt.datetime,
    *where: sa.ColumnElement[bool],
) -> Waiting:
    return _waiting(connection, column, now, column <= now, *where)


def _waiting(
    connection: sa.Connection,
    column: sa.Column[dt.datetime],
    now: dt.datetime,
    *where: sa.ColumnElement[bool],
) -> Waiting:
    query = sa.select(sa.func.count(), sa.func.min(column)).where(*where)
    count, oldest_at = connection.execute(query).one()
    return Waiting(count, _age_s(oldest_at, now))


def _incidents(connection: sa.Connection) -> dict[bool, int]:
    taken = incidents.c.acknowledged_by.is_not(None)
    query = sa.select(taken, sa.func.count()).where(incidents.c.ended_at.is_(None)).group_by(taken)
    found = {bool(is_taken): count for is_taken, count in connection.execute(query)}
    return {is_taken: found.get(is_taken, 0) for is_taken in (False, True)}


def _outbox(connection: sa.Connection, channel: str, now: dt.datetime) -> Outbox:
    def which(state: str) -> tuple[sa.ColumnElement[bool], ...]:
        return deliveries.c.channel == channel, deliveries.c.state == state

    counts = {
        state: connection.execute(
            sa.select(sa.func.count()).select_from(deliveries).where(*which(state))
        ).scalar_one()
        for state in (j.PENDING, j.DEAD, j.SHADOW)
    }
    due = sa.select(sa.func.count()).where(*which(j.PENDING), deliveries.c.next_at <= now)
    held_back = sa.and_(deliveries.c.attempts == 0, deliveries.c.next_at > now)
    oldest = sa.select(sa.func.min(deliveries.c.created_at)).where(
        *which(j.PENDING), sa.not_(held_back)
    )
    return Outbox(
        channel=channel,
        pending=counts[j.PENDING],
        due=connection.execute(due).scalar_one(),
        dead=counts[j.DEAD],
        shadow=counts[j.SHADOW],
        oldest_s=_age_s(connection.execute(oldest).scalar(), now),
    )


def _size(connection: sa.Connection) -> int:
    if connection.dialect.name == "postgresql":
        return int(
            connection.execute(sa.text("SELECT pg_database_size(current_database())")).scalar_one()
        )
    file = connection.engine.url.database
    if connection.dialect.name != "sqlite" or not file:
        return 0
    # The log of WAL may be larger than the database.
    paths = [Path(file), Path(f"{file}-wal")]
    return sum(path.stat().st_size for path in paths if path.exists())


def _age_s(at: dt.datetime | None, now: dt.datetime) -> float:
    return 0.0 if at is None else max(0.0, (now - at).total_seconds())
