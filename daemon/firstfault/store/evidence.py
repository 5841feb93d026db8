"""Evidence in the store: a record is kept with the change of its job, in one transaction."""

from __future__ import annotations

import datetime as dt
import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import sqlalchemy as sa
import zstandard

from firstfault.model import jobs as j
from firstfault.store import names
from firstfault.store.database import JOBS, Database, StoreError, hold
from firstfault.store.schema import evidence, jobs

# Epilogs of one end run within a minute of each other (KillWait, UnkillableStepTimeout); a
# requeued job starts again 121 s after its last Epilog at the earliest (Slurm's credential
# lifetime plus one second).
SAME_END = dt.timedelta(seconds=100)

# How a body is packed: as it came, where it came packed; rows of the first program are zlib.
GZIP, ZSTD, ZLIB = "gzip", "zstd", "zlib"
_LEVEL = 3

_GZIP = b"\x1f\x8b"
_AT_ONCE = 500  # words in one question; SQLite before 3.32 takes 999


class _Incarnation(msgspec.Struct):
    """What a job's row will say once the records at hand are kept.

    ``nodes`` have reported, and so have the components ``parts`` of a heterogeneous job.
    """

    key: int
    incarnation: int
    run: str | None
    node_list: str | None
    nodes_expected: int
    nodes_reported: int
    suspicious: bool
    first_ended_at: dt.datetime
    last_ended_at: dt.datetime
    evidence_revision: int
    components: int | None = None
    nodes: set[str] = msgspec.field(default_factory=set)
    parts: set[str] = msgspec.field(default_factory=set)
    new: list[j.Incoming] = msgspec.field(default_factory=list)


_CHANGED = tuple(
    name
    for name in _Incarnation.__struct_fields__
    if name not in ("key", "incarnation", "nodes", "parts", "new")
)


def keep(database: Database, records: Sequence[j.Incoming], now: dt.datetime) -> frozenset[str]:
    """Stores ``records``, all or none; returns the ids of those that were new.

    A second copy is no error.
    """
    with database.writing() as connection:
        # Two that see no row of a job would both begin one.
        hold(connection, JOBS)
        known = _known(connection, [record.record_id for record in records])
        fresh: dict[tuple[str, str], dict[str, j.Incoming]] = {}
        for record in records:
            if record.record_id not in known:
                of_job = fresh.setdefault((record.cluster or "", record.job), {})
                of_job.setdefault(record.record_id, record)
        for (cluster, job), of_job in fresh.items():
            _keep(connection, cluster, job, list(of_job.values()), now)
        sent = [(cluster, each.node) for (cluster, _), of in fresh.items() for each in of.values()]
        names.note_records(connection, dict.fromkeys(sent, now))
    return frozenset(record_id for of_job in fresh.values() for record_id in of_job)


class Packed(msgspec.Struct, frozen=True):
    """A record as it is stored."""

    record_id: str
    node: str
    encoding: str
    body: bytes


def packed(database: Database, job_key: int) -> list[Packed]:
    """Each record of the job, ordered by record id."""
    query = (
        sa.select(*(evidence.c[name] for name in Packed.__struct_fields__))
        .where(evidence.c.job_key == job_key)
        .order_by(evidence.c.record_id)
    )
    with database.reading() as connection:
        return [Packed(*row) for row in connection.execute(query)]


def first(database: Database, job_key: int) -> Packed | None:
    """One record of the job, None where there is none."""
    query = (
        sa.select(*(evidence.c[name] for name in Packed.__struct_fields__))
        .where(evidence.c.job_key == job_key)
        .order_by(evidence.c.key)
        .limit(1)
    )
    with database.reading() as connection:
        row = connection.execute(query).first()
    return None if row is None else Packed(*row)


def unpacked(record: Packed) -> bytes:
    """The record's JSON. Raises `StoreError` where it is damaged, or packed as only a newer program
    can read it."""
    try:
        if record.encoding == ZSTD:
            return zstandard.ZstdDecompressor().decompress(record.body)
        if record.encoding == GZIP:
            return gzip.decompress(record.body)
        if record.encoding == ZLIB:
            return zlib.decompress(record.body)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise StoreError(
            f"the stored evidence {record.record_id} is damaged ({error}): the database has changed "
            f"it. Check the disk, and the store with its own tools."
        ) from error
    raise StoreError(
        f"the stored evidence {record.record_id} is packed as {record.encoding!r}, which this "
        f"version of firstfault cannot read: a newer one stored it. Install that version."
    )


def _known(connection: sa.Connection, ids: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for part in _parts(ids):
        query = sa.select(evidence.c.record_id).where(evidence.c.record_id.in_(part))
        found.update(connection.execute(query).scalars())
    return found


def _keep(
    connection: sa.Connection,
    cluster: str,
    job: str,
    records: Sequence[j.Incoming],
    now: dt.datetime,
) -> None:
    """Stores new records of one job: one question and one change for each of its incarnations."""
    known = _incarnations(connection, cluster, job, {record.node for record in records})
    for record in records:
        one = _own(known, record)
        if one is None:
            one = _begun(
                connection, cluster, record, known[-1].incarnation + 1 if known else 1, now
            )
            known.append(one)
        one.new.append(record)
        one.run = one.run or record.run
        one.node_list = one.node_list or record.node_list
        _expect(one, record)
        one.nodes_reported += record.node not in one.nodes
        one.nodes.add(record.node)
        one.suspicious = one.suspicious or record.suspicious
        one.first_ended_at = min(one.first_ended_at, record.ended_at)
        one.last_ended_at = max(one.last_ended_at, record.ended_at)
        one.evidence_revision += 1
    for one in known:
        if one.new:
            connection.execute(
                evidence.insert(), [_row(one.key, record, now) for record in one.new]
            )
            changed = {name: getattr(one, name) for name in _CHANGED}
            connection.execute(
                jobs.update().where(jobs.c.key == one.key).values(**changed, look_at=now)
            )


def _expect(one: _Incarnation, record: j.Incoming) -> None:
    """Counts the nodes that are to report: of a heterogeneous job, those of each component."""
    if record.component is None:
        one.nodes_expected = max(one.nodes_expected, len(record.nodes))
    elif record.component not in one.parts:
        one.nodes_expected += len(record.nodes)
        one.parts.add(record.component)
        one.components = len(one.parts)


def _incarnations(
    connection: sa.Connection, cluster: str, job: str, nodes: set[str]
) -> list[_Incarnation]:
    """The job's ends so far, each with those of ``nodes`` that reported there."""
    rows = connection.execute(
        sa.select(jobs)
        .where(jobs.c.cluster == cluster, jobs.c.job == job)
        .order_by(jobs.c.incarnation)
    ).all()
    found = []
    for row in rows:
        one = _Incarnation(
            key=row.key,
            incarnation=row.incarnation,
            **{name: getattr(row, name) for name in _CHANGED},
        )
        for part in _parts(sorted(nodes)):
            reported = sa.select(evidence.c.node).where(
                evidence.c.job_key == row.key, evidence.c.node.in_(part)
            )
            one.nodes.update(connection.execute(reported).scalars())
        if row.components:
            parts = sa.select(evidence.c.component).where(evidence.c.job_key == row.key).distinct()
            one.parts.update(part for part in connection.execute(parts).scalars() if part)
        found.append(one)
    return found


def _own(known: Iterable[_Incarnation], record: j.Incoming) -> _Incarnation | None:
    """The incarnation that the record belongs to, None where it is the first of a new one."""
    for one in known:
        near = one.first_ended_at - SAME_END <= record.ended_at <= one.last_ended_at + SAME_END
        if _are_of_one_kind(record.run, one.run):
            if record.run == one.run:
                return one
        elif near and record.node not in one.nodes:
            return one
    return None


def _are_of_one_kind(one: str | None, other: str | None) -> bool:
    """Whether two runs can be compared: both an id, or both a start time."""
    return (
        one is not None and other is not None and one[: one.find(":")] == other[: other.find(":")]
    )


def _begun(
    connection: sa.Connection, cluster: str, record: j.Incoming, number: int, now: dt.datetime
) -> _Incarnation:
    result = connection.execute(
        jobs.insert().values(
            cluster=cluster,
            job=record.job,
            incarnation=number,
            run=record.run,
            state=j.SEEN,
            node_list=record.node_list,
            nodes_expected=0,
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
    return _Incarnation(
        key=int(result.inserted_primary_key[0]),
        incarnation=number,
        run=record.run,
        node_list=record.node_list,
        nodes_expected=0,
        nodes_reported=0,
        suspicious=False,
        first_ended_at=record.ended_at,
        last_ended_at=record.ended_at,
        evidence_revision=0,
    )


def _row(job_key: int, record: j.Incoming, now: dt.datetime) -> dict[str, object]:
    # As it came where it came packed: packing it anew would cost more than all the rest.
    packed = record.body.startswith(_GZIP)
    body = record.body if packed else zstandard.ZstdCompressor(_LEVEL).compress(record.body)
    return {
        "job_key": job_key,
        "record_id": record.record_id,
        "node": record.node,
        "component": record.component,
        "ended_at": record.ended_at,
        "stored_at": now,
        "encoding": GZIP if packed else ZSTD,
        "size": record.size,
        "packed_size": len(body),
        "body": body,
    }


def _parts(words: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(words), _AT_ONCE):
        yield words[start : start + _AT_ONCE]
