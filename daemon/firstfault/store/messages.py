"""Messages that are changed after they are posted: what each tells of, and whether it does so yet.

A message is a row before it is posted: a daemon that dies between Slack's answer and its own note
of it leaves a row without ``ts``, and looks for the message before it posts again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence

import msgspec
import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.store.body import verdict_in
from firstfault.store.database import Database, hold
from firstfault.store.schema import jobs, message_jobs, messages, verdicts

# A number that no other program takes in this database, as those of `firstfault.store.database`.
PLACING = 0x66697273740003
HOUR = dt.timedelta(hours=1)
# The subject of what gathers all that is more than a reader is told one by one.
MANY = "many"


class Message(msgspec.Struct, frozen=True):
    """A message as it stands. ``ts`` None: it is not known to be posted. ``attempts`` counts this
    one too, since it was last brought up to date."""

    key: int
    message_id: str
    channel: str
    conversation: str
    subject: str
    incident_key: int | None
    ts: str | None
    created_at: dt.datetime
    wanted: int
    attempts: int


class Told(msgspec.Struct, frozen=True):
    """What a message tells of: how many jobs, their names (the newest ``limit``), whether they
    failed ``alike``, and the verdict of the first, which it shows; None where no job is left."""

    count: int
    jobs: tuple[str, ...]
    alike: bool = True
    job_key: int | None = None
    shown: j.StoredVerdict | None = None


class Pace(msgspec.Struct, frozen=True):
    """How long the same failure is gathered, how often a message is changed, and how many new
    ones a conversation gets in an hour."""

    gather: dt.timedelta
    pause: dt.timedelta
    per_hour: int


class Place(msgspec.Struct, frozen=True):
    """Where a job is to be told: with what has the same ``subject``, or ``array``."""

    channel: str
    conversation: str
    subject: str
    array: str | None = None


def has_job(database: Database, channel: str, job_key: int) -> bool:
    """True where the job is told of in a message of the channel."""
    with database.reading() as connection:
        return _of_job(connection, channel, job_key) is not None


def place(
    database: Database, place: Place, job_key: int, message_id: str, pace: Pace, now: dt.datetime
) -> int:
    """Puts a job into a message, which is to be brought up to date then; returns its key.

    The job stays where it is, or joins what is about the same, or begins a message, which gets
    ``message_id``.
    """
    with database.writing() as connection:
        hold(connection, PLACING)
        mine = _of_job(connection, place.channel, job_key)
        if mine is not None and _stays(connection, mine, place):
            _want(connection, mine.key, now, {"array": place.array or mine.array})
            if mine.subject != MANY and _is_alone(connection, mine.key):
                mine_only = messages.c.key == mine.key
                connection.execute(messages.update().where(mine_only).values(subject=place.subject))
            return int(mine.key)
        if mine is not None:
            connection.execute(message_jobs.delete().where(_member(place.channel, job_key)))
            _want(connection, mine.key, now)
        fitting = _fitting(connection, place, pace, now)
        if fitting is None:
            crowded = _is_crowded(connection, place, pace, now)
            subject = MANY if crowded else place.subject
            key = _begin(connection, place, subject, message_id, None, now)
        else:
            key = int(fitting.key)
            next_at = max(now, (fitting.shown_at or now - pace.pause) + pace.pause)
            _want(connection, key, next_at, {"joined_at": now})
        connection.execute(
            message_jobs.insert().values(message_key=key, job_key=job_key, channel=place.channel)
        )
        return key


def tell_incident(
    database: Database, place: Place, incident_key: int, message_id: str, now: dt.datetime
) -> int:
    """Begins, or makes due, the message of an incident in a channel; returns its key."""
    mine = sa.and_(messages.c.incident_key == incident_key, messages.c.channel == place.channel)
    with database.writing() as connection:
        hold(connection, PLACING)
        found = connection.execute(sa.select(messages.c.key).where(mine)).scalar()
        if found is not None:
            _want(connection, found, now)
            return int(found)
        return _begin(connection, place, place.subject, message_id, incident_key, now)


def want(database: Database, job_keys: Collection[int], now: dt.datetime) -> None:
    """Makes due every message that tells of one of these jobs."""
    if not job_keys:
        return
    theirs = sa.select(message_jobs.c.message_key).where(message_jobs.c.job_key.in_(job_keys))
    with database.writing() as connection:
        hold(connection, PLACING)
        keys = connection.execute(theirs.distinct()).scalars().all()
        for key in keys:
            _want(connection, key, now)


def claim(
    database: Database, channel: str, now: dt.datetime, lease_s: float, key: int | None = None
) -> Message | None:
    """A message of the channel that is due, or this one if it is; nobody else gets it until the
    lease ends."""
    due = sa.and_(messages.c.channel == channel, messages.c.next_at <= now)
    if key is not None:
        due = sa.and_(due, messages.c.key == key)
    query = sa.select(messages.c.key).where(due).order_by(messages.c.next_at).limit(1)
    with database.reading() as connection:
        if connection.execute(query).first() is None:
            return None
    with database.writing() as connection:
        found = connection.execute(query.with_for_update(skip_locked=True)).scalar()
        if found is None:
            return None
        row = connection.execute(
            messages.update()
            .where(messages.c.key == found)
            .values(attempts=messages.c.attempts + 1, next_at=now + dt.timedelta(seconds=lease_s))
            .returning(messages)
        ).one()
    return Message(**{name: getattr(row, name) for name in Message.__struct_fields__})


def is_posted(database: Database, key: int) -> bool:
    """True where the message is known to stand in its conversation."""
    with database.reading() as connection:
        query = sa.select(messages.c.ts).where(messages.c.key == key)
        return connection.execute(query).scalar() is not None


def posted(database: Database, message: Message, ts: str) -> None:
    """Notes the name by which the receiver knows the message."""
    with database.writing() as connection:
        mine = messages.c.key == message.key
        connection.execute(messages.update().where(mine).values(ts=ts))


def shown(database: Database, message: Message, pace: Pace, now: dt.datetime) -> None:
    """Notes that the message says what was wanted when it was claimed."""
    again = sa.bindparam("again", now + pace.pause, messages.c.next_at.type)
    with database.writing() as connection:
        connection.execute(
            messages.update()
            .where(messages.c.key == message.key)
            .values(
                shown_at=now,
                attempts=0,
                error=None,
                next_at=sa.case((messages.c.wanted == message.wanted, sa.null()), else_=again),
            )
        )


def put_off(database: Database, message: Message, error: str, retry_at: dt.datetime | None) -> None:
    """Notes a failed attempt; without ``retry_at`` only news make the message due again."""
    with database.writing() as connection:
        connection.execute(
            messages.update()
            .where(messages.c.key == message.key)
            .values(error=error[:2000], next_at=retry_at)
        )


def told(database: Database, key: int, limit: int) -> Told:
    """What the message with this key tells of."""
    of_it = (
        sa.select(message_jobs.c.key, jobs.c.key.label("job_key"), jobs.c.job, jobs.c.posted)
        .join(jobs, jobs.c.key == message_jobs.c.job_key)
        .where(message_jobs.c.message_key == key)
    )
    with database.reading() as connection:
        first = connection.execute(of_it.order_by(message_jobs.c.key).limit(1)).first()
        if first is None:
            return Told(0, ())
        newest = connection.execute(of_it.order_by(message_jobs.c.key.desc()).limit(limit)).all()
        count, kinds = connection.execute(
            sa.select(
                sa.func.count(message_jobs.c.key),
                sa.func.count(sa.distinct(verdicts.c.fingerprint)),
            )
            .select_from(message_jobs)
            .join(jobs, jobs.c.key == message_jobs.c.job_key)
            .outerjoin(
                verdicts,
                sa.and_(verdicts.c.job_key == jobs.c.key, verdicts.c.revision == jobs.c.posted),
            )
            .where(message_jobs.c.message_key == key)
        ).one()
        return Told(
            count=count,
            jobs=tuple(row.job for row in newest),
            alike=kinds < 2,
            job_key=first.job_key,
            shown=_verdict(connection, first.job_key, first.posted),
        )


def drop(database: Database, channels: Collection[str], *, others: bool) -> int:
    """Lets what waits in these channels be, or in all ``others``; returns how much that was."""
    theirs = messages.c.channel.in_(channels)
    which = sa.and_(messages.c.next_at.is_not(None), sa.not_(theirs) if others else theirs)
    with database.writing() as connection:
        return connection.execute(messages.update().where(which).values(next_at=None)).rowcount


def remove_old(database: Database, before: dt.datetime) -> int:
    """Forgets messages from before a time that tell of no job and no incident any more."""
    empty = ~sa.exists().where(message_jobs.c.message_key == messages.c.key)
    old = sa.and_(messages.c.joined_at < before, messages.c.incident_key.is_(None), empty)
    with database.writing() as connection:
        return connection.execute(messages.delete().where(old)).rowcount


def _verdict(connection: sa.Connection, job_key: int, revision: int) -> j.StoredVerdict | None:
    row = connection.execute(
        sa.select(jobs.c.cluster, jobs.c.job, jobs.c.incarnation, verdicts)
        .join(verdicts, verdicts.c.job_key == jobs.c.key)
        .where(jobs.c.key == job_key, verdicts.c.revision == revision)
    ).first()
    if row is None:
        return None
    return j.StoredVerdict(
        cluster=row.cluster or None,
        job=row.job,
        incarnation=row.incarnation,
        revision=row.revision,
        created_at=row.created_at,
        verdict=verdict_in(row.body),
    )


def _member(channel: str, job_key: int) -> sa.ColumnElement[bool]:
    return sa.and_(message_jobs.c.job_key == job_key, message_jobs.c.channel == channel)


def _of_job(
    connection: sa.Connection, channel: str, job_key: int
) -> sa.Row[tuple[object, ...]] | None:
    query = sa.select(messages).join(message_jobs, message_jobs.c.message_key == messages.c.key)
    return connection.execute(query.where(_member(channel, job_key))).first()


def _stays(connection: sa.Connection, mine: sa.Row[tuple[object, ...]], place: Place) -> bool:
    same = mine.subject in (place.subject, MANY) or (place.array and place.array == mine.array)
    return bool(same) or _is_alone(connection, mine.key)


def _is_alone(connection: sa.Connection, key: int) -> bool:
    query = sa.select(message_jobs.c.key).where(message_jobs.c.message_key == key).limit(2)
    return len(connection.execute(query).all()) < 2


def _here(place: Place) -> Sequence[sa.ColumnElement[bool]]:
    return (
        messages.c.channel == place.channel,
        messages.c.conversation == place.conversation,
        messages.c.incident_key.is_(None),
    )


def _fitting(
    connection: sa.Connection, place: Place, pace: Pace, now: dt.datetime
) -> sa.Row[tuple[object, ...]] | None:
    newest = sa.select(messages).where(*_here(place)).order_by(messages.c.key.desc()).limit(1)
    same = messages.c.subject == place.subject
    if place.array is not None:
        same = sa.or_(same, messages.c.array == place.array)
    found = connection.execute(newest.where(same, messages.c.joined_at > now - pace.gather)).first()
    if found is None and _is_crowded(connection, place, pace, now):
        many = newest.where(messages.c.subject == MANY, messages.c.created_at > now - HOUR)
        found = connection.execute(many).first()
    return found


def _is_crowded(connection: sa.Connection, place: Place, pace: Pace, now: dt.datetime) -> bool:
    fresh = sa.select(sa.func.count()).where(*_here(place), messages.c.created_at > now - HOUR)
    return int(connection.execute(fresh).scalar_one()) >= pace.per_hour


def _begin(
    connection: sa.Connection,
    place: Place,
    subject: str,
    message_id: str,
    incident_key: int | None,
    now: dt.datetime,
) -> int:
    key = connection.execute(
        messages.insert()
        .values(
            message_id=message_id,
            channel=place.channel,
            conversation=place.conversation,
            subject=subject,
            array=place.array,
            incident_key=incident_key,
            created_at=now,
            joined_at=now,
            next_at=now,
            wanted=1,
            attempts=0,
        )
        .returning(messages.c.key)
    ).scalar_one()
    return int(key)


def _want(
    connection: sa.Connection,
    key: int,
    next_at: dt.datetime,
    values: dict[str, object] | None = None,
) -> None:
    """One that somebody is posting just now is left to him: he will see that more is wanted."""
    soon = sa.bindparam("soon", next_at, messages.c.next_at.type)
    idle = sa.or_(messages.c.next_at.is_(None), messages.c.attempts == 0)
    connection.execute(
        messages.update()
        .where(messages.c.key == key)
        .values(
            wanted=messages.c.wanted + 1,
            next_at=sa.case((idle, soon), else_=messages.c.next_at),
            **(values or {}),
        )
    )
