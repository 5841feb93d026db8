"""Incidents of nodes: what the newest verdicts say of them, written with the verdicts."""

from __future__ import annotations

import datetime as dt
import re

import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.store.database import Database
from firstfault.store.schema import incident_jobs, incidents, jobs, node_incidents, signs

_OF_THE_SYSTEM = ("system", "either")
_NO_CAUSE = ("none", "unknown")
_LONGEST = 255
# Who serves the files. Linux, net/sunrpc/clnt.c: "nfs: server %s not responding"; Lustre names its
# targets "fsname-OST0001" (obd_support.h), and the file system is what they share.
_SERVER = re.compile(
    r"\bnfs4?: server ([\w.:-]{1,100}) (?:not responding|OK|error)"
    r"|\b(?:Lustre|LustreError): .{0,200}?\b(\w{1,8})-(?:OST|MDT)[0-9a-f]{4}\b"
)


def replace(
    connection: sa.Connection, job_key: int, verdict: v.Verdict, ended_at: dt.datetime
) -> None:
    """Writes what ``verdict`` says of nodes, and what it may have in common with other jobs', in
    place of what the one before said.

    ``ended_at`` is the incident's time where the verdict has none.
    """
    connection.execute(node_incidents.delete().where(node_incidents.c.job_key == job_key))
    connection.execute(signs.delete().where(signs.c.job_key == job_key))
    roles = roles_of(verdict)
    at = verdict.initiator.latest or verdict.initiator.earliest or ended_at
    seen = signs_of(verdict)
    _leave(connection, job_key, seen)
    if seen:
        rows = [{"job_key": job_key, "kind": kind, "name": name, "at": at} for kind, name in seen]
        connection.execute(signs.insert(), rows)
    if roles:
        shared = {
            "job_key": job_key,
            "at": at,
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


def signs_of(verdict: v.Verdict) -> list[tuple[str, str]]:
    """What the failure may share with other jobs', as kind and name: the node of the first failure
    and the file system, where the system may be at fault, and the cause, where it is."""
    if verdict.cause.domain not in _OF_THE_SYSTEM or verdict.cause.id in _NO_CAUSE:
        return []
    found = {(j.FILE_SYSTEM, name) for name in _file_systems(verdict)}
    if verdict.initiator.host:
        found.add((j.NODE, verdict.initiator.host))
    if verdict.cause.domain == "system":
        found.add((j.CAUSE, verdict.cause.id))
    return sorted((kind, name[:_LONGEST]) for kind, name in found)


def _leave(connection: sa.Connection, job_key: int, seen: list[tuple[str, str]]) -> None:
    """A job whose verdict does not name any more what an incident is about is none of its jobs."""
    about = sa.select(incidents.c.kind, incidents.c.name).join(
        incident_jobs, incident_jobs.c.incident_key == incidents.c.key
    )
    found = connection.execute(about.where(incident_jobs.c.job_key == job_key)).first()
    if found is not None and tuple(found) not in seen:
        connection.execute(incident_jobs.delete().where(incident_jobs.c.job_key == job_key))


def _file_systems(verdict: v.Verdict) -> set[str]:
    if not verdict.cause.id.startswith("storage."):
        return set()
    texts = [one.text for one in verdict.evidence if one.role == "cause"]
    return {match[match.lastindex or 0] for text in texts for match in _SERVER.finditer(text)}


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
