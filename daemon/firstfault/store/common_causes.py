"""Incidents of several jobs: what they share is one matter, and is told and handled once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.store.database import Database, hold
from firstfault.store.incident_members import Keep, Members, anew, members
from firstfault.store.schema import incident_jobs, incidents, jobs, messages, signs, silences

# A number that no other program takes in this database, as those of `firstfault.store.database`.
OPENING = 0x66697273740004
# A job is judged some time after it failed.
LOOK_BACK = dt.timedelta(hours=1)
_MOST_SIGNS = 50_000


class Sign(NamedTuple):
    """What a job shares with others, if they do."""

    job_key: int
    cluster: str
    kind: str
    name: str
    at: dt.datetime


class Group(NamedTuple):
    """Jobs that fail by the same thing."""

    cluster: str
    kind: str
    name: str
    jobs: tuple[int, ...]
    first_at: dt.datetime
    last_at: dt.datetime


class Changed(NamedTuple):
    """An incident that was opened or that jobs have joined; ``jobs`` are the new ones."""

    key: int
    opened: bool
    jobs: tuple[int, ...]


def groups(found: Iterable[Sign], least: int, within: dt.timedelta) -> list[Group]:
    """The groups of ``least`` jobs or more that failed within a time, each job in one of them.

    The largest group comes first, of two that are as large the narrower one: five jobs on one
    node with one cause are an incident of the node.
    """
    rest = list(found)
    made: list[Group] = []
    while True:
        grouped: dict[tuple[str, str, str], dict[int, dt.datetime]] = {}
        for sign in rest:
            grouped.setdefault(sign[1:4], {})[sign.job_key] = sign.at
        candidates = [
            group
            for (cluster, kind, name), times in grouped.items()
            if (group := _dense(cluster, kind, name, times, least, within)) is not None
        ]
        if not candidates:
            return made
        best = min(candidates, key=lambda g: (-len(g.jobs), j.KINDS.index(g.kind), g.name))
        made.append(best)
        rest = [sign for sign in rest if sign.job_key not in best.jobs]


def _dense(
    cluster: str,
    kind: str,
    name: str,
    times: dict[int, dt.datetime],
    least: int,
    within: dt.timedelta,
) -> Group | None:
    """All jobs of the group that are within the time of a window that is full."""
    ordered = sorted((at, key) for key, at in times.items())
    full = [
        (ordered[first][0], ordered[first + least - 1][0])
        for first in range(len(ordered) - least + 1)
        if ordered[first + least - 1][0] - ordered[first][0] <= within
    ]
    if not full:
        return None
    start, end = full[0][0], full[-1][1]
    inside = [(at, key) for at, key in ordered if start <= at <= end]
    return Group(cluster, kind, name, tuple(key for _, key in inside), start, end)


def update(
    database: Database, now: dt.datetime, least: int, within: dt.timedelta, quiet: dt.timedelta
) -> list[Changed]:
    """Lets jobs join open incidents, opens new ones and ends those that are quiet."""
    with database.reading() as connection:
        if not _fresh(connection, now - within - LOOK_BACK) and not _quiet(connection, now - quiet):
            return []
    with database.writing() as connection:
        hold(connection, OPENING)
        for key in _quiet(connection, now - quiet):
            mine = incidents.c.key == key
            connection.execute(incidents.update().where(mine).values(ended_at=now))
        fresh = _fresh(connection, now - within - LOOK_BACK)
        changed = _joined(connection, fresh, within)
        taken = {job for one in changed for job in one.jobs}
        rest = [sign for sign in fresh if sign.job_key not in taken]
        for group in groups(rest, least, within):
            key = connection.execute(
                incidents.insert()
                .values(
                    cluster=group.cluster,
                    kind=group.kind,
                    name=group.name,
                    opened_at=group.first_at,
                    last_at=group.last_at,
                )
                .returning(incidents.c.key)
            ).scalar_one()
            _add(connection, key, group.jobs)
            changed.append(Changed(int(key), True, group.jobs))
        return changed


def of_job(database: Database, job_key: int) -> int | None:
    """The incident that a job belongs to, if it is one."""
    query = sa.select(incident_jobs.c.incident_key).where(incident_jobs.c.job_key == job_key)
    with database.reading() as connection:
        return connection.execute(query).scalar()


def listed(
    database: Database,
    limit: int,
    *,
    only_open: bool = False,
    key: int | None = None,
    keep: Keep = anew,
) -> list[j.Incident]:
    """The newest incidents, those that go on first; ``keep`` as `members` takes it."""
    query = sa.select(incidents).order_by(incidents.c.last_at.desc(), incidents.c.key.desc())
    if key is not None:
        query = query.where(incidents.c.key == key)
    with database.reading() as connection:
        goes_on = query.where(incidents.c.ended_at.is_(None))
        rows = [*connection.execute(goes_on.limit(limit))]
        if not only_open and len(rows) < limit:
            ended = query.where(incidents.c.ended_at.is_not(None))
            rows += connection.execute(ended.limit(limit - len(rows)))
        found = members(connection, [row.key for row in rows], keep)
    return [_incident(row, found[row.key]) for row in rows]


def untold(database: Database, channel: str) -> list[int]:
    """The incidents that go on and have no message in a channel."""
    has = sa.exists().where(
        messages.c.incident_key == incidents.c.key, messages.c.channel == channel
    )
    query = sa.select(incidents.c.key).where(incidents.c.ended_at.is_(None), ~has)
    with database.reading() as connection:
        return list(connection.execute(query).scalars())


def newest_sign(database: Database) -> int:
    """A number that grows with each job that may belong to an incident."""
    with database.reading() as connection:
        return connection.execute(sa.select(sa.func.max(signs.c.key))).scalar() or 0


def acknowledge(database: Database, key: int, who: str, now: dt.datetime) -> bool:
    """Notes that somebody takes care of an open incident; False where there is none."""
    return _change(database, key, now, acknowledged_at=now, acknowledged_by=who)


def end(database: Database, key: int, now: dt.datetime) -> bool:
    """Ends an open incident; False where there is none. Further failures open another."""
    return _change(database, key, now, ended_at=now)


def silence(database: Database, wanted: j.Silence, now: dt.datetime) -> None:
    """Keeps something from the administrators until a time."""
    same = sa.and_(
        silences.c.cluster == (wanted.cluster or ""),
        silences.c.kind == wanted.kind,
        silences.c.name == wanted.name,
        silences.c.reservation == wanted.reservation,
    )
    with database.writing() as connection:
        connection.execute(silences.delete().where(sa.or_(same, silences.c.until <= now)))
        connection.execute(
            silences.insert().values(
                cluster=wanted.cluster or "",
                kind=wanted.kind,
                name=wanted.name,
                until=wanted.until,
                said_by=wanted.said_by,
                reservation=wanted.reservation,
            )
        )


def reserve(database: Database, cluster: str | None, wanted: Collection[j.Silence]) -> None:
    """Puts these in place of all that reservations of the cluster have said before."""
    with database.writing() as connection:
        theirs = sa.and_(silences.c.cluster == (cluster or ""), silences.c.reservation != "")
        connection.execute(silences.delete().where(theirs))
        rows = [
            {
                "cluster": cluster or "",
                "kind": one.kind,
                "name": one.name,
                "until": one.until,
                "said_by": one.said_by,
                "reservation": one.reservation,
            }
            for one in wanted
        ]
        if rows:
            connection.execute(silences.insert(), rows)


def silenced(
    database: Database, cluster: str | None, names: Collection[tuple[str, str]], now: dt.datetime
) -> j.Silence | None:
    """What keeps one of these (kind, name) from the administrators now, if anything does."""
    if not names:
        return None
    query = sa.select(silences).where(
        silences.c.until > now,
        silences.c.cluster.in_(("", cluster or "")),
        sa.or_(*(sa.and_(silences.c.kind == k, silences.c.name == n) for k, n in names)),
    )
    with database.reading() as connection:
        row = connection.execute(query.order_by(silences.c.until.desc()).limit(1)).first()
    return None if row is None else _silence(row)


def silences_now(database: Database, now: dt.datetime) -> list[j.Silence]:
    """All that is in force, the one that lasts longest first."""
    query = sa.select(silences).where(silences.c.until > now).order_by(silences.c.until.desc())
    with database.reading() as connection:
        return [_silence(row) for row in connection.execute(query)]


def remove_old(database: Database, before: dt.datetime) -> int:
    """Forgets incidents that ended before a time, with their messages and silences of then."""
    old = sa.select(incidents.c.key).where(incidents.c.ended_at < before)
    with database.reading() as connection:
        keys = connection.execute(old.limit(1000)).scalars().all()
    if not keys:
        return 0
    with database.writing() as connection:
        connection.execute(incident_jobs.delete().where(incident_jobs.c.incident_key.in_(keys)))
        connection.execute(messages.delete().where(messages.c.incident_key.in_(keys)))
        connection.execute(incidents.delete().where(incidents.c.key.in_(keys)))
        connection.execute(silences.delete().where(silences.c.until < before))
    return len(keys)


def _fresh(connection: sa.Connection, since: dt.datetime) -> list[Sign]:
    query = (
        sa.select(signs.c.job_key, jobs.c.cluster, signs.c.kind, signs.c.name, signs.c.at)
        .join(jobs, jobs.c.key == signs.c.job_key)
        .outerjoin(incident_jobs, incident_jobs.c.job_key == signs.c.job_key)
        .where(signs.c.at >= since, incident_jobs.c.key.is_(None))
        .order_by(signs.c.at.desc())
        .limit(_MOST_SIGNS)
    )
    return [Sign(*row) for row in connection.execute(query)]


def _quiet(connection: sa.Connection, before: dt.datetime) -> Sequence[int]:
    quiet = sa.and_(incidents.c.ended_at.is_(None), incidents.c.last_at < before)
    return connection.execute(sa.select(incidents.c.key).where(quiet)).scalars().all()


def _joined(
    connection: sa.Connection, fresh: Sequence[Sign], within: dt.timedelta
) -> list[Changed]:
    going_on = connection.execute(sa.select(incidents).where(incidents.c.ended_at.is_(None))).all()
    changed, taken = [], set[int]()
    for row in sorted(going_on, key=lambda row: (j.KINDS.index(row.kind), row.key)):
        what = (row.cluster, row.kind, row.name)
        mine = [
            sign
            for sign in fresh
            if sign[1:4] == what and sign.job_key not in taken and sign.at >= row.opened_at - within
        ]
        if not mine:
            continue
        keys = tuple(dict.fromkeys(sign.job_key for sign in mine))
        last_at = max(row.last_at, *(sign.at for sign in mine))
        _add(connection, row.key, keys)
        it = incidents.c.key == row.key
        connection.execute(incidents.update().where(it).values(last_at=last_at))
        taken |= {*keys}
        changed.append(Changed(row.key, False, keys))
    return changed


def _add(connection: sa.Connection, key: int, job_keys: Sequence[int]) -> None:
    rows = [{"incident_key": key, "job_key": job_key} for job_key in job_keys]
    connection.execute(incident_jobs.insert(), rows)


def _change(database: Database, key: int, now: dt.datetime, **values: object) -> bool:
    with database.writing() as connection:
        mine = sa.and_(incidents.c.key == key, incidents.c.ended_at.is_(None))
        changed = connection.execute(incidents.update().where(mine).values(**values)).rowcount
        if changed:
            # Its message says so.
            connection.execute(
                messages.update()
                .where(messages.c.incident_key == key)
                .values(wanted=messages.c.wanted + 1, next_at=now)
            )
    return changed == 1


def _incident(row: sa.Row[tuple[object, ...]], of_it: Members) -> j.Incident:
    return j.Incident(
        key=row.key,
        cluster=row.cluster or None,
        kind=row.kind,
        name=row.name,
        opened_at=row.opened_at,
        last_at=row.last_at,
        ended_at=row.ended_at,
        acknowledged_by=row.acknowledged_by,
        jobs=of_it.jobs,
        names=of_it.names,
        causes=of_it.causes,
        hosts=of_it.hosts,
    )


def _silence(row: sa.Row[tuple[object, ...]]) -> j.Silence:
    return j.Silence(
        cluster=row.cluster or None,
        kind=row.kind,
        name=row.name,
        until=row.until,
        said_by=row.said_by,
        reservation=row.reservation,
    )
