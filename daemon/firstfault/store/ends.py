"""What the store knows of the end of a job that a node asks about."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence

import msgspec
import sqlalchemy as sa

from firstfault.model.slurm import JobFacts
from firstfault.store.database import Database
from firstfault.store.evidence import SAME_END
from firstfault.store.schema import evidence, jobs

_AT_ONCE = 500


class StoredEnd(msgspec.Struct, frozen=True):
    """One incarnation of a job. ``cause`` is its verdict's, None while there is none."""

    key: int
    cluster: str | None
    job: str
    run: str | None
    suspicious: bool
    cause: str | None
    facts: JobFacts | None
    first_ended_at: dt.datetime
    last_ended_at: dt.datetime
    first_seen_at: dt.datetime

    def is_of(self, cluster: str | None, run: str | None, ended_at: dt.datetime) -> bool:
        """True when an end at ``ended_at`` is of this incarnation, as a record of it would be."""
        if cluster is not None and self.cluster != cluster:
            return False
        if run is not None and self.run is not None:
            return run == self.run
        return self.first_ended_at - SAME_END <= ended_at <= self.last_ended_at + SAME_END


def ends_of(database: Database, job_ids: Collection[str]) -> dict[str, list[StoredEnd]]:
    """The known incarnations of each of these jobs, the newest first."""
    found: dict[str, list[StoredEnd]] = {}
    with database.reading() as connection:
        for part in _parts(sorted(job_ids)):
            query = (
                sa.select(*(jobs.c[name] for name in StoredEnd.__struct_fields__))
                .where(jobs.c.job.in_(part))
                .order_by(jobs.c.incarnation.desc())
            )
            for row in connection.execute(query):
                found.setdefault(row.job, []).append(_end(row))
    return found


def stored_ids(database: Database, record_ids: Collection[str]) -> frozenset[str]:
    """Those of ``record_ids`` that are stored."""
    found: set[str] = set()
    with database.reading() as connection:
        for part in _parts(sorted(record_ids)):
            query = sa.select(evidence.c.record_id).where(evidence.c.record_id.in_(part))
            found.update(connection.execute(query).scalars())
    return frozenset(found)


def have_reported(database: Database, key: int, nodes: Sequence[str]) -> bool:
    """True when one of ``nodes`` has reported on the incarnation with this ``key``."""
    query = sa.select(evidence.c.key).where(evidence.c.job_key == key, evidence.c.node.in_(nodes))
    with database.reading() as connection:
        return connection.execute(query.limit(1)).first() is not None


def _end(row: sa.Row[tuple[object, ...]]) -> StoredEnd:
    fields = {name: getattr(row, name) for name in StoredEnd.__struct_fields__}
    fields["cluster"] = row.cluster or None
    fields["facts"] = None if row.facts is None else msgspec.json.decode(row.facts, type=JobFacts)
    return StoredEnd(**fields)


def _parts(words: Sequence[str]) -> list[Sequence[str]]:
    return [words[start : start + _AT_ONCE] for start in range(0, len(words), _AT_ONCE)]
