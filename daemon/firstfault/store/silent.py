"""How the intake does: when records came last, and nodes that send none though jobs end there."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import sqlalchemy as sa

from firstfault.model.board import SilentNode
from firstfault.store.database import Database
from firstfault.store.failure_tables import failure_nodes, nodes
from firstfault.store.schema import UtcTime, deliveries, evidence, sweeps

# A node's record of an end is this late at most; before, nothing is missed.
LATE = dt.timedelta(minutes=30)
LOOK_BACK = dt.timedelta(days=30)
MOST = 500
ANSWERS = "answers"


def silent_nodes(database: Database, now: dt.datetime) -> tuple[SilentNode, ...]:
    """Nodes on which failed jobs have ended since their last record, the most of them first."""
    ended = failure_nodes.c.ended_at
    micro = sa.BigInteger
    late = LATE // dt.timedelta(microseconds=1)
    since_record = sa.func.coalesce(sa.type_coerce(nodes.c.last_record_at, micro) + late, 0)
    # Counted node by node: most have nothing there, and a join would read what all have.
    count = (
        sa.select(sa.func.count())
        .select_from(failure_nodes)
        .where(
            failure_nodes.c.node == nodes.c.key,
            sa.type_coerce(ended, micro) > since_record,
            ended >= sa.bindparam(None, now - LOOK_BACK, UtcTime),
            ended < sa.bindparam(None, now - LATE, UtcTime),
        )
        .scalar_subquery()
    )
    each = (
        sa.select(
            nodes.c.key,
            nodes.c.node,
            nodes.c.cluster,
            nodes.c.last_record_at,
            count.label("failed"),
        )
        .subquery()
        .c
    )
    query = (
        sa.select(each.node, each.cluster, each.last_record_at, each.failed)
        .where(each.failed > 0)
        .order_by(each.failed.desc(), each.key)
        .limit(MOST)
    )
    with database.reading() as connection:
        return tuple(
            SilentNode(node, cluster or None, last_at, int(failed))
            for node, cluster, last_at, failed in connection.execute(query)
        )


def last_times(database: Database) -> tuple[dt.datetime | None, dt.datetime | None]:
    """When the last record was stored, and when Slurm last told of a job."""
    answered = sa.select(sweeps.c.until_at).where(sweeps.c.name == ANSWERS)
    with database.reading() as connection:
        record_at = connection.execute(sa.select(sa.func.max(evidence.c.stored_at))).scalar()
        return record_at, connection.execute(answered).scalar()


def delivery_states(database: Database) -> dict[str, int]:
    """How many deliveries are in each state."""
    c = deliveries.c
    # In the order of an index, so that nothing is sorted.
    query = sa.select(c.state, sa.func.count(), c.channel).group_by(c.channel, c.state)
    found = Counter[str]()
    with database.reading() as connection:
        for state, count, _channel in connection.execute(query):
            found[state] += count
    return dict(found)


def note_answer(connection: sa.Connection, now: dt.datetime) -> None:
    """Notes that Slurm told of a job."""
    named = sweeps.c.name == ANSWERS
    noted = connection.execute(sweeps.update().where(named).values(until_at=now))
    if not noted.rowcount:
        connection.execute(sweeps.insert().values(name=ANSWERS, began_at=now, until_at=now))
