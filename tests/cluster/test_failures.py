"""Real failures of real jobs on a real Slurm: what firstfault stored and posted about each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import jobs
from tests.cluster.scenarios import HOSTILE_NAME, SCENARIOS
from tests.cluster.session import Session

pytestmark = pytest.mark.cluster

FAILURES = [scenario.name for scenario in SCENARIOS if scenario.cause != "none"]


@pytest.mark.parametrize("name", FAILURES)
def test_the_first_fault_of_a_real_job_is_named(cluster: Session, name: str) -> None:
    run = cluster.finished(name)
    verdict = cluster.verdict(name)
    initiator = verdict["initiator"]
    host = cluster.hit[name] if name == "node-fail" else run.host

    assert verdict["cause"]["id"] == run.scenario.cause
    assert (initiator["rank"], initiator["host"]) == (run.scenario.rank, host)
    assert verdict["cause"]["confidence"] == run.scenario.confidence
    assert verdict["job"]["state"] == run.scenario.state


@pytest.mark.parametrize("name", FAILURES)
def test_the_quoted_line_stands_where_it_is_said_to_stand(cluster: Session, name: str) -> None:
    cluster.finished(name)
    quoted = cluster.verdict(name)["evidence"][0]

    assert quoted["text"] in standing_at(cluster, name, quoted)


@pytest.mark.parametrize("name", FAILURES)
def test_the_owner_is_told_cause_rank_and_host(cluster: Session, name: str) -> None:
    run = cluster.finished(name)
    initiator = cluster.verdict(name)["initiator"]
    shown = json.dumps(cluster.message(name).payload, ensure_ascii=False)

    assert run.scenario.cause in shown
    if initiator["host"] is not None:
        assert initiator["host"] in shown
    if run.scenario.rank is not None:
        assert f"rank {run.scenario.rank}" in shown.lower()


@pytest.mark.parametrize("name", ["exception-all"])
def test_ranks_that_failed_alike_are_all_named(cluster: Session, name: str) -> None:
    run = cluster.finished(name)
    initiator = cluster.verdict(name)["initiator"]
    others = {(member["rank"], member["host"]) for member in initiator["also"]}

    assert others == {(rank, who["host"]) for rank, who in run.roster.items() if rank != 0}


@pytest.mark.parametrize("name", ["exception-3n", "hostile-name"])
def test_the_exception_is_quoted_with_its_place_in_the_program(cluster: Session, name: str) -> None:
    run = cluster.finished(name)
    exception = cluster.verdict(name)["exception"]
    source = (run.folder / "train.py").read_text().splitlines()

    assert exception["type"] == "ValueError"
    assert exception["message"] == "expected 4 features, got 5"
    assert Path(exception["file"]) == run.folder / "train.py"
    assert source[exception["line"] - 1].lstrip().startswith("raise ValueError")


@pytest.mark.parametrize("name", ["success", "recovered"])
def test_a_job_that_succeeded_is_not_reported(cluster: Session, name: str) -> None:
    cluster.finished(name)
    verdict = cluster.verdict(name)

    assert verdict["cause"]["id"] == "none"
    assert verdict["job"]["state"] == "COMPLETED"
    assert cluster.messages(name) == []


@pytest.mark.parametrize("name", ["recovered"])
def test_an_attempt_that_was_recovered_from_is_in_the_runs(cluster: Session, name: str) -> None:
    cluster.finished(name)
    outcomes = [run["outcome"] for run in cluster.verdict(name)["runs"]]

    assert outcomes == ["recovered", "succeeded"]


@pytest.mark.parametrize("name", ["oom-4n"])
def test_the_owner_is_told_within_two_seconds_of_the_last_record(
    cluster: Session, name: str
) -> None:
    run = cluster.finished(name)
    message = cluster.message(name)
    last_record = max(path.stat().st_mtime for path in cluster.records(name))

    assert len(cluster.records(name)) == run.scenario.nodes
    assert f"Rank {run.scenario.rank}" in message.payload["text"]
    assert message.at.timestamp() - last_record < 2.0


@pytest.mark.parametrize("name", ["node-fail"])
def test_a_node_that_died_sent_nothing_and_is_said_to_be_missing(
    cluster: Session, name: str
) -> None:
    cluster.finished(name)
    verdict = cluster.verdict(name)
    dead = cluster.hit[name]

    assert all(f"-{dead}-" not in path.name for path in cluster.records(name))
    assert any(dead in gap["what"] for gap in verdict["missing"])


@pytest.mark.parametrize("name", ["hostile-name"])
def test_a_hostile_job_name_harms_neither_page_nor_message(cluster: Session, name: str) -> None:
    cluster.finished(name)
    verdict = cluster.verdict(name)
    page = cluster.page(name).read_text("utf-8")
    message = cluster.message(name).payload

    assert verdict["job"]["name"] == HOSTILE_NAME
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert_is_not_markup(message, HOSTILE_NAME)
    assert cluster.slack.refused == []


def assert_is_not_markup(message: dict[str, Any], name: str) -> None:
    """Wherever the name stands in the message, Slack takes it for plain text."""
    assert "<" not in message["text"].replace("&lt;", "")
    found = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("type") == "mrkdwn":
                assert "<!channel>" not in value["text"] and "*bold*" not in value["text"]
            elif name in str(value.get("text", "")):
                found.append(value["type"])
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    look(message["blocks"])
    assert found and set(found) <= {"plain_text", "text"}


def standing_at(cluster: Session, name: str, quoted: dict[str, Any]) -> str:
    """What really stands where the evidence says that it stands."""
    host, _, path = quoted["file"].rpartition(":")
    if path == "/dev/kmsg":
        records = jobs.kernel_log(cluster.runs[name].submitted_at)
        return next((line for line in records if quoted["text"] in line), "no such record")
    if path.startswith("/"):
        lines = Path(path).read_bytes().split(b"\n")
        start = sum(len(line) + 1 for line in lines[: quoted["line"] - 1])
        assert start == quoted["offset"]
        return lines[quoted["line"] - 1].decode("utf-8", "replace")
    if path == "Epilog environment":
        return (cluster.base / "epilog" / f"{cluster.runs[name].job}.{host}.txt").read_text()
    return cluster.accounting(name)
