"""The daemon as it runs: a real process, real files, a real receiver."""

from __future__ import annotations

import datetime as dt
import os
import random
import signal
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import click
import click.testing
import pytest
import requests
import sqlalchemy as sa

from firstfault.cli_daemon import check, job
from firstfault.store.database import connect
from firstfault.store.schema import deliveries, evidence, jobs, verdicts
from tests.app.processes import Daemon, configure, serve_once
from tests.fakes.slack import SlackServer
from tests.fakes.slack_api import SlackApi
from tests.intake.records import fields, file, put

LONG_AGO = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
TRACEBACK = (
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/home/alice/train.py", line 7, in <module>\n'
    "[rank1]: RuntimeError: lost\n"
)


def put_job(folder: Path, job: str, nodes: int = 4) -> None:
    for number in range(1, nodes + 1):
        files = [file(f"/home/alice/slurm-{job}.out", "job-output", TRACEBACK)]
        put(folder, fields(f"n{number}", job, nodes=f"n[1-{nodes}]", files=files))


def run(command: click.Command, *arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(command, arguments)


def test_four_nodes_records_become_a_message_without_waiting_for_a_scan(
    tmp_path: Path, store_url: str
) -> None:
    with SlackServer() as slack:
        config = configure(
            tmp_path,
            store={"url": store_url},
            slack={"webhook": slack.url},
            spool={"scan_s": 60},
        )
        with Daemon(config) as daemon:
            daemon.wait_for("event=started")
            time.sleep(0.2)
            put_job(tmp_path / "spool", "12")

            assert len(slack.wait(1, 30)) == 1

            daemon.wait_for("event=delivered .*channel=slack")
            address = daemon.wait_for(r"event=pages url=(\S+)")[1]
            listed = requests.get(address, timeout=10).text
            assert daemon.stop() == 0

    assert "/jobs/testcluster/12" in listed
    assert (tmp_path / "reports" / "testcluster" / "12.html").exists()
    assert list((tmp_path / "spool").glob("*.gz")) == []
    assert "event=stopped" in daemon.said()


@pytest.mark.slow
def test_once_idle_ends_when_everything_is_delivered(tmp_path: Path) -> None:
    with SlackServer() as slack:
        config = configure(tmp_path, slack={"webhook": slack.url}, log={"report": True})
        put_job(tmp_path / "spool", "12")
        put_job(tmp_path / "spool", "13", nodes=1)

        with Daemon(config, "--once-idle") as daemon:
            assert daemon.process.wait(30) == 0

    assert len(slack.messages) == 2
    reports = (tmp_path / "reports" / "testcluster").iterdir()
    assert sorted(path.name for path in reports) == ["12.html", "13.html"]

    shown = run(job, "12", "--config", str(config), "--format", "json")
    assert shown.exit_code == 0
    assert '"id": "12"' in shown.stdout
    assert run(job, "12", "--config", str(config)).stdout in daemon.said()
    assert run(job, "13", "--config", str(config), "--format", "html").stdout.startswith("<!")
    absent = run(job, "99", "--config", str(config))
    assert absent.exit_code == 1
    assert "no verdict of job '99' is stored" in absent.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_soon(tmp_path: Path, number: signal.Signals) -> None:
    with Daemon(configure(tmp_path)) as daemon:
        daemon.wait_for("event=started")
        begun = time.monotonic()

        assert daemon.stop(number) == 0

    assert time.monotonic() - begun < 5
    assert "Traceback" not in daemon.said()


@pytest.mark.slow
def test_files_are_found_without_a_watch(tmp_path: Path) -> None:
    config = configure(tmp_path, spool={"watch": False, "scan_s": 0.2})
    with Daemon(config) as daemon:
        daemon.wait_for("event=started")
        put_job(tmp_path / "spool", "12")

        daemon.wait_for("event=delivered job=12")


@pytest.mark.slow
def test_a_kill_at_any_point_loses_nothing(tmp_path: Path, store_url: str) -> None:
    chance = random.Random(20261130)
    rounds, jobs_a_round = 6, 4
    count = rounds * jobs_a_round
    with SlackServer() as slack:
        config = configure(
            tmp_path,
            store={"url": store_url},
            slack={"webhook": slack.url},
            web={"enabled": False},
        )
        for round_number in range(rounds):
            for job in range(jobs_a_round):
                put_job(tmp_path / "spool", f"{100 + round_number * jobs_a_round + job}", nodes=2)
            with Daemon(config) as daemon:
                daemon.wait_for("event=started")
                time.sleep(chance.uniform(0, 0.25))
                daemon.kill()
        _free_leases(store_url)
        with Daemon(config, "--once-idle") as daemon:
            assert daemon.process.wait(60) == 0, daemon.said()
        messages = Counter(str(m.payload["blocks"][-1]) for m in slack.messages)

    assert list((tmp_path / "spool").glob("*.gz")) == []
    assert list((tmp_path / "spool" / "quarantine").iterdir()) == []
    with closing(connect(store_url)) as database, database.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(jobs)).scalar() == count
        kept = connection.execute(sa.select(sa.func.count()).select_from(evidence)).scalar()
        assert kept == 2 * count
        judged = connection.execute(sa.select(verdicts.c.job_key).distinct()).all()
        assert len(judged) == count
        states = connection.execute(
            sa.select(deliveries.c.state, sa.func.count())
            .where(deliveries.c.channel == "slack")
            .group_by(deliveries.c.state)
        ).all()
    assert [tuple(row) for row in states] == [("sent", count)]
    assert len(list((tmp_path / "reports").rglob("*.html"))) == count
    # A webhook cannot be asked what it has: at least once, with the delivery id to tell doubles.
    assert len(messages) == count


def _free_leases(store_url: str) -> None:
    """What a killed worker had claimed is free after its lease; the test does not wait for it."""
    with closing(connect(store_url)) as database, database.writing() as connection:
        connection.execute(jobs.update().values(lease_until=None))
        for table, column in ((jobs, "ask_at"), (deliveries, "next_at")):
            known = table.c[column]
            connection.execute(table.update().where(known.is_not(None)).values({column: LONG_AGO}))


@pytest.mark.slow
def test_old_evidence_is_removed_and_the_report_stays(tmp_path: Path, store_url: str) -> None:
    config = configure(tmp_path, store={"url": store_url})
    put_job(tmp_path / "spool", "12")
    with Daemon(config, "--once-idle") as daemon:
        assert daemon.process.wait(60) == 0, daemon.said()

    config = configure(tmp_path, store={"url": store_url, "keep_evidence_days": 0.00001})
    with Daemon(config) as daemon:
        removed = daemon.wait_for("event=evidence-removed .*")[0]
        assert daemon.stop() == 0

    assert "why=age jobs=1 records=4 " in removed
    with closing(connect(store_url)) as database, database.reading() as connection:
        assert connection.execute(sa.select(evidence)).all() == []
    assert run(job, "12", "--config", str(config)).exit_code == 0


def test_root_is_refused(tmp_path: Path) -> None:
    config = configure(tmp_path)
    config.write_text(config.read_text().replace("allow_root = true", "allow_root = false"))

    refused = serve_once(config)

    if os.geteuid() == 0:
        assert refused.returncode == 1
        assert "does not run as root" in refused.stderr
    else:
        assert refused.returncode == 0


@pytest.mark.slow
def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with SlackServer() as other:
        port = int(other.url.split(":")[2].split("/")[0])

        refused = serve_once(configure(tmp_path, web={"port": port}))

    assert refused.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in refused.stderr
    assert "Set web.port" in refused.stderr


def test_check_passes_on_a_host_that_is_set_up(tmp_path: Path) -> None:
    with SlackServer() as slack:
        config = configure(tmp_path, slack={"webhook": slack.url})

        checked = run(check, "--config", str(config))

        assert slack.messages == []
    assert checked.exit_code == 0, checked.stdout
    assert "ok    slack: 127.0.0.1 answers" in checked.stdout
    assert "off   slurm" in checked.stdout


@pytest.mark.parametrize(
    ("admins", "token", "status", "said"),
    [
        (
            "C0123456789",
            SlackApi.TOKEN,
            0,
            "ok    slack bot: firstfault in Tests, writes to slack-",
        ),
        ("", SlackApi.TOKEN, 1, "it writes to nobody: set [owners] for owners, or slack.admins."),
        ("C0123456789", "xoxb-another", 1, "invalid_auth. Check slack.token_file."),
    ],
)
def test_check_asks_slack_whether_the_bots_token_works(
    tmp_path: Path, admins: str, token: str, status: int, said: str
) -> None:
    (tmp_path / "token").write_text(token)
    (tmp_path / "token").chmod(0o600)
    with SlackApi({}) as slack:
        known = {"token_file": str(tmp_path / "token"), "api_url": slack.url, "admins": admins}
        checked = run(check, "--config", str(configure(tmp_path, slack=known)))

        assert slack.messages == []
    assert checked.exit_code == status, checked.stdout
    assert said in checked.stdout
    assert token not in checked.output


def test_check_names_each_failure_with_its_remedy(tmp_path: Path) -> None:
    config = configure(
        tmp_path,
        spool={"dir": str(tmp_path / "absent")},
        store={"url": f"sqlite:///{tmp_path}/absent/ff.db"},
        slurm={"source": "sacct", "sacct": str(tmp_path / "sacct")},
        slack={"webhook": "http://127.0.0.1:9/services/T0/B0/SECRET", "timeout_s": 2},
    )

    checked = run(check, "--config", str(config))

    assert checked.exit_code == 1
    failed = [line for line in checked.stdout.splitlines() if line.startswith("FAIL")]
    assert [line.split()[1] for line in failed] == ["spool:", "store:", "slurm:", "slack:"]
    assert "install -d -o root -g firstfault -m 2770" in checked.stdout
    assert "SECRET" not in checked.output


def test_check_looks_at_all_that_can_be_configured(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * 64)
    (tmp_path / "key").chmod(0o600)
    with SlackServer() as other:
        taken = int(other.url.split(":")[2].split("/")[0])
        config = configure(
            tmp_path,
            web={
                "port": taken,
                "public_url": "https://ff.example",
                "secret_file": str(tmp_path / "key"),
            },
            metrics={"host": "127.0.0.1", "port": 0},
        )

        checked = run(check, "--config", str(config))

    assert checked.exit_code == 0, checked.stdout
    assert f"ok    pages: 127.0.0.1 port {taken} is in use: by the daemon" in checked.stdout
    assert "ok    links: lead to https://ff.example, signed, good for 14 days" in checked.stdout
    assert "ok    metrics: 127.0.0.1 port 0 is free" in checked.stdout
    assert "off   intake" in checked.stdout


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (
            {"web": {"host": "192.0.2.1", "munge": True}},
            "FAIL  pages: web: cannot listen on 192.0.2.1",
        ),
        ({"web": {"secret_file": "KEY"}}, "KEY has mode 0644: it holds a secret. chmod 0600"),
        ({"slack": {"webhook_file": "KEY"}}, "KEY has mode 0644: it holds a secret. chmod 0600"),
        ({"web": {"secret_file": "/absent"}}, "FAIL  links: web.secret_file /absent cannot be"),
        ({"web": {"enabled": False}}, "FAIL  metrics: the pages, where they would be, are off"),
        (
            {"intake": {"enabled": True, "munge": False, "key_file": "/absent"}},
            "FAIL  intake: intake.key_file /absent: No such file or directory",
        ),
    ],
)
def test_check_names_what_is_wrong_with_a_listener_or_a_secret(
    tmp_path: Path, tables: dict[str, dict[str, object]], said: str
) -> None:
    key = tmp_path / "key"
    key.write_text("http://127.0.0.1:9/" + "k" * 64)
    key.chmod(0o644)
    for table in tables.values():
        for name, value in table.items():
            table[name] = str(key) if value == "KEY" else value
    config = configure(tmp_path, **tables)

    checked = run(check, "--config", str(config))

    assert checked.exit_code == 1
    assert said.replace("KEY", str(key)) in checked.stdout
    assert "k" * 64 not in checked.output


def test_a_wrong_configuration_is_told_by_every_command(tmp_path: Path) -> None:
    config = tmp_path / "ff.toml"
    config.write_text("[spool]\ndri = '/x'\n")

    refused = serve_once(config)

    said = "unknown key 'spool.dri'. Did you mean 'spool.dir'?"
    assert refused.returncode == 1
    assert said in refused.stderr
    for told in (run(job, "12", "--config", str(config)), run(check, "--config", str(config))):
        assert told.exit_code == 1
        assert said in told.output
