"""The jobs of incidents, summed up by the database: there may be tens of thousands of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa

from firstfault.store.names import parts
from firstfault.store.schema import incident_jobs, jobs

_NAMES, _CAUSES = 10, 3
# Of incidents of so many jobs what these have in common may be told from a moment ago.
LARGE = 1000


class Members(NamedTuple):
    """The jobs of one incident: how many, the newest by name, causes counted, hosts."""

    jobs: int
    names: tuple[str, ...]
    causes: tuple[tuple[str, int], ...]
    hosts: tuple[str, ...]


class _Shared(NamedTuple):
    causes: tuple[tuple[str, int], ...]
    hosts: tuple[str, ...]


_Answer = dict[int, _Shared]
# By its name: an answer of a moment ago, or what the function gives.
Keep = Callable[[str, Callable[[], _Answer]], _Answer]


def anew(_name: str, ask: Callable[[], _Answer]) -> _Answer:
    """Keeps nothing."""
    return ask()


def members(
    connection: sa.Connection, keys: Sequence[int], keep: Keep = anew
) -> dict[int, Members]:
    """What the jobs of these incidents are; ``keep`` is asked for causes and hosts of the large
    ones."""
    found: dict[int, Members] = {}
    for part in parts(keys):
        count, newest = _count(connection, part), _newest(connection, part)
        shared = _shared(connection, [key for key in part if count[key] < LARGE])
        for key in part:
            if key not in shared:
                ask = partial(_shared, connection, [key])
                shared |= keep(f"incident {key}", ask)
            found[key] = Members(count[key], tuple(newest[key]), *shared[key])
    return found


def _count(connection: sa.Connection, keys: Sequence[int]) -> dict[int, int]:
    of = incident_jobs.c.incident_key
    query = sa.select(of, sa.func.count()).where(of.in_(keys)).group_by(of)
    found = dict.fromkeys(keys, 0)
    found.update((key, count) for key, count in connection.execute(query))
    return found


def _shared(connection: sa.Connection, keys: Sequence[int]) -> _Answer:
    if not keys:
        return {}
    causes = {key: Counter[str]() for key in keys}
    hosts: dict[int, list[str]] = {key: [] for key in keys}
    # Of causes that are as frequent the one that came last is told first.
    for key, cause, count, _last in sorted(
        connection.execute(_grouped(keys, jobs.c.cause)), key=lambda row: -row.last
    ):
        if cause:
            causes[key][cause] = count
    for row in connection.execute(_grouped(keys, jobs.c.host)).all():
        if row.said:
            hosts[row.incident_key].append(row.said)
    return {
        key: _Shared(tuple(causes[key].most_common(_CAUSES)), tuple(sorted(hosts[key])))
        for key in keys
    }


def _grouped(keys: Sequence[int], column: sa.Column[str]) -> sa.Select[*tuple[Any, ...]]:
    c = incident_jobs.c
    # Looked up row by row: PostgreSQL would rather read all jobs for a join.
    said = sa.select(column).where(jobs.c.key == c.job_key).scalar_subquery()
    those = sa.select(c.incident_key, c.key, said.label("said")).where(c.incident_key.in_(keys))
    each = those.subquery().c
    return sa.select(
        each.incident_key, each.said, sa.func.count(), sa.func.max(each.key).label("last")
    ).group_by(each.incident_key, each.said)


def _newest(connection: sa.Connection, keys: Sequence[int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {key: [] for key in keys}
    if not keys:
        return found
    # As text, of numbers alone: put together by SQLAlchemy it takes longer than its answer.
    each = (
        "SELECT * FROM (SELECT incident_key, job_key, key FROM incident_jobs "  # noqa: S608 - see above
        f"WHERE incident_key = {key:d} ORDER BY key DESC LIMIT {_NAMES}) AS of_{key:d}"
        for key in keys
    )
    query = sa.text(
        f"SELECT those.incident_key, jobs.job FROM ({' UNION ALL '.join(each)}) AS those "  # noqa: S608
        "JOIN jobs ON jobs.key = those.job_key ORDER BY those.key DESC"
    )
    for key, job in connection.execute(query):
        found[key].append(job)
    return found
