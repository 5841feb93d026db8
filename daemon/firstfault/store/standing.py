"""Nodes in failures: how often one was where a failure began, against how often it took part.

docs/decisions/0010-which-nodes-are-suspect.md says why it is counted so.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from firstfault.model.board import NodeStanding
from firstfault.store import names
from firstfault.store.database import Database
from firstfault.store.failure_counts import PPM, SPANS
from firstfault.store.failure_tables import failures, node_days, nodes
from firstfault.store.failures import DOMAINS, day_of
from firstfault.store.schema import UtcTime

# A node is suspect where so many by chance are less likely than this, though all nodes were looked at.
LEVEL = 0.01
LEAST = 3
# Of so many of the most suspicious nodes their causes are told.
TOLD = 200
_Z95 = 1.959964
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SYSTEM = DOMAINS["system"]
_MAY_BE_SYSTEMS = (DOMAINS["system"], DOMAINS["either"])


class Part(NamedTuple):
    """A node's part in failures, as in the table ``node_days``."""

    key: int
    took_part: int
    trials: int
    initiated: int
    alone: int
    expected: float


class Began(NamedTuple):
    """The failures that began on a node and may be the system's: by cause, and whose they were."""

    causes: dict[int, int]
    users: frozenset[int | None]
    system: int
    last_at: dt.datetime


def at_least(successes: int, trials: int, probability: float) -> float:
    """The probability of so many ``successes`` or more, each trial alike (binomial)."""
    if successes <= 0:
        return 1.0
    if successes > trials or probability <= 0.0:
        return 0.0
    if probability >= 1.0:
        return 1.0
    log_p, log_q = math.log(probability), math.log1p(-probability)
    total, of_all = 0.0, math.lgamma(trials + 1)
    for count in range(successes, trials + 1):
        ways = of_all - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
        term = math.exp(ways + count * log_p + (trials - count) * log_q)
        total += term
        # Beyond the mean terms fall ever faster.
        if count > trials * probability and term < total * 1e-12:
            break
    return min(1.0, total)


def share_of(successes: int, trials: int) -> tuple[float, float]:
    """The bounds of a share, 95 % (Wilson's interval)."""
    if not trials:
        return 0.0, 1.0
    share, z2 = successes / trials, _Z95 * _Z95
    middle = share + z2 / (2 * trials)
    spread = _Z95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    below = 1 + z2 / trials
    low = 0.0 if successes == 0 else max(0.0, (middle - spread) / below)
    high = 1.0 if successes == trials else min(1.0, (middle + spread) / below)
    return low, high


def adjusted(probabilities: Sequence[float]) -> list[float]:
    """Each probability as it is after looking at so many (Benjamini and Hochberg)."""
    count = len(probabilities)
    order = sorted(range(count), key=probabilities.__getitem__, reverse=True)
    found, least = [1.0] * count, 1.0
    for place, index in enumerate(order):
        least = min(least, probabilities[index] * (count / (count - place)))
        found[index] = least
    return found


def chance(part: Part) -> float:
    """The probability that so many failures, or more, begin on an innocent node by chance.

    Each began on one of its job's nodes, whichever; a job of one node tells nothing. Trials that
    differ are taken as all alike: above the mean that makes the probability larger, never smaller
    (Hoeffding 1956).
    """
    initiated, trials = part.initiated - part.alone, part.trials - part.alone
    expected = part.expected - part.alone
    if trials <= 0 or initiated < expected + 1:
        return 1.0
    return at_least(initiated, trials, expected / trials)


def standings(
    database: Database,
    since: dt.datetime,
    until: dt.datetime,
    cluster: str | None = None,
    besides: tuple[str, str] | None = None,
) -> tuple[NodeStanding, ...]:
    """All nodes of failed jobs, the most suspicious first.

    Whole days of UTC are counted: those in which the time begins and ends, too. Causes are told of
    the first `TOLD`, and of the node ``besides`` them (cluster, name).
    """
    first, last = day_of(since), day_of(until - dt.timedelta(microseconds=1)) + 1
    with database.reading() as connection:
        known = _nodes(connection, cluster)
        parts = [part for part in _parts(connection, first, last) if part.key in known]
        levels = adjusted([chance(part) for part in parts])
        ordered = sorted(
            zip(parts, levels, strict=True),
            key=lambda each: (each[1], -each[0].initiated, -each[0].took_part, known[each[0].key]),
        )
        told = [part.key for part, _ in ordered[:TOLD] if part.initiated]
        told += [part.key for part, _ in ordered[TOLD:] if known[part.key] == besides]
        began = _began(connection, told, first, last)
        causes = names.of_numbers(
            connection, {cause for one in began.values() for cause in one.causes}
        )
    made = [_standing(part, level, known, began.get(part.key), causes) for part, level in ordered]
    return tuple(sorted(made, key=lambda one: not one.suspect))


def _standing(
    part: Part,
    level: float,
    known: dict[int, tuple[str, str]],
    began: Began | None,
    causes: dict[int | None, str],
) -> NodeStanding:
    cluster, node = known[part.key]
    low, high = share_of(part.initiated, part.took_part)
    return NodeStanding(
        node=node,
        cluster=cluster or None,
        initiated=part.initiated,
        took_part=part.took_part,
        expected=part.expected,
        low=low,
        high=high,
        adjusted=level,
        suspect=level < LEVEL and began is not None and _is_enough(part, began),
        last_at=None if began is None else began.last_at,
        causes=()
        if began is None
        else tuple(
            (causes.get(cause, "unknown"), count)
            for cause, count in sorted(began.causes.items(), key=lambda each: -each[1])
        ),
    )


def _is_enough(part: Part, began: Began) -> bool:
    # One who sends the same job to the same nodes again and again blames always the same one.
    return part.initiated - part.alone >= LEAST and (len(began.users) > 1 or began.system >= LEAST)


def spans(first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """The days from ``first`` to before ``last`` in few rows: length, first span, and behind the
    last span of that length."""
    ends = [(first, last)]
    for days in sorted(SPANS, reverse=True):
        left = []
        for begin, end in ends:
            low, high = -(-begin // days), end // days
            if low < high:
                yield days, low, high
                left += [(begin, low * days), (high * days, end)]
            else:
                left.append((begin, end))
        ends = [(begin, end) for begin, end in left if begin < end]


def _parts(connection: sa.Connection, first: int, last: int) -> Iterator[Part]:
    c = node_days.c
    columns = (c.took_part, c.trials, c.initiated, c.alone, c.expected_ppm)
    selected = [
        sa.select(c.node, *columns).where(c.days == days, c.span >= low, c.span < high)
        for days, low, high in spans(first, last)
    ]
    if not selected:
        return
    rows = sa.union_all(*selected).subquery()
    query = sa.select(
        rows.c.node, *(sa.func.sum(rows.c[column.name]) for column in columns)
    ).group_by(rows.c.node)
    for key, took_part, trials, initiated, alone, ppm in connection.execute(query):
        yield Part(key, int(took_part), int(trials), int(initiated), int(alone), int(ppm) / PPM)


def _nodes(connection: sa.Connection, cluster: str | None) -> dict[int, tuple[str, str]]:
    query = sa.select(nodes.c.key, nodes.c.cluster, nodes.c.node)
    if cluster is not None:
        query = query.where(nodes.c.cluster == cluster)
    return {key: (of, node) for key, of, node in connection.execute(query)}


def _began(
    connection: sa.Connection, keys: Iterable[int], first: int, last: int
) -> dict[int, Began]:
    c = failures.c
    day = dt.timedelta(days=1)
    since, until = (sa.bindparam(None, _EPOCH + number * day, UtcTime) for number in (first, last))
    rows: dict[int, list[sa.Row[Any]]] = defaultdict(list)
    for part in names.parts(sorted(keys)):
        query = (
            sa.select(
                c.host,
                c.cause,
                c.user,
                c.domain,
                sa.func.count().label("failed"),
                sa.func.max(c.ended_at).label("last_at"),
            )
            .where(
                c.host.in_(part),
                c.ended_at >= since,
                c.ended_at < until,
                c.domain.in_(_MAY_BE_SYSTEMS),
            )
            .group_by(c.host, c.cause, c.user, c.domain)
        )
        for row in connection.execute(query):
            rows[row.host].append(row)
    return {host: _sum(those) for host, those in rows.items()}


def _sum(rows: Sequence[sa.Row[Any]]) -> Began:
    causes: dict[int, int] = defaultdict(int)
    for row in rows:
        causes[row.cause] += row.failed
    return Began(
        causes=dict(causes),
        users=frozenset(row.user for row in rows),
        system=sum(row.failed for row in rows if row.domain == _SYSTEM),
        last_at=max(row.last_at for row in rows),
    )
