"""Evidence in the store: a record is kept with the change of its job, in one transaction."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Sequence

import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.store.database import Database
from firstfault.store.schema import evidence, jobs

# Epilogs of one end run within a minute of each other (KillWait, UnkillableStepTimeout); a
# requeued job starts again 121 s after its last Epilog at the earliest (Slurm's credential
# lifetime plus one second).
SAME_END = dt.timedelta(seconds=100)


def keep(database: Database, records: Sequence[j.Incoming], now: dt.datetime) -> int:
    """Stores ``records``, all or none; returns how many were new. A second copy is no error."""
    new = 0
    with database.writing() as connection:
        for record in records:
            new += _keep(connection, record, now)
    return new


def bodies(database: Database, job_key: int) -> list[bytes]:
    """The JSON of each record of the job, ordered by record id."""
    query = (
        sa.select(evidence.c.body)
        .where(evidence.c.job_key == job_key)
        .order_by(evidence.c.record_id)
    )
    with database.reading() as connection:
        return [zlib.decompress(body) for (body,) in connection.execute(query)]


def _keep(connection: sa.Connection, record: j.Incoming, now: dt.datetime) -> bool:
    known = sa.select(evidence.c.key).where(evidence.c.record_id == record.record_id)
    if connection.execute(known).first() is not None:
        return False
    job_key, reported_before = _job_of(connection, record, now)
    connection.execute(
        evidence.insert().values(
            job_key=job_key,
            record_id=record.record_id,
            node=record.node,
            ended_at=record.ended_at,
            stored_at=now,
            encoding="zlib",
            size=len(record.body),
            body=zlib.compress(record.body, 6),
        )
    )
    row = connection.execute(sa.select(jobs).where(jobs.c.key == job_key)).one()
    connection.execute(
        jobs.update()
        .where(jobs.c.key == job_key)
        .values(
            run=row.run or record.run,
            node_list=row.node_list or record.node_list,
            nodes_expected=max(row.nodes_expected, len(record.nodes)),
            nodes_reported=row.nodes_reported + (not reported_before),
            suspicious=row.suspicious or record.suspicious,
            first_ended_at=min(row.first_ended_at, record.ended_at),
            last_ended_at=max(row.last_ended_at, record.ended_at),
            evidence_revision=row.evidence_revision + 1,
            look_at=now,
        )
    )
    return True


def _job_of(connection: sa.Connection, record: j.Incoming, now: dt.datetime) -> tuple[int, bool]:
    """The incarnation that the record belongs to, and whether its node reported there before."""
    rows = connection.execute(
        sa.select(jobs)
        .where(jobs.c.cluster == (record.cluster or ""), jobs.c.job == record.job)
        .order_by(jobs.c.incarnation)
    ).all()
    for row in rows:
        near = row.first_ended_at - SAME_END <= record.ended_at <= row.last_ended_at + SAME_END
        if record.run is not None and row.run is not None:
            if record.run == row.run:
                return row.key, _has_reported(connection, row.key, record.node)
        elif near and not _has_reported(connection, row.key, record.node):
            return row.key, False
    result = connection.execute(
        jobs.insert().values(
            cluster=record.cluster or "",
            job=record.job,
            incarnation=max((row.incarnation for row in rows), default=0) + 1,
            run=record.run,
            state=j.SEEN,
            node_list=record.node_list,
            nodes_expected=len(record.nodes),
            nodes_reported=0,
            suspicious=False,
            first_ended_at=record.ended_at,
            last_ended_at=record.ended_at,
            first_seen_at=now,
            evidence_revision=0,
            facts_revision=0,
            judged_evidence=0,
            judged_facts=0,
            facts_asked=0,
            facts_closed=False,
            verdict_revision=0,
            posted=0,
            look_at=now,
        )
    )
    assert result.inserted_primary_key is not None
    return int(result.inserted_primary_key[0]), False


def _has_reported(connection: sa.Connection, job_key: int, node: str) -> bool:
    query = sa.select(evidence.c.key).where(evidence.c.job_key == job_key, evidence.c.node == node)
    return connection.execute(query.limit(1)).first() is not None
