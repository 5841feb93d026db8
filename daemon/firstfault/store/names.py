"""Names by number: of users, accounts, causes, words (``names``), and of nodes (``nodes``)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from firstfault.model.texts import storable
from firstfault.store.failure_tables import names, nodes
from firstfault.store.schema import UtcTime

# With its kind a name fits into the column, and into an index of PostgreSQL.
LONGEST = 255
_AT_ONCE = 500

_NEW_NAME = sa.text("INSERT INTO names (name) VALUES (:name) ON CONFLICT DO NOTHING")
_NEW_NODE = sa.text(
    "INSERT INTO nodes (cluster, node) VALUES (:cluster, :node) ON CONFLICT DO NOTHING"
)
_RECORD = sa.text(
    "UPDATE nodes SET last_record_at = :at WHERE key = :key "
    "AND (last_record_at IS NULL OR last_record_at < :at)"
).bindparams(sa.bindparam("at", type_=UtcTime))


def full(kind: str, name: str) -> str:
    """A name as it stands in the table."""
    return f"{kind}:{storable(name)[:LONGEST]}"


def known(connection: sa.Connection, wanted: Collection[str]) -> dict[str, int]:
    """The numbers of those of these `full` names that have one."""
    found: dict[str, int] = {}
    for part in parts(sorted(wanted)):
        query = sa.select(names.c.name, names.c.key).where(names.c.name.in_(part))
        found.update((name, key) for name, key in connection.execute(query))
    return found


def numbered(connection: sa.Connection, wanted: Collection[str]) -> dict[str, int]:
    """The numbers of all of these `full` names; who has none gets one."""
    found = known(connection, wanted)
    new = sorted({*wanted} - found.keys())
    if new:
        connection.execute(_NEW_NAME, [{"name": name} for name in new])
        found |= known(connection, new)
    return found


def of_kind(connection: sa.Connection, kind: str, most: int) -> tuple[str, ...]:
    """The first ``most`` names of a kind."""
    column = names.c.name
    query = sa.select(column).where(column >= f"{kind}:", column < f"{kind};")
    found = connection.execute(query.order_by(column).limit(most)).scalars()
    return tuple(name.partition(":")[2] for name in found)


def of_numbers(connection: sa.Connection, keys: Iterable[int | None]) -> dict[int | None, str]:
    """The names of these numbers, without their kinds."""
    found: dict[int | None, str] = {}
    for part in parts(sorted({key for key in keys if key is not None})):
        query = sa.select(names.c.key, names.c.name).where(names.c.key.in_(part))
        found.update((key, name.partition(":")[2]) for key, name in connection.execute(query))
    return found


def forget(connection: sa.Connection, keys: Collection[int]) -> None:
    """Removes names that nothing is called by any more."""
    for part in parts(sorted(keys)):
        connection.execute(names.delete().where(names.c.key.in_(part)))


def known_nodes(
    connection: sa.Connection, cluster: str | None, wanted: Collection[str]
) -> dict[str, int]:
    """The numbers of those of these nodes that have one; ``cluster`` "": of none."""
    found: dict[str, int] = {}
    for part in parts(sorted(wanted)):
        query = sa.select(nodes.c.node, nodes.c.key).where(
            nodes.c.cluster == (cluster or ""), nodes.c.node.in_(part)
        )
        found.update((node, key) for node, key in connection.execute(query))
    return found


def numbered_nodes(
    connection: sa.Connection, cluster: str, wanted: Collection[str]
) -> dict[str, int]:
    """The numbers of all of these nodes; who has none gets one."""
    found = known_nodes(connection, cluster, wanted)
    new = sorted({*wanted} - found.keys())
    if new:
        connection.execute(_NEW_NODE, [{"cluster": cluster, "node": node} for node in new])
        found |= known_nodes(connection, cluster, new)
    return found


def of_nodes(connection: sa.Connection, keys: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Cluster and name of the nodes with these numbers."""
    wanted = {*keys}
    query = sa.select(nodes.c.key, nodes.c.cluster, nodes.c.node)
    # All there are, in one answer, are sooner read than thousands of them asked for by number.
    many = len(wanted) > 2 * _AT_ONCE
    queries = [query] if many else [query.where(nodes.c.key.in_(p)) for p in parts(sorted(wanted))]
    return {
        key: (cluster, node)
        for each in queries
        for key, cluster, node in connection.execute(each).all()
        if key in wanted
    }


def note_records(connection: sa.Connection, times: Mapping[tuple[str, str], dt.datetime]) -> None:
    """Notes when nodes, named by cluster and name, last sent a record.

    The last thing that a transaction does, and in the order of names and keys, so that no two wait
    for each other.
    """
    rows = []
    for cluster in sorted({cluster for cluster, _ in times}):
        sent = {node: at for (of, node), at in times.items() if of == cluster}
        known = numbered_nodes(connection, cluster, sent.keys())
        rows += [{"key": known[node], "at": at} for node, at in sent.items()]
    if rows:
        connection.execute(_RECORD, sorted(rows, key=itemgetter("key")))


def parts(words: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """``words`` in pieces that fit into one question."""
    for start in range(0, len(words), _AT_ONCE):
        yield words[start : start + _AT_ONCE]
