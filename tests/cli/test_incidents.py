"""`firstfault incidents`: shown, acknowledged, silenced and ended from the command line."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from firstfault.cli import main
from firstfault.model import jobs as j
from firstfault.store import common_causes
from firstfault.store.database import Database, open_store
from tests.app.processes import configure
from tests.app.test_gathering import verdict
from tests.app.test_incidents import Site
from tests.fakes.slack_api import SlackApi

URL = "sqlite:///{}/ff.db"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_store(URL.format(tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return configure(tmp_path, store={"url": URL.format(tmp_path)})


@pytest.fixture
def incident(database: Database) -> Iterator[j.Incident]:
    with SlackApi({}) as slack:
        site = Site(database, slack)
        site.crash(6)
        (found,) = site.open()
        yield found


def run(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["incidents", *arguments, "--config", str(config)])


def test_a_quiet_cluster_has_none(config: Path, database: Database) -> None:
    assert run(config, "--open").output == "No incident goes on.\n"
    assert run(config).output == "There were no incidents.\n"


def test_an_incident_is_shown_with_its_jobs(config: Path, incident: j.Incident) -> None:
    shown = run(config)

    first, second = shown.output.splitlines()
    assert first.startswith("1  open  node n3 of testcluster  6 jobs  2026-")
    assert second == "    gpu.ecc (6); jobs 105, 104, 103, 102, 101, 100"


def test_it_is_acknowledged_and_ended(config: Path, incident: j.Incident) -> None:
    assert run(config, "ack", "1", "--by", "ada").output == "ada takes care of incident 1.\n"
    assert "1  open, ada's  node n3" in run(config).output
    assert run(config, "end", "1").output == "Incident 1 is over.\n"
    assert run(config, "--open").output == "No incident goes on.\n"

    again = run(config, "ack", "1")
    assert again.exit_code == 1
    assert "no incident 1 goes on: firstfault incidents shows them." in again.output


def test_its_subject_is_silenced_for_a_while_and_not_any_more(
    config: Path, incident: j.Incident, database: Database
) -> None:
    now = dt.datetime.now(dt.UTC)

    assert "node n3: silent until " in run(config, "silence", "1", "--for", "2d").output
    (silence,) = common_causes.silences_now(database, now)
    assert dt.timedelta(hours=47) < silence.until - now < dt.timedelta(hours=49)
    assert "silent until" in run(config).output

    run(config, "silence", "--node", "n3", "--cluster", "testcluster", "--for", "0")
    assert common_causes.silences_now(database, now + dt.timedelta(seconds=30)) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Give an incident's ID, or one of"),
        (("1", "--node", "n3"), "Give an incident's ID, or one of"),
        (("--node", "n3", "--cause", "gpu.ecc"), "Give an incident's ID, or one of"),
        (("--node", "n3", "--for", "soon"), "give minutes, hours or days"),
        (("--node", "n3", "--for", "5"), "give minutes, hours or days"),
        (("9",), "no incident 9 goes on"),
    ],
)
def test_what_is_to_be_silenced_must_be_plain(
    config: Path, database: Database, arguments: tuple[str, ...], said: str
) -> None:
    answer = run(config, "silence", *arguments)

    assert answer.exit_code != 0
    assert said in answer.output


def test_names_that_users_wrote_do_not_act_in_a_terminal(config: Path, database: Database) -> None:
    with SlackApi({}) as slack:
        site = Site(database, slack)
        for job in range(100, 105):
            site.judge(str(job), verdict(str(job), "gpu.ecc", domain="system", host="n\x1b[31m3"))
        site.incidents.once(site.now)

    assert "\x1b" not in run(config).output
