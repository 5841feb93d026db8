"""Incidents of nodes: what the newest verdicts say of them, written with the verdicts."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.store.database import Database
from firstfault.store.schema import jobs, node_incidents

_OF_THE_SYSTEM = ("system", "either")
_NO_CAUSE = ("none", "unknown")


def replace(
    connection: sa.Connection, job_key: int, verdict: v.Verdict, ended_at: dt.datetime
) -> None:
    """Writes what ``verdict`` says of nodes in place of what the one before said.

    ``ended_at`` is the incident's time where the verdict has none.
    """
    connection.execute(node_incidents.delete().where(node_incidents.c.job_key == job_key))
    roles = roles_of(verdict)
    if roles:
        shared = {
            "job_key": job_key,
            "at": verdict.initiator.latest or verdict.initiator.earliest or ended_at,
            "cause": verdict.cause.id,
            "domain": verdict.cause.domain,
            "confidence": verdict.cause.confidence,
        }
        connection.execute(
            node_incidents.insert(),
            [{"node": node, "role": role, **shared} for node, role in roles.items()],
        )


def roles_of(verdict: v.Verdict) -> dict[str, str]:
    """The nodes that the verdict names, with what they were; none where the fault is the user's."""
    if verdict.cause.domain not in _OF_THE_SYSTEM or verdict.cause.id in _NO_CAUSE:
        return {}
    first = verdict.initiator
    roles = {member.host: j.TOOK_PART for member in (*first.also, *first.candidates) if member.host}
    if first.host:
        roles[first.host] = j.INITIATOR
    return roles


def newest(
    database: Database, since: dt.datetime, node: str | None = None, limit: int = 1000
) -> list[j.NodeIncident]:
    """Incidents since a time, of one node or of all, the newest first."""
    query = (
        sa.select(node_incidents, jobs.c.cluster, jobs.c.job, jobs.c.incarnation)
        .join(jobs, jobs.c.key == node_incidents.c.job_key)
        .where(node_incidents.c.at >= since)
        .order_by(node_incidents.c.at.desc())
        .limit(limit)
    )
    if node is not None:
        query = query.where(node_incidents.c.node == node)
    with database.reading() as connection:
        return [
            j.NodeIncident(
                node=row.node,
                cluster=row.cluster or None,
                job=row.job,
                incarnation=row.incarnation,
                at=row.at,
                role=row.role,
                cause=row.cause,
                domain=row.domain,
                confidence=row.confidence,
            )
            for row in connection.execute(query)
        ]
