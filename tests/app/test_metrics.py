"""What Prometheus reads: documented, bounded, right after a restart."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from firstfault.app import counters
from firstfault.app.accounting import NoSlurm
from firstfault.app.metrics import Gauges, Page
from firstfault.app.workers import Bells, Parts
from firstfault.config import Config, parse
from firstfault.model import jobs as j
from firstfault.store import evidence
from firstfault.store.backlog import backlog, last_record_at
from firstfault.store.database import Database, open_store
from firstfault.store.schema import deliveries, incidents, jobs
from tests.app.processes import Daemon, configure
from tests.app.test_serve import put_job
from tests.store.incoming import incoming

NOW = dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC)
DOCUMENTED = Path(__file__).parents[2] / "docs" / "metrics.md"

Families = dict[str, tuple[str, frozenset[str]]]


def families(text: str) -> Families:
    """Type and labels of each family that has a sample, by name; the process' own left out."""
    found: Families = {}
    for family in text_string_to_metric_families(text):
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        if not name.startswith("firstfault_process_"):
            found[name] = (family.type, frozenset(labels))
    return found


def value(text: str, name: str, **labels: str) -> float:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    raise AssertionError(f"no {name} {labels} in\n{text}")


def parts(folder: Path, database: Database) -> Parts:
    config = parse(f'[spool]\ndir = "{folder}"', "f") if folder else Config()
    return Parts(config, database, NoSlurm(), {"slack": None}, Bells())  # type: ignore[dict-item]


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def add_delivery(database: Database, job: str, state: str, age_s: float) -> int:
    evidence.keep(database, [incoming("n1", job)], NOW)
    with database.writing() as connection:
        key = connection.execute(jobs.select().where(jobs.c.job == job)).one().key
        return connection.execute(
            deliveries.insert()
            .values(
                delivery_id=job,
                job_key=key,
                revision=1,
                channel="slack",
                state=state,
                attempts=0,
                next_at=NOW if state == j.PENDING else None,
                created_at=NOW - dt.timedelta(seconds=age_s),
            )
            .returning(deliveries.c.key)
        ).scalar_one()


def test_what_waits_is_counted_from_the_store(database: Database) -> None:
    for job, state, age_s in (("1", j.PENDING, 5), ("2", j.PENDING, 70), ("3", j.DEAD, 900)):
        add_delivery(database, job, state, age_s)

    found = backlog(database, ["slack", "report"], NOW + dt.timedelta(seconds=3))

    assert (found.judge.count, found.judge.oldest_s) == (3, 3)
    assert (found.ask.count, found.ask.oldest_s) == (0, 0)
    assert (found.unjudged.count, found.unjudged.oldest_s) == (3, 3)
    assert found.incidents == {False: 0, True: 0}
    slack, report = found.outbox
    assert slack.due == 2
    assert (slack.pending, slack.dead, slack.shadow, slack.oldest_s) == (2, 1, 0, 73)
    assert (report.pending, report.oldest_s) == (0, 0)
    assert found.size > 10_000


def test_incidents_that_go_on_are_counted_by_who_takes_care(database: Database) -> None:
    at = NOW - dt.timedelta(hours=1)
    told: dict[str, object] = {"cluster": "c1", "kind": j.NODE, "opened_at": at, "last_at": at}
    rows: list[dict[str, object]] = [
        {"name": "n1", "ended_at": None, "acknowledged_by": None},
        {"name": "n2", "ended_at": None, "acknowledged_by": "root"},
        {"name": "n3", "ended_at": None, "acknowledged_by": "root"},
        {"name": "n4", "ended_at": NOW, "acknowledged_by": None},
    ]
    with database.writing() as connection:
        for row in rows:
            connection.execute(incidents.insert().values(told | row))

    assert backlog(database, [], NOW).incidents == {False: 1, True: 2}


def test_the_last_record_of_a_deliverys_job_is_found(database: Database) -> None:
    key = add_delivery(database, "12", j.PENDING, 0)
    late = NOW + dt.timedelta(seconds=9)
    evidence.keep(database, [incoming("n2", "12")], late)

    assert last_record_at(database, key) == late


def test_a_store_that_cannot_be_read_is_told_and_the_rest_still_comes(
    tmp_path: Path, database: Database
) -> None:
    with database.writing() as connection:
        deliveries.drop(connection)
    page = Page(Gauges(lambda: parts(tmp_path, database), lambda: {"judge": 1.5}))

    text = page.render().decode()

    assert value(text, "firstfault_store_up") == 0
    assert value(text, "firstfault_worker_busy_seconds", worker="judge") == 1.5
    assert "firstfault_jobs{" not in text


# A series that begins with its first event hides that one from Prometheus' increase().
NOTHING_YET = (
    ("firstfault_worker_errors_total", {"worker": "judge"}),
    ("firstfault_deliveries_total", {"channel": "report", "result": "given-up"}),
    ("firstfault_evidence_removed_total", {"reason": "size"}),
    ("firstfault_verdicts_total", {"domain": "system", "confidence": "confirmed"}),
    ("firstfault_records_total", {"way": "push", "result": "stored"}),
    ("firstfault_intake_requests_total", {"path": "/v1/records", "status": "403"}),
)


def test_a_daemon_tells_all_that_the_page_describes(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * 64)
    (tmp_path / "key").chmod(0o600)
    intake = {"enabled": True, "port": 0, "munge": False, "key_file": str(tmp_path / "key")}
    with Daemon(configure(tmp_path, spool={"scan_s": 0.2}, intake=intake)) as daemon:
        address = daemon.wait_for(r"event=pages url=(\S+)")[1]
        nodes = daemon.wait_for(r"event=intake url=(\S+)")[1]
        requests.post(f"{nodes}/v1/records", data=b"x", timeout=10)
        requests.get(f"{nodes}/a-stranger", timeout=10)
        put_job(tmp_path / "spool", "12")
        (tmp_path / "spool" / "x.json").write_text("{}")
        daemon.wait_for("event=delivered job=12 channel=report")
        daemon.wait_for("event=record-refused")
        answer = requests.get(f"{address}/metrics", timeout=10)

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = answer.text
    assert value(text, "firstfault_records_total", way="spool", result="stored") == 4
    assert value(text, "firstfault_records_total", way="spool", result="quarantine") == 1
    assert value(text, "firstfault_spool_aside_records", folder="quarantine") == 1
    assert value(text, "firstfault_deliveries_total", channel="report", result="sent") == 1
    assert value(text, "firstfault_first_delivery_seconds_count", channel="report") == 1
    name = "firstfault_intake_requests_total"
    assert value(text, name, path="/v1/records", status="401") == 1
    assert value(text, name, path="other", status="404") == 1
    for name, labels in NOTHING_YET:
        assert value(text, name, **labels) == 0
    described = documented()
    told = families(text)
    assert {name: told[name] for name in told if told[name][1]} == {
        name: described[name] for name in told if told[name][1]
    }
    assert set(told) == set(described)


def documented() -> Families:
    row = re.compile(r"^\| `(firstfault_\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
    rows = row.findall(DOCUMENTED.read_text("utf-8"))
    return {name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def test_every_counter_is_described() -> None:
    described = {name: kind for name, (kind, _labels) in documented().items()}

    for family in counters.REGISTRY.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        assert name.startswith("firstfault_process_") or described[name] == family.type


def test_metrics_may_have_an_address_of_their_own(tmp_path: Path) -> None:
    config = configure(tmp_path, metrics={"host": "127.0.0.1", "port": 0})
    with Daemon(config) as daemon:
        pages = daemon.wait_for(r"event=pages url=(\S+)")[1]
        own = daemon.wait_for(r"event=metrics url=(\S+)")[1]
        told = requests.get(own, timeout=10)
        health = requests.get(own.replace("/metrics", "/healthz"), timeout=10)
        absent = requests.get(f"{pages}/metrics", timeout=10)

    assert "firstfault_store_up 1.0" in told.text
    assert health.text == "ok\n"
    assert absent.status_code == 404


def test_metrics_can_be_turned_off(tmp_path: Path) -> None:
    with Daemon(configure(tmp_path, metrics={"enabled": False})) as daemon:
        pages = daemon.wait_for(r"event=pages url=(\S+)")[1]

        assert requests.get(f"{pages}/metrics", timeout=10).status_code == 404
