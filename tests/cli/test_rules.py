"""`firstfault rules` on a store that a daemon wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click.testing
import pytest

from firstfault.cli_rules import rules as command
from firstfault.store import deliveries
from firstfault.store.database import Database, open_store
from tests.app.processes import configure
from tests.cli.test_deliveries import judge

RULES = """
[[rule]]
name = "crashes"
cause = ["process.*"]
send = ["slack"]

[[rule]]
name = "mine \\u001b[2J"
cause = ["memory.*"]
send = []
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_store(f"sqlite:///{tmp_path}/ff.db")
    yield opened
    opened.close()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return configure(tmp_path, slack={"webhook": "http://127.0.0.1:9/x"})


def run(config: Path, *arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(command, ["--config", str(config), *arguments])


def test_it_shows_who_would_have_been_told_and_why(
    config: Path, database: Database, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    for job, cause in (("1", "process.abort"), ("2", "memory.cgroup-oom"), ("3", "none")):
        judge(database, job, "n1", "n2", cause=cause)
    before = len(deliveries.listed(database, 100))

    shown = run(config, "--rules", str(rules))

    assert shown.exit_code == 0, shown.output
    first, second = shown.stdout.split("\n\n")[1:3]
    assert first.endswith("memory.cgroup-oom (confirmed)  -> nobody\n    mine ?[2J: nobody")
    assert second.endswith("process.abort (confirmed)  -> slack\n    crashes: slack")
    assert shown.stdout.endswith("2 failures: nobody 1, slack 1\n")
    assert len(deliveries.listed(database, 100)) == before


def test_without_rules_every_channel_gets_all(config: Path, database: Database) -> None:
    judge(database, "1", "n1", "n2", cause="process.abort")

    shown = run(config, "--last", "1").stdout

    assert "Channels that are on: slack\n" in shown
    assert "    no rules: every channel\n" in shown


def test_a_channel_that_is_not_on_is_warned_of(
    config: Path, database: Database, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rule]]\nname = 'r'\nsend = ['slak']\n")

    shown = run(config, "--rules", str(rules)).stdout

    assert "Warning: rule 'r' sends to 'slak', and no channel that is on fits it." in shown
    assert shown.endswith("0 failures: none is stored\n")


def test_a_mistake_in_the_file_is_told(config: Path, database: Database, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rule]]\nname = 'r'\nsent = []\n")

    shown = run(config, "--rules", str(rules))

    assert shown.exit_code == 1
    assert "rule 1 ('r'): unknown key 'sent'. Did you mean 'send'?" in shown.output
