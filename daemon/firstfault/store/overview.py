"""Failures counted over a time: by step, domain and cause.

For who sees all, whole days come from ``failure_days`` and what is left at both ends from the
failures themselves; for others all does, by an index of their own.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from firstfault.model.board import CauseCount, Count, Reader, Slot
from firstfault.store import names
from firstfault.store.database import Database
from firstfault.store.failure_tables import failure_days, failures
from firstfault.store.failures import DOMAINS, day_of
from firstfault.store.schema import UtcTime
from firstfault.store.scope import quiet, shares

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
HOUR_S, DAY_S = 3600, 86_400
WEEK_S = 7 * DAY_S
# 1970 began on a Thursday, weeks begin on Monday.
_TO_MONDAY_S = 3 * DAY_S
_MICRO = 1_000_000


class Counted(NamedTuple):
    """The failures of one step of time, counted from 1970, with one domain and one cause."""

    step: int
    domain: int
    cause: int
    sums: Count


class Counts(NamedTuple):
    """Of a time: all, by domain, by cause (most first) and by step (without gaps)."""

    total: Count
    domains: dict[str, Count]
    causes: tuple[CauseCount, ...]
    slots: tuple[Slot, ...]


_DOMAIN_NAMES = {number: name for name, number in DOMAINS.items()} | {0: "either"}


def step_s(since: dt.datetime, until: dt.datetime) -> int:
    """How long the steps of a picture of this time are: hours, days or weeks, some hundred of
    them."""
    if until - since <= 3 * DAY:
        return HOUR_S
    if until - since <= 120 * DAY:
        return DAY_S
    return WEEK_S if until - since <= 3660 * DAY else 52 * WEEK_S


def counts(
    database: Database,
    reader: Reader,
    since: dt.datetime,
    until: dt.datetime,
    cluster: str | None,
    step: int,
) -> Counts:
    """What the reader may see of the failures that ended in this time."""
    with database.reading() as connection:
        found = list(_counted(connection, reader, since, until, cluster, step))
        texts = names.of_numbers(connection, {one.cause for one in found})
    causes: dict[str, list[Counted]] = defaultdict(list)
    domains: dict[str, list[Counted]] = defaultdict(list)
    slots: dict[int, list[Counted]] = defaultdict(list)
    for one in found:
        causes[texts.get(one.cause, "unknown")].append(one)
        domains[_DOMAIN_NAMES.get(one.domain, "either")].append(one)
        slots[one.step].append(one)

    def slot(number: int) -> Slot:
        by_domain, by_cause = Counter[str](), Counter[str]()
        for one in slots.get(number, ()):
            by_domain[_DOMAIN_NAMES.get(one.domain, "either")] += one.sums.failures
            by_cause[texts.get(one.cause, "unknown")] += one.sums.failures
        return Slot(_begin(number, step), dict(by_domain), dict(by_cause))

    steps = range(_number(since, step), _number(until - dt.timedelta(microseconds=1), step) + 1)
    return Counts(
        total=_sum(found),
        domains={name: _sum(those) for name, those in domains.items()},
        causes=tuple(
            sorted(
                (CauseCount(cause, _most(those), _sum(those)) for cause, those in causes.items()),
                key=lambda each: (-each.count.failures, each.cause),
            )
        ),
        slots=tuple(slot(number) for number in steps),
    )


def total(
    database: Database,
    reader: Reader,
    since: dt.datetime,
    until: dt.datetime,
    cluster: str | None,
) -> Count:
    """All that the reader may see of the failures that ended in this time."""
    step = step_s(since, until)
    with database.reading() as connection:
        return _sum(list(_counted(connection, reader, since, until, cluster, step, alike=True)))


def _most(those: Sequence[Counted]) -> str:
    domains = Counter[str]()
    for one in those:
        domains[_DOMAIN_NAMES.get(one.domain, "either")] += one.sums.failures
    return max(sorted(domains), key=domains.__getitem__)


def _sum(those: Sequence[Counted]) -> Count:
    return Count(
        sum(one.sums.failures for one in those),
        sum(one.sums.node_s for one in those),
        sum(one.sums.gpu_s for one in those),
    )


def _counted(
    connection: sa.Connection,
    reader: Reader,
    since: dt.datetime,
    until: dt.datetime,
    cluster: str | None,
    step: int,
    *,
    alike: bool = False,
) -> Iterator[Counted]:
    # ``alike``: all are summed up, whatever their step, domain and cause.
    number = None
    if cluster is not None:
        name = names.full("cluster", cluster)
        number = names.known(connection, [name]).get(name)
        if number is None:
            return
    first, last = -(-(since - EPOCH) // DAY), day_of(until)
    if not reader.administrator or step < DAY_S or last <= first:
        yield from _directly(connection, reader, since, until, number, step, alike)
        return
    yield from _of_days(connection, first, last, number, step, alike)
    for begin, end in ((since, EPOCH + first * DAY), (EPOCH + last * DAY, until)):
        if begin < end:
            yield from _directly(connection, reader, begin, end, number, step, alike)


def _of_days(
    connection: sa.Connection,
    first: int,
    last: int,
    cluster: int | None,
    step: int,
    alike: bool,
) -> Iterator[Counted]:
    c = failure_days.c
    days, shift = step // DAY_S, _TO_MONDAY_S // DAY_S if step % WEEK_S == 0 else 0
    at = (c.day + shift) // days
    query = sa.select(sa.func.sum(c.failures), sa.func.sum(c.node_s), sa.func.sum(c.gpu_s)).where(
        c.day >= first, c.day < last
    )
    if cluster is not None:
        query = query.where(c.cluster == cluster)
    yield from _read(connection, query, None if alike else _Key(at, c.domain, c.cause))


def _directly(
    connection: sa.Connection,
    reader: Reader,
    since: dt.datetime,
    until: dt.datetime,
    cluster: int | None,
    step: int,
    alike: bool,
) -> Iterator[Counted]:
    c = failures.c
    columns = (c.ended_at, c.domain, c.cause, c.node_s, c.gpu_s)
    seen = [
        sa.select(*columns).where(
            *share.searched, c.ended_at >= _time(since), c.ended_at < _time(until)
        )
        for share in shares(connection, reader)
    ]
    if cluster is not None:
        seen = [each.where(quiet(c.cluster) == cluster) for each in seen]
    if not seen:
        return
    # Put together before they are summed up: of each share there are as many sums as of one.
    rows = (seen[0] if len(seen) == 1 else sa.union_all(*seen)).subquery().c
    shift = _TO_MONDAY_S if step % WEEK_S == 0 else 0
    at = (sa.type_coerce(rows.ended_at, sa.BigInteger) + shift * _MICRO) // (step * _MICRO)
    query = sa.select(sa.func.count(), sa.func.sum(rows.node_s), sa.func.sum(rows.gpu_s))
    yield from _read(connection, query, None if alike else _Key(at, rows.domain, rows.cause))


class _Key(NamedTuple):
    """What is summed up by."""

    step: sa.ColumnElement[int]
    domain: sa.ColumnElement[int]
    cause: sa.ColumnElement[int]

    def packed(self) -> sa.ColumnElement[int]:
        """All of it in one number: SQLite sorts by it, which is sooner done than by three."""
        wide = sa.literal(_WIDE, sa.BigInteger)
        return (self.step * _DOMAINS + self.domain) * wide + self.cause


# More than there are domains, and numbers of causes.
_DOMAINS, _WIDE = 4, 1 << 32


def _read(
    connection: sa.Connection, sums: sa.Select[*tuple[Any, ...]], by: _Key | None
) -> Iterator[Counted]:
    """The ``sums`` of failures, by step, domain and cause; of all alike where these are not given."""
    if by is not None:
        packed = by.packed()
        sums = sums.add_columns(packed).group_by(packed)
    for failed, node_s, gpu_s, *keys in connection.execute(sums).all():
        rest, cause = divmod(sum(keys), _WIDE)
        step, domain = divmod(rest, _DOMAINS)
        yield Counted(
            step, domain, cause, Count(int(failed or 0), float(node_s or 0), float(gpu_s or 0))
        )


def _number(at: dt.datetime, step: int) -> int:
    shift = _TO_MONDAY_S if step % WEEK_S == 0 else 0
    return (at - EPOCH + dt.timedelta(seconds=shift)) // dt.timedelta(seconds=step)


def _begin(number: int, step: int) -> dt.datetime:
    shift = _TO_MONDAY_S if step % WEEK_S == 0 else 0
    since_1970 = dt.timedelta(seconds=number * step - shift)
    return EPOCH + max(since_1970, dt.datetime.min.replace(tzinfo=dt.UTC) - EPOCH)


def _time(at: dt.datetime) -> sa.BindParameter[dt.datetime]:
    return sa.bindparam(None, at, UtcTime)
