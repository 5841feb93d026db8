"""All that is stored of one failure: its verdicts, deliveries and evidence."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.model.board import Failure, Reader
from firstfault.model.slurm import JobFacts
from firstfault.model.texts import storable
from firstfault.report.masking import masked
from firstfault.store.body import verdict_in
from firstfault.store.database import Database
from firstfault.store.deliveries import status
from firstfault.store.evidence import Packed, unpacked
from firstfault.store.failure_list import shown_failures
from firstfault.store.failure_tables import failures
from firstfault.store.schema import deliveries, evidence, jobs, verdicts
from firstfault.store.scope import shares

REVISIONS = 50
RECORDS = 2000


class Found(msgspec.Struct, frozen=True):
    """One failure: fields as in `firstfault.model.board.FailureDetail`; ``key`` is the job's."""

    key: int
    failure: Failure
    stored: j.StoredVerdict
    facts: JobFacts | None
    history: tuple[tuple[int, dt.datetime, str, str, str | None], ...]
    deliveries: tuple[j.DeliveryStatus, ...]
    evidence: tuple[tuple[str, dt.datetime, int], ...]


def found(
    database: Database, reader: Reader, cluster: str | None, job: str, incarnation: int | None
) -> Found | None:
    """A failure that the reader may see; the newest incarnation where none is named."""
    with database.reading() as connection:
        row = _job(connection, reader, cluster, job, incarnation)
        if row is None:
            return None
        (failure,) = shown_failures(connection, [row.key])
        told = connection.execute(
            sa.select(verdicts)
            .where(verdicts.c.job_key == row.key)
            .order_by(verdicts.c.revision.desc())
            .limit(REVISIONS)
        ).all()
        history = [(one, verdict_in(one.body)) for one in told]
        newest, verdict = history[0]
        facts = None if row.facts is None else msgspec.json.decode(row.facts, type=JobFacts)
        return Found(
            key=row.key,
            failure=failure,
            stored=j.StoredVerdict(
                cluster, job, row.incarnation, newest.revision, newest.created_at, verdict
            ),
            facts=None if facts is None else masked(facts),
            history=tuple(
                (one.revision, one.created_at, one.cause, one.confidence, said.cause.title[:500])
                for one, said in history
            ),
            deliveries=_deliveries(connection, row, reader),
            evidence=_records(connection, row.key) if reader.administrator else (),
        )


def record(
    database: Database,
    reader: Reader,
    cluster: str | None,
    job: str,
    incarnation: int,
    node: str,
) -> bytes | None:
    """A node's record of a failure as it came, JSON; the newest where it sent several.

    Raises `firstfault.store.database.StoreError` for one that is damaged.
    """
    columns = (evidence.c[name] for name in Packed.__struct_fields__)
    with database.reading() as connection:
        row = _job(connection, reader, cluster, job, incarnation)
        if row is None or not reader.administrator:
            return None
        sent = connection.execute(
            sa.select(*columns)
            .where(evidence.c.job_key == row.key, evidence.c.node == storable(node))
            .order_by(evidence.c.key.desc())
            .limit(1)
        ).first()
    return None if sent is None else unpacked(Packed(*sent))


def ends(database: Database, reader: Reader, job: str) -> tuple[Failure, ...]:
    """Every failed end of jobs of this number, on any cluster, the newest first."""
    by_end = (jobs.c.last_ended_at.desc(), jobs.c.key.desc())
    with database.reading() as connection:
        keys: list[int] = []
        for share in shares(connection, reader):
            query = (
                sa.select(jobs.c.key)
                .join(failures, failures.c.key == jobs.c.key)
                .where(jobs.c.job == storable(job), *share.checked)
            )
            keys += connection.execute(query.order_by(*by_end).limit(RECORDS)).scalars().all()
        shown = shown_failures(connection, keys)
    return tuple(sorted(shown, key=lambda one: one.ended_at, reverse=True))


def _job(
    connection: sa.Connection,
    reader: Reader,
    cluster: str | None,
    job: str,
    incarnation: int | None,
) -> sa.Row[Any] | None:
    """The job's row, where the reader may see its failure."""
    query = (
        sa.select(jobs)
        .join(failures, failures.c.key == jobs.c.key)
        .where(jobs.c.cluster == storable(cluster or ""), jobs.c.job == storable(job))
        .order_by(jobs.c.incarnation.desc())
        .limit(1)
    )
    if incarnation is not None and not 0 < incarnation < 1 << 31:
        return None
    if incarnation is not None:
        query = query.where(jobs.c.incarnation == incarnation)
    rows = [
        row
        for share in shares(connection, reader)
        if (row := connection.execute(query.where(*share.checked)).first()) is not None
    ]
    return max(rows, key=lambda row: row.incarnation, default=None)


def _deliveries(
    connection: sa.Connection, job: sa.Row[Any], reader: Reader
) -> tuple[j.DeliveryStatus, ...]:
    query = (
        sa.select(deliveries)
        .where(deliveries.c.job_key == job.key)
        .order_by(deliveries.c.key.desc())
        .limit(REVISIONS)
    )
    # What went wrong on the way names receivers and addresses.
    return tuple(
        status(row, job.cluster, job.job, row.error if reader.administrator else None)
        for row in connection.execute(query)
    )


def _records(connection: sa.Connection, job_key: int) -> tuple[tuple[str, dt.datetime, int], ...]:
    query = (
        sa.select(evidence.c.node, evidence.c.ended_at, evidence.c.size)
        .where(evidence.c.job_key == job_key)
        .order_by(evidence.c.node, evidence.c.key)
        .limit(RECORDS)
    )
    return tuple((row.node, row.ended_at, row.size) for row in connection.execute(query))


def newest_at(database: Database, reader: Reader) -> tuple[int, dt.datetime | None]:
    """The number of the newest verdict that the reader may see, and when it was made."""
    number = failures.c.verdict
    with database.reading() as connection:
        newest = max(
            (
                connection.execute(sa.select(sa.func.max(number)).where(*share.searched)).scalar()
                or 0
                for share in shares(connection, reader)
            ),
            default=0,
        )
        made = sa.select(verdicts.c.created_at).where(verdicts.c.key == newest)
        return newest, connection.execute(made).scalar()
