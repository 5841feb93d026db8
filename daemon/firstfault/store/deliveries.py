"""The outbox: a row for each verdict revision and channel, written with the verdict."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.store.database import Database
from firstfault.store.schema import deliveries, jobs, verdicts


def claim(
    database: Database, channel: str, now: dt.datetime, lease_s: float, limit: int
) -> list[j.Delivery]:
    """Deliveries of ``channel`` that are due, oldest first, each with one more attempt counted.

    The attempt is counted before it is made: a delivery that kills its worker ends too.
    """
    due = sa.and_(
        deliveries.c.channel == channel,
        deliveries.c.state == j.PENDING,
        deliveries.c.next_at <= now,
    )
    query = sa.select(deliveries).where(due).order_by(deliveries.c.key).limit(limit)
    with database.reading() as connection:
        rows = connection.execute(query).all()
    claimed = []
    if rows:
        with database.writing() as connection:
            for row in rows:
                taken = connection.execute(
                    deliveries.update()
                    .where(deliveries.c.key == row.key, due)
                    .values(
                        attempts=deliveries.c.attempts + 1,
                        next_at=now + dt.timedelta(seconds=lease_s),
                    )
                )
                if taken.rowcount == 1:
                    claimed.append(_delivery(connection, row))
    return claimed


def drop_others(database: Database, channels: Collection[str]) -> int:
    """Gives up what waits for a channel that is not among ``channels``; returns how many."""
    with database.writing() as connection:
        dropped = connection.execute(
            deliveries.update()
            .where(deliveries.c.state == j.PENDING, deliveries.c.channel.not_in(channels))
            .values(state=j.DEAD, next_at=None, error="this channel is not configured any more")
        )
        return dropped.rowcount


def sent(database: Database, delivery: j.Delivery, now: dt.datetime) -> None:
    """Notes that the receiver took the delivery."""
    _note(database, delivery, state=j.SENT, next_at=None, sent_at=now, error=None)


def failed(
    database: Database, delivery: j.Delivery, error: str, retry_at: dt.datetime | None
) -> None:
    """Notes a failed attempt; without ``retry_at`` the delivery is given up."""
    state = j.DEAD if retry_at is None else j.PENDING
    _note(database, delivery, state=state, next_at=retry_at, error=error[:2000])


def _note(database: Database, delivery: j.Delivery, **values: object) -> None:
    with database.writing() as connection:
        # While this was on its way, a newer revision may have superseded it, or more facts may
        # have made it due again, its attempts counted anew.
        connection.execute(
            deliveries.update()
            .where(
                deliveries.c.key == delivery.key,
                deliveries.c.state == j.PENDING,
                deliveries.c.attempts == delivery.attempts,
            )
            .values(**values)
        )
        if values["state"] != j.PENDING:
            _settle_job(connection, delivery.key)


def _settle_job(connection: sa.Connection, key: int) -> None:
    row = connection.execute(sa.select(deliveries).where(deliveries.c.key == key)).one()
    waiting = sa.select(deliveries.c.key).where(
        deliveries.c.job_key == row.job_key, deliveries.c.state == j.PENDING
    )
    older = sa.select(deliveries.c.key).where(
        deliveries.c.job_key == row.job_key,
        deliveries.c.state == j.SENT,
        deliveries.c.revision < row.revision,
    )
    connection.execute(
        jobs.update()
        .where(
            jobs.c.key == row.job_key,
            jobs.c.state.in_((j.JUDGED, j.DELIVERED, j.REVISED)),
            ~sa.exists(waiting),
        )
        .values(state=sa.case((sa.exists(older), j.REVISED), else_=j.DELIVERED))
    )


def _delivery(connection: sa.Connection, row: sa.Row[tuple[object, ...]]) -> j.Delivery:
    found = connection.execute(
        sa.select(jobs.c.cluster, jobs.c.job, jobs.c.incarnation, verdicts)
        .join(verdicts, verdicts.c.job_key == jobs.c.key)
        .where(jobs.c.key == row.job_key, verdicts.c.revision == row.revision)
    ).one()
    before = connection.execute(
        sa.select(verdicts.c.body)
        .join(
            deliveries,
            sa.and_(
                deliveries.c.job_key == verdicts.c.job_key,
                deliveries.c.revision == verdicts.c.revision,
            ),
        )
        .where(
            verdicts.c.job_key == row.job_key,
            deliveries.c.channel == row.channel,
            deliveries.c.state == j.SENT,
            verdicts.c.revision < row.revision,
        )
        .order_by(verdicts.c.revision.desc())
        .limit(1)
    ).scalar()
    return j.Delivery(
        key=row.key,
        delivery_id=row.delivery_id,
        channel=row.channel,
        attempts=row.attempts + 1,
        current=j.StoredVerdict(
            cluster=found.cluster or None,
            job=found.job,
            incarnation=found.incarnation,
            revision=found.revision,
            created_at=found.created_at,
            verdict=v.decode(found.body),
        ),
        previous=None if before is None else v.decode(before),
    )
