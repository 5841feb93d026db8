"""What is old goes, in small steps; what is open stays, however old it is."""

from __future__ import annotations

import datetime as dt
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from firstfault.app.retention import Retention
from firstfault.config import Config, Report, Store
from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.store import deliveries, evidence, listing, retention, work
from firstfault.store.database import Database, open_store
from firstfault.store.schema import jobs, metadata
from tests.intake.records import ENDED_AT
from tests.store.incoming import incoming

NOW = ENDED_AT + dt.timedelta(seconds=2)
DAY = dt.timedelta(days=1)
STORE = Store(keep_evidence_days=14, keep_verdicts_days=365)


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def verdict() -> v.Verdict:
    return v.Verdict(
        job=v.Job(id="12"),
        cause=v.Cause("gpu.ecc", "A GPU lost memory", "system", v.LIKELY),
        initiator=v.Initiator(host="n1"),
    )


def delivered(database: Database, job: str, at: dt.datetime = NOW, records: int = 2) -> None:
    """A job that is judged and told, and waits for nothing."""
    nodes = [f"n{number}" for number in range(records)]
    evidence.keep(database, [incoming(node, job, ended_at=at) for node in nodes], at)
    judged(database, at)
    (sent,) = deliveries.claim(database, "slack", at, 60, 10)
    deliveries.sent(database, sent, at)


def judged(database: Database, at: dt.datetime, **more: object) -> None:
    claim = work.claim_jobs(database, at, 60, 10)
    outcome = work.Outcome(
        j.JUDGED, at, at, 9, 0, verdict=verdict(), channels=("slack",), post=True
    )

    outcome = msgspec.structs.replace(outcome, **more)
    assert work.finish(database, claim, claim.jobs[0], outcome, at)


def retain(database: Database, tmp_path: Path, now: dt.datetime, store: Store = STORE) -> int:
    config = Config(store=store, report=Report(dir=str(tmp_path)))
    return Retention(config, database, threading.Event()).once(now)


def rows(database: Database) -> dict[str, int]:
    names = ("jobs", "evidence", "verdicts", "deliveries", "node_incidents")
    with database.reading() as connection:
        count = sa.select(sa.func.count())
        return {
            name: connection.execute(count.select_from(metadata.tables[name])).scalar_one()
            for name in names
        }


def statuses(database: Database) -> list[j.JobStatus]:
    with database.reading() as connection:
        return [work.status(row) for row in connection.execute(sa.select(jobs).order_by("key"))]


def test_old_evidence_goes_and_the_verdict_stays(database: Database, tmp_path: Path) -> None:
    delivered(database, "12")
    delivered(database, "13", NOW + 2 * DAY)

    assert retain(database, tmp_path, NOW + 15 * DAY) == 2

    assert rows(database) == {
        "jobs": 2,
        "evidence": 2,
        "verdicts": 2,
        "deliveries": 2,
        "node_incidents": 2,
    }
    (old, young) = statuses(database)
    assert old.emptied_at == NOW + 15 * DAY
    assert young.emptied_at is None
    (stored,) = listing.current_verdicts(database, "12", "testcluster")
    assert stored.verdict == verdict()


def test_a_late_record_keeps_the_whole_jobs_evidence(database: Database, tmp_path: Path) -> None:
    delivered(database, "12", records=1)
    late = incoming("n2", "12", ended_at=NOW)
    evidence.keep(database, [late], NOW + 3 * DAY)
    judged(database, NOW + 3 * DAY, verdict=None, channels=(), post=False, state=j.DELIVERED)

    assert retain(database, tmp_path, NOW + 16 * DAY) == 0
    assert retain(database, tmp_path, NOW + 18 * DAY) == 2


@pytest.mark.parametrize("open_by", ["not-judged", "due", "asked", "claimed", "undelivered"])
def test_what_is_open_is_kept_whatever_its_age(
    database: Database, tmp_path: Path, open_by: str
) -> None:
    evidence.keep(database, [incoming("n1")], NOW)
    if open_by == "due":
        judged(database, NOW, channels=(), look_at=NOW + DAY)
    elif open_by == "asked":
        judged(database, NOW, channels=(), ask_at=NOW + DAY)
    elif open_by == "undelivered":
        judged(database, NOW)
    elif open_by == "claimed":
        judged(database, NOW, channels=())
        evidence.keep(database, [incoming("n2")], NOW)
        work.claim_jobs(database, NOW, 60, 10)
    before = rows(database)

    far = NOW + 4000 * DAY
    store = msgspec.structs.replace(STORE, max_evidence_bytes=1)
    assert retain(database, tmp_path, far, store) == 0
    assert rows(database) == before
    assert statuses(database)[0].emptied_at is None


def test_a_job_goes_whole_with_its_report_after_its_time(
    database: Database, tmp_path: Path
) -> None:
    delivered(database, "12")
    (tmp_path / "testcluster").mkdir()
    report = tmp_path / "testcluster" / "12.html"
    report.write_text("report")

    retain(database, tmp_path, NOW + 364 * DAY)
    assert report.exists()
    retain(database, tmp_path, NOW + 366 * DAY)

    assert not report.exists()
    assert set(rows(database).values()) == {0}


def test_above_the_limit_the_oldest_evidence_goes_first(database: Database, tmp_path: Path) -> None:
    for number in range(4):
        delivered(database, f"{number}", NOW + number * DAY)
    size = retention.evidence_size(database)
    store = msgspec.structs.replace(STORE, max_evidence_bytes=size * 5 // 8)

    assert retain(database, tmp_path, NOW + 5 * DAY, store) == 4

    assert [job.job for job in statuses(database) if job.emptied_at is None] == ["2", "3"]
    assert retention.evidence_size(database) <= store.max_evidence_bytes


def test_a_large_jobs_evidence_goes_in_steps(database: Database, tmp_path: Path) -> None:
    delivered(database, "12", records=retention.STEP + 10)

    before = NOW + DAY
    first = retention.remove_evidence(database, before, NOW + 2 * DAY)
    second = retention.remove_evidence(database, before, NOW + 3 * DAY)

    assert (first.records, second.records) == (retention.STEP, 10)
    assert retention.remove_evidence(database, before, NOW + 3 * DAY) == retention.Removed()
    assert statuses(database)[0].emptied_at == NOW + 2 * DAY


def test_a_pass_that_is_told_to_stop_stops(database: Database, tmp_path: Path) -> None:
    delivered(database, "12")
    stop = threading.Event()
    stop.set()
    config = Config(store=STORE, report=Report(dir=str(tmp_path)))

    assert Retention(config, database, stop).once(NOW + 400 * DAY) == 0
    assert rows(database)["jobs"] == 1


def test_an_sqlite_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    database = open_store(f"sqlite:///{path}")
    body = msgspec.structs.replace(incoming(), body=random.Random(1).randbytes(200_000))
    for number in range(20):
        delivered(database, f"{number}")
        large = msgspec.structs.replace(
            body, record_id=f"large{number}", job=f"{number}", node="n9"
        )
        evidence.keep(database, [large], NOW)
        judged(database, NOW, verdict=None, channels=(), post=False, state=j.DELIVERED)
    sizes = []
    for days in (0, 20):
        retain(database, tmp_path, NOW + days * DAY)
        with database.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").close()
        sizes.append(path.stat().st_size)
    database.close()

    assert sizes[1] < sizes[0] / 4
