"""What is counted of failures: by day, by node, by fingerprint. One failure in, one out."""

from __future__ import annotations

import datetime as dt

import msgspec
import sqlalchemy as sa

from firstfault.store import names
from firstfault.store.failure_tables import (
    failure_days,
    failures,
    fingerprint_users,
    fingerprints,
    node_days,
)

DAY = dt.timedelta(days=1)
# Days of one row of ``node_days``.
SPANS = (1, 4, 16, 64)
PPM = 1_000_000
_SUMS = ("one", "trial", "initiated", "alone", "ppm")
NOBODY = 0  # in place of a user, where Slurm has told none

_ADD_DAY = sa.text(
    "INSERT INTO failure_days (day, cluster, cause, domain, failures, node_s, gpu_s) "
    "VALUES (:day, :cluster, :cause, :domain, :one, :node_s, :gpu_s) "
    "ON CONFLICT (day, cluster, cause, domain) DO UPDATE SET "
    "failures = failure_days.failures + excluded.failures, "
    "node_s = failure_days.node_s + excluded.node_s, "
    "gpu_s = failure_days.gpu_s + excluded.gpu_s"
)
_ADD_NODE = sa.text(
    "INSERT INTO node_days "
    "(days, span, node, took_part, trials, initiated, alone, expected_ppm) "
    "VALUES (:days, :span, :node, :one, :trial, :initiated, :alone, :ppm) "
    "ON CONFLICT (days, span, node) DO UPDATE SET "
    "took_part = node_days.took_part + excluded.took_part, "
    "trials = node_days.trials + excluded.trials, "
    "initiated = node_days.initiated + excluded.initiated, "
    "alone = node_days.alone + excluded.alone, "
    "expected_ppm = node_days.expected_ppm + excluded.expected_ppm"
)
_ADD_USER = sa.text(
    'INSERT INTO fingerprint_users (fingerprint, "user", failures) '
    'VALUES (:fingerprint, :user, :one) ON CONFLICT (fingerprint, "user") DO UPDATE SET '
    "failures = fingerprint_users.failures + excluded.failures"
)


class Counted(msgspec.Struct, frozen=True):
    """What a failure adds to counts; ``host`` is the node that it is counted against, if one."""

    key: int
    ended_at: dt.datetime
    day: int
    cluster: int
    cause: int
    domain: int
    node_s: int
    gpu_s: int
    fingerprint: int | None
    user: int | None
    members: tuple[int, ...]
    host: int | None


def change(connection: sa.Connection, before: Counted | None, after: Counted | None) -> None:
    """Takes ``before`` out of all counts and puts ``after`` in; who counts holds the lock."""
    _count_days(connection, before, after)
    _count_nodes(connection, before, after)
    _count_fingerprints(connection, before, after)


def _same(before: Counted | None, after: Counted | None, *names: str) -> bool:
    if before is None or after is None:
        return before is after
    return all(getattr(before, name) == getattr(after, name) for name in names)


def node_rows(one: Counted, sign: int) -> list[dict[str, int]]:
    """What a failure adds to ``node_days`` (``sign`` 1), or takes away (-1)."""
    trial = sign * (one.host is not None)
    alone = trial if len(one.members) == 1 else 0
    ppm = trial * round(PPM / len(one.members)) if one.members else 0
    return [
        {
            "days": days,
            "span": one.day // days,
            "node": node,
            "one": sign,
            "trial": trial,
            "initiated": sign * (node == one.host),
            "alone": alone,
            "ppm": ppm,
        }
        for days in SPANS
        for node in sorted(one.members)
    ]


def _count_days(connection: sa.Connection, before: Counted | None, after: Counted | None) -> None:
    if _same(before, after, "day", "cluster", "cause", "domain", "node_s", "gpu_s"):
        return
    for one, sign in ((after, 1), (before, -1)):
        if one is not None:
            day = {name: getattr(one, name) for name in ("day", "cluster", "cause", "domain")}
            sums = {"one": sign, "node_s": sign * one.node_s, "gpu_s": sign * one.gpu_s}
            connection.execute(_ADD_DAY, day | sums)
    if before is not None:
        days = failure_days.c
        same = sa.and_(*(days[k] == getattr(before, k) for k in ("day", "cluster", "cause")))
        connection.execute(failure_days.delete().where(same, days.failures <= 0))


def _count_nodes(connection: sa.Connection, before: Counted | None, after: Counted | None) -> None:
    if _same(before, after, "day", "members", "host"):
        return
    changed = _net(before, after)
    if changed:
        connection.execute(_ADD_NODE, changed)
    c = node_days.c
    if before is not None and not _same(before, after, "day", "members"):
        spans = [sa.and_(c.days == days, c.span == before.day // days) for days in SPANS]
        for part in names.parts(sorted(before.members)):
            empty = sa.and_(sa.or_(*spans), c.node.in_(part), c.took_part <= 0)
            connection.execute(node_days.delete().where(empty))


def _net(before: Counted | None, after: Counted | None) -> list[dict[str, int]]:
    """What changes in ``node_days``: of a revision most nodes' parts stay as they are."""
    added = node_rows(after, 1) if after is not None else []
    if before is None:
        return added
    rows = {(row["days"], row["span"], row["node"]): row for row in added}
    for row in node_rows(before, -1):
        key = (row["days"], row["span"], row["node"])
        other = rows.pop(key, None)
        if other is not None:
            row |= {name: row[name] + other[name] for name in _SUMS}
        if any(row[name] for name in _SUMS):
            rows[key] = row
    return list(rows.values())


def _count_fingerprints(
    connection: sa.Connection, before: Counted | None, after: Counted | None
) -> None:
    if _same(before, after, "fingerprint", "user", "ended_at"):
        return
    for one, sign in ((after, 1), (before, -1)):
        if one is not None and one.fingerprint is not None:
            user = NOBODY if one.user is None else one.user
            values = {"fingerprint": one.fingerprint, "user": user, "one": sign}
            connection.execute(_ADD_USER, values)
            c = fingerprint_users.c
            none_left = sa.and_(c.fingerprint == one.fingerprint, c.user == user, c.failures <= 0)
            if sign < 0:
                connection.execute(fingerprint_users.delete().where(none_left))
    touched = {one.fingerprint for one in (before, after) if one is not None}
    for number in sorted(key for key in touched if key is not None):
        _renew(connection, number)


def _renew(connection: sa.Connection, number: int) -> None:
    """Reads a fingerprint's ends and sums anew: each from an index."""
    users = fingerprint_users.c
    total = connection.execute(
        sa.select(sa.func.sum(users.failures)).where(users.fingerprint == number)
    ).scalar()
    connection.execute(fingerprints.delete().where(fingerprints.c.key == number))
    if not total:
        return
    mine = failures.c.fingerprint == number
    by_time = (failures.c.ended_at, failures.c.key)
    # One question for each end: both in one are found by reading all that lies between.
    first = connection.execute(sa.select(*by_time).where(mine).order_by(*by_time).limit(1)).one()
    last = connection.execute(
        sa.select(*by_time).where(mine).order_by(*(each.desc() for each in by_time)).limit(1)
    ).one()
    connection.execute(
        fingerprints.insert().values(
            key=number,
            first_at=first.ended_at,
            last_at=last.ended_at,
            failures=int(total),
            newest=last.key,
        )
    )
