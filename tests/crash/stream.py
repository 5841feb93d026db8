"""A stream of evidence as a cluster would send it: recorded cases under other jobs' numbers."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

CASES = Path(__file__).parent.parent / "cases"
# From one node to four; exceptions, signals, memory, Slurm's own ends, and successes.
RECORDED = (
    "live-24-exception",
    "live-24-segfault",
    "live-abort",
    "live-killed",
    "live-loader-oom",
    "live-node-fail",
    "live-oom-4n",
    "live-recovered",
    "live-time-limit",
)


class Record(NamedTuple):
    """One node's record: the file's name in the spool and its bytes."""

    name: str
    body: bytes


class Job(NamedTuple):
    """A recorded case as the job ``id``; ``rows`` is what sacct says of it."""

    id: str
    case: str
    records: tuple[Record, ...]
    rows: tuple[dict[str, str], ...]


class _Case(NamedTuple):
    name: str
    job: str
    bodies: tuple[bytes, ...]
    sacct: str


def jobs(count: int, names: Sequence[str] = RECORDED) -> list[Job]:
    """``count`` jobs with numbers of their own, each like one of the recorded cases in turn."""
    cases = [_recorded(name) for name in names]
    return [_job(cases[number % len(cases)], number) for number in range(count)]


def arrivals(stream: Iterable[Job], chance: random.Random) -> list[Record]:
    """All records, one in ten of them late (among other jobs' records), one in ten twice."""
    placed: list[tuple[float, Record]] = []
    for place, job in enumerate(stream):
        for record in job.records:
            late = chance.uniform(5, 30) if chance.random() < 0.1 else chance.random()
            placed.append((place + late, record))
            if chance.random() < 0.1:
                placed.append((place + chance.uniform(0, 30), record))
    return [record for _, record in sorted(placed)]


def put(spool: Path, record: Record) -> None:
    """Writes aside and renames, as the collector does."""
    aside = spool / f".{record.name}.new"
    aside.write_bytes(record.body)
    aside.rename(spool / record.name)


def renumbered(body: bytes, job: str, other: str) -> bytes:
    """What was said of ``job``, said of ``other``: as many digits, so that all offsets hold."""
    assert len(job) == len(other)
    return body.replace(job.encode(), other.encode())


def _recorded(name: str) -> _Case:
    bodies = tuple(gzip.decompress(path.read_bytes()) for path in _record_files(name))
    return _Case(
        name, json.loads(bodies[0])["job"], bodies, (CASES / name / "sacct.txt").read_text()
    )


def _record_files(name: str) -> Iterator[Path]:
    return iter(sorted((CASES / name / "records").iterdir()))


def _job(case: _Case, number: int) -> Job:
    job = str(10 ** (len(case.job) - 1) + number)
    rows = csv.DictReader(case.sacct.replace(case.job, job).splitlines(), delimiter="|")
    return Job(
        id=job,
        case=case.name,
        records=tuple(_record(renumbered(body, case.job, job), job) for body in case.bodies),
        rows=tuple({"JobIDRaw": row["JobID"], **row} for row in rows),
    )


def _record(body: bytes, job: str) -> Record:
    content = json.loads(body)
    own = hashlib.sha256(f"{job} {content['id']}".encode()).hexdigest()[: len(content["id"])]
    body = body.replace(content["id"].encode(), own.encode())
    name = f"{content['cluster']}-{job}-{content['node']}-{own[:16]}.json.gz"
    return Record(name, gzip.compress(body, 1))
