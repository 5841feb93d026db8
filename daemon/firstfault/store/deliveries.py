"""The outbox: a row for each verdict revision and channel, written with the verdict."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.store.body import verdict_in
from firstfault.store.database import JOBS, Database, hold
from firstfault.store.schema import deliveries, jobs, verdicts

# So many deliveries are put in order as they are found; more are looked for in their order.
_FEW = 20_000


class _Job(NamedTuple):
    key: int
    state: str
    posted: int


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
    keys = sa.select(deliveries.c.key).where(due).order_by(deliveries.c.next_at).limit(limit)
    with database.reading() as connection:
        if connection.execute(keys.limit(1)).first() is None:
            return []
    with database.writing() as connection:
        mine = connection.execute(keys.with_for_update(skip_locked=True)).scalars().all()
        if not mine:
            return []
        taken = connection.execute(
            deliveries.update()
            .where(deliveries.c.key.in_(mine))
            .values(
                attempts=deliveries.c.attempts + 1,
                next_at=now + dt.timedelta(seconds=lease_s),
            )
            .returning(deliveries)
        )
        rows = {row.key: row for row in taken}
        return [_delivery(connection, rows[key]) for key in mine]


def channels_of(database: Database, job_key: int) -> frozenset[str]:
    """The channels that were sent something of the job, or are about to be."""
    query = (
        sa.select(deliveries.c.channel)
        .where(deliveries.c.job_key == job_key, deliveries.c.state != j.SUPERSEDED)
        .distinct()
    )
    with database.reading() as connection:
        return frozenset(connection.execute(query).scalars())


def drop_others(database: Database, channels: Collection[str]) -> int:
    """Gives up what waits for a channel that is not among ``channels``; returns how many."""
    others = sa.and_(deliveries.c.state == j.PENDING, deliveries.c.channel.not_in(channels))
    error = "this channel is not configured any more"
    return _end(database, others, {"state": j.DEAD, "next_at": None, "error": error})


def keep_back(database: Database, channels: Collection[str]) -> int:
    """Puts what waits for ``channels`` into the shadow: it is not sent, now or later. How many."""
    waits = sa.and_(deliveries.c.state == j.PENDING, deliveries.c.channel.in_(channels))
    return _end(database, waits, {"state": j.SHADOW, "next_at": None})


def dismiss(database: Database, ids: Collection[str] | None = None) -> int:
    """Closes deliveries that were given up, these or all; returns how many."""
    given_up = deliveries.c.state == j.DEAD
    if ids is not None:
        given_up = sa.and_(given_up, deliveries.c.delivery_id.in_(ids))
    return _end(database, given_up, {"state": j.SUPERSEDED})


def retry(
    database: Database,
    now: dt.datetime,
    channels: Collection[str],
    ids: Collection[str] | None = None,
) -> int:
    """Makes deliveries on ``channels`` that wait or were given up, these or all, due ``now``;
    returns how many. The attempts of those that were given up are counted anew."""
    unsent = sa.and_(
        deliveries.c.state.in_((j.PENDING, j.DEAD)), deliveries.c.channel.in_(channels)
    )
    if ids is not None:
        unsent = sa.and_(unsent, deliveries.c.delivery_id.in_(ids))
    retried = 0
    with database.writing() as connection:
        for job in _jobs_with(connection, unsent):
            retried += connection.execute(
                deliveries.update()
                .where(deliveries.c.job_key == job.key, unsent)
                .values(
                    state=j.PENDING,
                    next_at=now,
                    # One that is on its way just now is told by its number of attempts.
                    attempts=sa.case(
                        (deliveries.c.state == j.DEAD, 0), else_=deliveries.c.attempts
                    ),
                )
            ).rowcount
            state = j.moved(job.state, j.JUDGED)
            connection.execute(jobs.update().where(jobs.c.key == job.key).values(state=state))
    return retried


def listed(database: Database, limit: int, states: Collection[str] = ()) -> list[j.DeliveryStatus]:
    """The newest deliveries, in these states where any are named."""
    query = sa.select(jobs.c.cluster, jobs.c.job, deliveries).join(
        jobs, jobs.c.key == deliveries.c.job_key
    )
    newest = sa.select(deliveries.c.key).order_by(deliveries.c.key.desc()).limit(limit)
    with database.reading() as connection:
        channels = _channels(connection)
        if not channels:
            return []
        if states:
            newest = _newest_in(connection, channels, states, limit)
        query = query.where(deliveries.c.key.in_(newest)).order_by(deliveries.c.key.desc())
        return [status(row, row.cluster, row.job, row.error) for row in connection.execute(query)]


def _newest_in(
    connection: sa.Connection, channels: Sequence[str], states: Collection[str], limit: int
) -> sa.Select[*tuple[int]]:
    """The keys of the newest deliveries in these states, which may be few among millions."""
    c = deliveries.c
    query = sa.select(c.key).where(c.state.in_(states))
    # By an index that begins with the channel.
    indexed = query.where(c.channel.in_(channels))
    some = sa.select(sa.func.count()).select_from(indexed.limit(_FEW).subquery())
    if connection.execute(some).scalar_one() < _FEW:
        return indexed.order_by((c.key + 0).desc()).limit(limit)
    return query.order_by(c.key.desc()).limit(limit)


def _channels(connection: sa.Connection) -> Sequence[str]:
    """All channels of which there are deliveries, each found by an index after the one before."""
    c = deliveries.c
    first = sa.select(sa.func.min(c.channel).label("channel")).cte("channels", recursive=True)
    following = sa.select(sa.func.min(c.channel)).where(c.channel > first.c.channel)
    every = first.union_all(
        sa.select(following.scalar_subquery()).where(first.c.channel.is_not(None))
    )
    query = sa.select(every.c.channel).where(every.c.channel.is_not(None))
    return connection.execute(query).scalars().all()


def status(row: sa.Row[Any], cluster: str, job: str, error: str | None) -> j.DeliveryStatus:
    """A row of the table, of this job, as a value; ``error`` is what is told of what went wrong."""
    return j.DeliveryStatus(
        delivery_id=row.delivery_id,
        cluster=cluster or None,
        job=job,
        revision=row.revision,
        channel=row.channel,
        state=row.state,
        attempts=row.attempts,
        created_at=row.created_at,
        next_at=row.next_at,
        sent_at=row.sent_at,
        error=error,
    )


def sent(database: Database, delivery: j.Delivery, now: dt.datetime) -> None:
    """Notes that the receiver took the delivery."""
    _note(database, delivery, state=j.SENT, next_at=None, sent_at=now, error=None)


def failed(
    database: Database, delivery: j.Delivery, error: str, retry_at: dt.datetime | None
) -> None:
    """Notes a failed attempt; without ``retry_at`` the delivery is given up."""
    state = j.DEAD if retry_at is None else j.PENDING
    _note(database, delivery, state=state, next_at=retry_at, error=error[:2000])


def needless(database: Database, delivery: j.Delivery, reason: str) -> None:
    """Notes that the delivery has nothing to say to its readers."""
    _note(database, delivery, state=j.SUPERSEDED, next_at=None, error=reason)


def _end(database: Database, which: sa.ColumnElement[bool], values: dict[str, object]) -> int:
    ended = 0
    with database.writing() as connection:
        for job in _jobs_with(connection, which):
            ended += connection.execute(
                deliveries.update().where(deliveries.c.job_key == job.key, which).values(values)
            ).rowcount
            _settle(connection, job)
    return ended


def _jobs_with(connection: sa.Connection, which: sa.ColumnElement[bool]) -> Iterator[_Job]:
    hold(connection, JOBS)
    query = sa.select(deliveries.c.job_key).where(which).distinct()
    for job_key in sorted(connection.execute(query).scalars()):
        yield _locked(connection, job_key)


def _note(database: Database, delivery: j.Delivery, **values: object) -> None:
    mine = deliveries.c.key == delivery.key
    with database.writing() as connection:
        job_key = connection.execute(sa.select(deliveries.c.job_key).where(mine)).scalar_one()
        job = _locked(connection, job_key)
        # While this was on its way, a newer revision may have superseded it, or more facts may
        # have made it due again, its attempts counted anew.
        noted = connection.execute(
            deliveries.update()
            .where(
                mine,
                deliveries.c.state == j.PENDING,
                deliveries.c.attempts == delivery.attempts,
            )
            .values(**values)
        )
        if noted.rowcount and values["state"] != j.PENDING:
            _settle(connection, job)


def _locked(connection: sa.Connection, job_key: int) -> _Job:
    # The job before its deliveries, as `work.finish` does: else two would wait for each other.
    query = sa.select(jobs.c.key, jobs.c.state, jobs.c.posted).where(jobs.c.key == job_key)
    return _Job(*connection.execute(query.with_for_update()).one())


def _settle(connection: sa.Connection, job: _Job) -> None:
    """Moves the job on where nothing of it waits to be delivered any more."""
    if job.state != j.JUDGED or _has(connection, job, deliveries.c.state == j.PENDING):
        return
    corrected = _has(
        connection, job, deliveries.c.state == j.SENT, deliveries.c.revision < job.posted
    )
    state = j.moved(job.state, j.REVISED if corrected else j.DELIVERED)
    connection.execute(jobs.update().where(jobs.c.key == job.key).values(state=state))


def _has(
    connection: sa.Connection,
    job: _Job,
    *wanted: sa.ColumnElement[bool],
) -> bool:
    query = sa.select(deliveries.c.key).where(deliveries.c.job_key == job.key, *wanted)
    return connection.execute(query.limit(1)).first() is not None


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
        attempts=row.attempts,
        current=j.StoredVerdict(
            cluster=found.cluster or None,
            job=found.job,
            incarnation=found.incarnation,
            revision=found.revision,
            created_at=found.created_at,
            verdict=verdict_in(found.body),
        ),
        previous=None if before is None else verdict_in(before),
        job_key=row.job_key,
    )
