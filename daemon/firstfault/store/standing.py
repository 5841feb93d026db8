"""Nodes in failures: how often one was where a failure began, against how often it took part.

docs/decisions/0010-which-nodes-are-suspect.md says why it is counted so.
"""

from __future__ import annotations

import datetime as dt
import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import sqlalchemy as sa
from msgspec.structs import replace

from firstfault.model.board import NodeStanding
from firstfault.model.texts import storable
from firstfault.store import names
from firstfault.store.database import Database
from firstfault.store.failure_counts import PPM, SPANS
from firstfault.store.failure_tables import failures, node_days, nodes
from firstfault.store.failures import DOMAINS, day_of

# A node is suspect where so many by chance are less likely than this, though all nodes were looked at.
LEVEL = 0.01
LEAST = 3
# Of so many of the most suspicious nodes their causes are told.
TOLD = 100
_Z95 = 1.959964
_DAY_MICRO = 86_400_000_000
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
    """The failures that began on a node and may be the system's: by cause, and the last one."""

    causes: dict[int, int]
    last_at: dt.datetime


def at_least(successes: int, trials: int, probability: float) -> float:
    """The probability of so many ``successes`` or more, each trial alike (binomial)."""
    if successes <= 0:
        return 1.0
    if successes > trials or probability <= 0.0:
        return 0.0
    if probability >= 1.0:
        return 1.0
    ways = (
        math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
    )
    odds = probability / (1.0 - probability)
    term = math.exp(
        ways + successes * math.log(probability) + (trials - successes) * math.log1p(-probability)
    )
    total = term
    for count in range(successes, trials):
        term *= (trials - count) / (count + 1) * odds
        total += term
        # Beyond the mean terms fall ever faster.
        if term < total * 1e-12 and count > trials * probability:
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
    found = [1.0] * count
    # What is certain stays so, and makes nothing else less likely.
    unsure = [index for index, one in enumerate(probabilities) if one < 1.0]
    least = 1.0
    for place, index in enumerate(sorted(unsure, key=probabilities.__getitem__, reverse=True)):
        least = min(least, probabilities[index] * (count / (len(unsure) - place)))
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
    most: int | None = None,
) -> tuple[NodeStanding, ...]:
    """The nodes of failed jobs, the most suspicious first: all, or so many.

    Whole days of UTC are counted: those in which the time begins and ends, too. Causes are told of
    the first `TOLD`; `told` tells them of another.
    """
    first, last = _days(since, until)
    with database.reading() as connection:
        parts = list(_parts(connection, first, last))
        if cluster is not None:
            mine = _nodes_of(connection, cluster)
            parts = [part for part in parts if part.key in mine]
        levels = adjusted([chance(part) for part in parts])
        paired: Iterable[tuple[float, Part]] = zip(levels, parts, strict=True)
        ordered = sorted(paired, key=_suspicion) if most is None else _first(most, paired)
        known = names.of_nodes(connection, [part.key for _, part in ordered])
        keys = [part.key for _, part in ordered[:TOLD] if part.initiated]
        began = _began(connection, keys, first, last)
        standing_out = [part for level, part in ordered if level < LEVEL]
        suspects = _suspects(connection, standing_out, first, last)
        causes = names.of_numbers(
            connection, {cause for one in began.values() for cause in one.causes}
        )
    made = [
        _standing(part, level, part.key in suspects, known[part.key], began.get(part.key), causes)
        for level, part in ordered
    ]
    return tuple(sorted(made, key=lambda one: not one.suspect))


def told(
    database: Database, since: dt.datetime, until: dt.datetime, one: NodeStanding
) -> NodeStanding:
    """The standing of a node, with the causes of what began on it and the last time."""
    if one.causes or not one.initiated:
        return one
    with database.reading() as connection:
        known = names.known_nodes(connection, one.cluster or "", [one.node])
        began = _began(connection, known.values(), *_days(since, until))
        causes = names.of_numbers(
            connection, {cause for each in began.values() for cause in each.causes}
        )
    return next((_with(one, each, causes) for each in began.values()), one)


def _days(since: dt.datetime, until: dt.datetime) -> tuple[int, int]:
    """The days of UTC of a time: the first, and the one behind the last."""
    return day_of(since), day_of(until - dt.timedelta(microseconds=1)) + 1


def _first(most: int, paired: Iterable[tuple[float, Part]]) -> list[tuple[float, Part]]:
    return heapq.nsmallest(most, paired, key=_suspicion)


def _suspicion(one: tuple[float, Part]) -> tuple[float, int, int, int]:
    level, part = one
    return level, -part.initiated, -part.took_part, part.key


def _standing(
    part: Part,
    level: float,
    suspect: bool,
    named: tuple[str, str],
    began: Began | None,
    causes: dict[int | None, str],
) -> NodeStanding:
    cluster, node = named
    low, high = share_of(part.initiated, part.took_part)
    standing = NodeStanding(
        node=node,
        cluster=cluster or None,
        initiated=part.initiated,
        took_part=part.took_part,
        expected=part.expected,
        low=low,
        high=high,
        adjusted=level,
        suspect=suspect,
    )
    return standing if began is None else _with(standing, began, causes)


def _with(standing: NodeStanding, began: Began, causes: dict[int | None, str]) -> NodeStanding:
    return replace(
        standing,
        last_at=began.last_at,
        causes=tuple(
            (causes.get(cause, "unknown"), count)
            for cause, count in sorted(began.causes.items(), key=lambda each: -each[1])
        ),
    )


def _suspects(connection: sa.Connection, parts: Sequence[Part], first: int, last: int) -> set[int]:
    """Those of the nodes on which enough failures began, of users enough."""
    enough = [part.key for part in parts if part.initiated - part.alone >= LEAST]
    c = failures.c
    found = set[int]()
    for keys in names.parts(enough):
        query = (
            sa.select(
                c.host,
                sa.func.count(c.user.distinct()),
                sa.func.sum(sa.case((c.domain == _SYSTEM, 1), else_=0)),
            )
            .where(*_on(keys, first, last))
            .group_by(c.host)
        )
        # One who sends the same job to the same nodes again and again blames always the same one.
        found.update(
            host
            for host, users, systems in connection.execute(query)
            if users > 1 or systems >= LEAST
        )
    return found


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
    for key, took_part, trials, initiated, alone, ppm in connection.execute(query).all():
        yield Part(key, int(took_part), int(trials), int(initiated), int(alone), int(ppm) / PPM)


def _nodes_of(connection: sa.Connection, cluster: str) -> set[int]:
    query = sa.select(nodes.c.key).where(nodes.c.cluster == storable(cluster))
    return {*connection.execute(query).scalars()}


def _began(
    connection: sa.Connection, keys: Iterable[int], first: int, last: int
) -> dict[int, Began]:
    c = failures.c
    causes: dict[int, dict[int, int]] = defaultdict(dict)
    last_at: dict[int, dt.datetime] = {}
    for part in names.parts(sorted(keys)):
        query = (
            sa.select(c.host, c.cause, sa.func.count(), sa.func.max(c.ended_at))
            .where(*_on(part, first, last))
            .group_by(c.host, c.cause)
        )
        for host, cause, count, at in connection.execute(query):
            causes[host][cause] = count
            last_at[host] = max(at, last_at.get(host, at))
    return {host: Began(those, last_at[host]) for host, those in causes.items()}


def _on(keys: Sequence[int], first: int, last: int) -> tuple[sa.ColumnElement[bool], ...]:
    """The failures that began on these nodes in these days, and may be the system's."""
    c = failures.c
    at = sa.type_coerce(c.ended_at, sa.BigInteger)
    return (
        c.host.in_(keys),
        at >= first * _DAY_MICRO,
        at < last * _DAY_MICRO,
        c.domain.in_(_MAY_BE_SYSTEMS),
    )
