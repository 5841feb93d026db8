"""`firstfault deliveries` on a store that a daemon wrote."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path

import click.testing
import pytest

from firstfault.app import passes
from firstfault.app.lifecycle import Timing
from firstfault.cli_deliveries import deliveries as command
from firstfault.deliver.outcome import Failed, Sent
from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.model.jobs import Delivery
from firstfault.store import deliveries, evidence
from firstfault.store.database import Database, open_store
from tests.app.processes import configure
from tests.store.incoming import incoming

NOW = dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC)
CHANNELS = ("report", "slack")


class Receiver:
    def __init__(self, *answers: Sent | Failed) -> None:
        self.answers = list(answers)
        self.sent: list[Delivery] = []

    def send(self, delivery: Delivery) -> Sent | Failed:
        self.sent.append(delivery)
        return self.answers.pop(0) if self.answers else Sent()


def send(database: Database, receiver: Receiver, later_s: float = 0) -> None:
    at = NOW + dt.timedelta(seconds=200 + later_s)
    for channel in CHANNELS:
        while passes.deliver(
            database, channel, receiver if channel == "slack" else Receiver(), 3, lambda: at
        ).done:
            pass


def judge(
    database: Database, job: str, *nodes: str, cause: str = "x", shadow: Sequence[str] = ()
) -> None:
    evidence.keep(database, [incoming(node, job, nodes=("n1", "n2")) for node in nodes], NOW)

    def diagnose(_case: object) -> v.Verdict:
        return v.Verdict(job=v.Job(), cause=v.Cause(cause, cause, "user", v.CONFIRMED))

    at = NOW + dt.timedelta(seconds=100)
    passes.judge(database, diagnose, Timing(), CHANNELS, lambda: at, shadow=tuple(shadow))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return configure(tmp_path, slack={"webhook": "http://127.0.0.1:9/x"})


@pytest.fixture
def database(tmp_path: Path, config: Path) -> Iterator[Database]:
    opened = open_store(f"sqlite:///{tmp_path}/ff.db")
    yield opened
    opened.close()


def run(config: Path, *arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(command, ["--config", str(config), *arguments])


def states(database: Database, channel: str = "slack") -> list[str]:
    rows = [row for row in deliveries.listed(database, 100) if row.channel == channel]
    return [row.state for row in reversed(rows)]


def ids(database: Database) -> list[str]:
    return [row.delivery_id for row in deliveries.listed(database, 100) if row.channel == "slack"]


GONE = Failed("Slack answered 404: 'no_\x1b[2Jservice'", retry=False)


def test_what_was_given_up_is_shown_and_sent_again(config: Path, database: Database) -> None:
    judge(database, "12", "n1", "n2")
    send(database, Receiver(GONE))
    (dead,) = ids(database)

    shown = run(config, "--failed").stdout
    assert len(shown.splitlines()) == 2
    assert f"{dead}  testcluster/12  slack    dead" in shown
    assert "no_?[2Jservice" in shown
    assert len(run(config).stdout.splitlines()) == 3

    retried = run(config, "retry", dead)
    receiver = Receiver()
    send(database, receiver, later_s=10**9)
    assert retried.stdout == "1 delivery due now, by the daemon, on report, slack.\n"
    assert [delivery.delivery_id for delivery in receiver.sent] == [dead]
    assert receiver.sent[0].attempts == 1
    assert states(database) == ["sent"]
    assert len(run(config, "--failed").stdout.splitlines()) == 1


def test_all_that_is_not_sent_is_sent_again(config: Path, database: Database) -> None:
    for job in ("1", "2", "3"):
        judge(database, job, "n1", "n2")
    send(database, Receiver(GONE, Failed("away", after_s=3600), Sent()))
    assert sorted(states(database)) == ["dead", "pending", "sent"]

    retried = run(config, "retry", "--all")

    assert retried.stdout.startswith("2 deliveries due now")
    send(database, Receiver(), later_s=10**9)
    assert states(database) == ["sent", "sent", "sent"]


def test_one_that_is_on_its_way_when_it_is_sent_again_is_sent_once(
    config: Path, database: Database
) -> None:
    judge(database, "12", "n1", "n2")
    at = NOW + dt.timedelta(seconds=200)
    (on_its_way,) = deliveries.claim(database, "slack", at, 60, 1)
    retried = run(config, "retry", "--all")
    deliveries.sent(database, on_its_way, at)

    assert retried.exit_code == 0
    assert states(database) == ["sent"]
    receiver = Receiver()
    send(database, receiver, later_s=10**9)
    assert receiver.sent == []


def test_a_delivery_that_cannot_be_sent_again_is_told(config: Path, database: Database) -> None:
    judge(database, "12", "n1", "n2")
    send(database, Receiver())

    retried = run(config, "retry", *ids(database), "nosuchid")

    assert retried.exit_code == 1
    assert "2 of the 2 are not known, or were sent" in retried.stderr
    assert states(database) == ["sent"]


def test_what_was_dismissed_is_not_shown_as_failed(config: Path, database: Database) -> None:
    judge(database, "12", "n1", "n2")
    send(database, Receiver(GONE))

    dismissed = run(config, "dismiss", "--all")

    assert dismissed.stdout == "1 delivery closed.\n"
    assert states(database) == ["superseded"]
    assert run(config, "retry", "--all").stdout.startswith("0 deliveries")


@pytest.mark.parametrize("arguments", [["retry"], ["dismiss"], ["retry", "--all", "x"]])
def test_ids_or_all_must_be_named(config: Path, arguments: list[str]) -> None:
    refused = run(config, *arguments)

    assert refused.exit_code == 2
    assert "Name deliveries by their ID, or give --all." in refused.stderr


def test_a_later_verdict_closes_one_that_was_given_up(config: Path, database: Database) -> None:
    judge(database, "12", "n1")
    send(database, Receiver(GONE))
    judge(database, "12", "n2", cause="y")
    receiver = Receiver()
    send(database, receiver, later_s=1000)

    assert states(database) == ["superseded", "sent"]
    assert receiver.sent[0].previous is None


def test_a_job_judged_in_shadow_stays_unsent_when_shadow_ends(
    config: Path, database: Database
) -> None:
    judge(database, "12", "n1", shadow=["slack"])
    receiver = Receiver()
    send(database, receiver, later_s=1000)
    judge(database, "12", "n2", cause="y")
    judge(database, "13", "n1", "n2")
    send(database, receiver, later_s=1000)

    assert [sent.current.job for sent in receiver.sent] == ["13"]
    assert states(database) == ["shadow", "shadow", "sent"]
    assert states(database, "report") == ["sent", "sent", "sent"]
    assert run(config, "retry", "--all").stdout.startswith("0 deliveries")


def test_what_waits_when_shadow_begins_is_kept_back(config: Path, database: Database) -> None:
    judge(database, "12", "n1", "n2")

    kept = deliveries.keep_back(database, ["slack"])
    receiver = Receiver()
    send(database, receiver)

    assert kept == 1
    assert receiver.sent == []
    assert states(database) == ["shadow"]


def test_nothing_is_sent_again_in_shadow_mode(config: Path, database: Database) -> None:
    config.write_text("shadow = true\n" + config.read_text())

    refused = run(config, "retry", "--all")

    assert refused.exit_code == 1
    assert "shadow = true: nothing is sent." in refused.stderr


def test_a_store_that_is_not_there_is_told(config: Path) -> None:
    shown = run(config)

    assert shown.exit_code == 1
    assert "is not there. Has the daemon run with this configuration?" in shown.stderr


def test_the_daemon_settles_a_job_again_that_was_sent_again(
    config: Path, database: Database
) -> None:
    judge(database, "12", "n1", "n2")
    send(database, Receiver(GONE))
    run(config, "retry", "--all")
    send(database, Receiver(), later_s=10**9)

    with database.reading() as connection:
        (row,) = connection.exec_driver_sql("SELECT state FROM jobs").all()
    assert row[0] == j.DELIVERED
