"""The jobs of incidents, summed up by the database: there may be tens of thousands of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from firstfault.store.names import parts
from firstfault.store.schema import incident_jobs, jobs

_NAMES, _CAUSES = 10, 3


class Members(NamedTuple):
    """The jobs of one incident: how many, the newest by name, causes counted, hosts."""

    jobs: int
    names: tuple[str, ...]
    causes: tuple[tuple[str, int], ...]
    hosts: tuple[str, ...]


def members(connection: sa.Connection, keys: Sequence[int]) -> dict[int, Members]:
    """What the jobs of these incidents are."""
    found: dict[int, Members] = {}
    for part in parts(keys):
        causes = {key: Counter[str]() for key in part}
        hosts = {key: set[str]() for key in part}
        count = dict.fromkeys(part, 0)
        for key, cause, host, number in _counted(connection, part):
            count[key] += number
            if cause:
                causes[key][cause] += number
            if host:
                hosts[key].add(host)
        newest = _newest(connection, part)
        for key in part:
            most = tuple(causes[key].most_common(_CAUSES))
            found[key] = Members(count[key], tuple(newest[key]), most, tuple(sorted(hosts[key])))
    return found


def _counted(
    connection: sa.Connection, keys: Sequence[int]
) -> Sequence[tuple[int, str | None, str | None, int]]:
    incident = incident_jobs.c.incident_key
    query = (
        sa.select(incident, jobs.c.cause, jobs.c.host, sa.func.count())
        .join(jobs, jobs.c.key == incident_jobs.c.job_key)
        .where(incident.in_(keys))
        .group_by(incident, jobs.c.cause, jobs.c.host)
        # Of causes that are as frequent the one that came last is told first.
        .order_by(sa.func.max(incident_jobs.c.key).desc())
    )
    return [tuple(row) for row in connection.execute(query)]


def _newest(connection: sa.Connection, keys: Sequence[int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {key: [] for key in keys}
    if not keys:
        return found
    each = [
        sa.select(incident_jobs.c.incident_key, incident_jobs.c.job_key, incident_jobs.c.key)
        .where(incident_jobs.c.incident_key == key)
        .order_by(incident_jobs.c.key.desc())
        .limit(_NAMES)
        .subquery()
        for key in keys
    ]
    those = sa.union_all(*(sa.select(one) for one in each)).subquery()
    query = (
        sa.select(those.c.incident_key, jobs.c.job)
        .join(jobs, jobs.c.key == those.c.job_key)
        .order_by(those.c.key.desc())
    )
    for key, job in connection.execute(query):
        found[key].append(job)
    return found
