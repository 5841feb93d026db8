"""All that is counted of failures, as it is kept and as a recount gives it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import sqlalchemy as sa

from firstfault.store.database import Database
from firstfault.store.failure_counts import NOBODY, PPM, SPANS
from firstfault.store.failure_tables import failures
from firstfault.store.failures import unpacked
from firstfault.store.schema import metadata

TABLES = ("failure_days", "node_days", "fingerprints", "fingerprint_users")
_DAY_MICRO = 86_400_000_000

Rows = dict[str, set[tuple[Any, ...]]]


def counted(database: Database) -> Rows:
    """The rows of each table, as they are."""
    kept = (*TABLES, "failure_nodes", "failure_words")
    with database.reading() as connection:
        return {name: {*connection.execute(_plain(metadata.tables[name]))} for name in kept}


def recounted(database: Database) -> Rows:
    """The rows that each table ought to have, from the failures alone."""
    with database.reading() as connection:
        rows = connection.execute(_plain(failures)).all()
    days, nodes, users = Counter[Any](), dict[Any, Counter[str]](), Counter[Any]()
    ends: dict[int, list[tuple[int, int]]] = {}
    found: Rows = {"failure_nodes": set(), "failure_words": set()}
    for row in rows:
        day, members = row.ended_at // _DAY_MICRO, unpacked(row.members)
        of_day = (day, row.cluster, row.cause, row.domain)
        days[of_day, "failures"] += 1
        days[of_day, "node_s"] += row.node_s
        days[of_day, "gpu_s"] += row.gpu_s or 0
        trial = row.host in members and row.domain in (2, 3)
        for span in SPANS:
            for node in members:
                part = nodes.setdefault((span, day // span, node), Counter())
                part["took_part"] += 1
                part["trials"] += trial
                part["initiated"] += trial and node == row.host
                part["alone"] += trial and len(members) == 1
                part["ppm"] += round(PPM / len(members)) if trial else 0
        if row.fingerprint is not None:
            users[row.fingerprint, row.user if row.user is not None else NOBODY] += 1
            ends.setdefault(row.fingerprint, []).append((row.ended_at, row.key))
        found["failure_nodes"] |= {(node, row.ended_at, row.key) for node in members}
        found["failure_words"] |= {(w, row.ended_at, row.key) for w in unpacked(row.words)}
    found["failure_days"] = {
        (*of_day, *(days[of_day, what] for what in ("failures", "node_s", "gpu_s")))
        for of_day, _ in days
    }
    sums = ("took_part", "trials", "initiated", "alone", "ppm")
    found["node_days"] = {(*key, *(part[name] for name in sums)) for key, part in nodes.items()}
    found["fingerprint_users"] = {(*key, count) for key, count in users.items()}
    found["fingerprints"] = {
        (key, min(each)[0], max(each)[0], len(each), max(each)[1]) for key, each in ends.items()
    }
    return found


def texts(database: Database) -> Any:
    """The failures with their names in place of numbers, which differ from fill to fill."""
    with database.reading() as connection:
        known = {row.key: row.name for row in connection.execute(_plain(metadata.tables["names"]))}
        rows = connection.execute(_plain(failures)).all()
        nodes = {row[0]: row[1:3] for row in connection.execute(_plain(metadata.tables["nodes"]))}
    named = ("cluster", "cause", "user", "account", "partition", "name", "fingerprint")
    same = ("ended_at", "domain", "confidence", "nodes", "node_s", "gpu_s", "started_at")
    return {
        row.key: (
            *(known.get(getattr(row, name)) for name in named),
            *(getattr(row, name) for name in same),
            nodes.get(row.host),
            sorted(nodes[node] for node in unpacked(row.members)),
            sorted(known[word] for word in unpacked(row.words)),
        )
        for row in rows
    }


def _plain(table: sa.Table) -> sa.Select[*tuple[Any, ...]]:
    return sa.select(
        *(
            sa.type_coerce(column, sa.BigInteger).label(column.name)
            if column.name.endswith("_at")
            else column
            for column in table.c
        )
    )
