"""Real failures of real jobs on a real Slurm: what firstfault stored and posted about each."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import jobs
from tests.cluster.scenarios import HOSTILE_TEXT, SCENARIOS
from tests.cluster.session import Session

pytestmark = pytest.mark.cluster

FAILURES = [scenario.name for scenario in SCENARIOS if scenario.cause != "none"]


@pytest.mark.parametrize("name", FAILURES)
def test_the_first_fault_of_a_real_job_is_named(cluster: Session, name: str) -> None:
    run = cluster.finished(name)
    verdict = cluster.verdict(name)
    initiator = verdict["initiator"]
    host = cluster.named_host(name)

    assert verdict["cause"]["id"] == run.scenario.cause
    assert (initiator["rank"], initiator["host"]) == (run.scenario.rank, host)
    assert verdict["cause"]["confidence"] == run.scenario.confidence
    assert verdict["job"]["state"] == run.scenario.state


def test_when_the_ranks_files_were_last_written_tells_since_when_a_job_hung(
    cluster: Session,
) -> None:
    cluster.finished("hang")
    verdict = cluster.verdict("hang")
    known = [note for note in verdict["notes"] if "the ranks' files were last written" in note]

    assert verdict["cause"]["title"].startswith("The job hung at step 40:")
    assert len(known) == 1
    assert not any("longer --time" in each for each in verdict["remedy"]["do"])


@pytest.mark.parametrize("name", FAILURES)
def test_the_quoted_line_stands_where_it_is_said_to_stand(cluster: Session, name: str) -> None:
    cluster.finished(name)
    quoted = cluster.verdict(name)["evidence"][0]

    assert quoted["text"] in standing_at(cluster, name, quoted)


@pytest.mark.parametrize("name", FAILURES)
def test_the_owner_is_told_cause_rank_and_host(cluster: Session, name: str) -> None:
    run = cluster.finished(name)
    shown = json.dumps(cluster.message(name).payload, ensure_ascii=False).lower()

    assert run.scenario.cause in shown
    assert run.host is None or run.host in shown
    assert run.scenario.rank is None or f"rank {run.scenario.rank} " in shown


@pytest.mark.parametrize("name", sorted({*FAILURES, "success", "recovered"} - {"node-fail"}))
def test_each_node_sends_one_record_that_tells_what_could_be_read(
    cluster: Session, name: str
) -> None:
    run = cluster.finished(name)
    cluster.verdict(name)
    records = [json.loads(gzip.decompress(path.read_bytes())) for path in cluster.records(name)]

    assert len({record["node"] for record in records}) == len(records) == run.scenario.nodes
    for record in records:
        assert {"kernel", "cgroup", "job-output"} <= {row["what"] for row in record["coverage"]}
        assert all(row["state"] == "full" or row["reason"] for row in record["coverage"])


@pytest.mark.parametrize("name", ["card-lost-elsewhere"])
def test_what_a_program_wrote_into_the_kernel_log_is_recorded_as_a_programs(
    cluster: Session, name: str
) -> None:
    cluster.finished(name)
    cluster.verdict(name)
    lines = [line for path in cluster.records(name) for line in kernel_lines(path) if "Xid" in line]

    assert len(lines) >= 2
    assert all(int(line.partition(",")[0]) >= 8 for line in lines)


@pytest.mark.parametrize("name", ["work-folder"])
def test_a_folder_that_is_missing_for_the_output_is_named(cluster: Session, name: str) -> None:
    run = cluster.finished(name)

    assert f"{run.folder}/not-there" in cluster.verdict(name)["cause"]["title"]


@pytest.mark.parametrize("name", ["exception-all"])
def test_ranks_that_failed_alike_are_all_named(cluster: Session, name: str) -> None:
    run = cluster.finished(name)
    initiator = cluster.verdict(name)["initiator"]
    others = {(member["rank"], member["host"]) for member in initiator["also"]}

    assert others == {(rank, who["host"]) for rank, who in run.roster.items() if rank != 0}


@pytest.mark.parametrize("name", ["exception-3n"])
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
def test_the_owner_is_told_soon_after_the_last_record(cluster: Session, name: str) -> None:
    run = cluster.finished(name)
    message = cluster.message(name)
    last_record = max(path.stat().st_mtime for path in cluster.records(name))

    assert len(cluster.records(name)) == run.scenario.nodes
    assert f"Rank {run.scenario.rank}" in message.payload["text"]
    # Two seconds on an idle machine; here all jobs end at once.
    assert message.at.timestamp() - last_record < 10.0


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
def test_a_hostile_job_name_and_exception_harm_neither_page_nor_message(
    cluster: Session, name: str
) -> None:
    cluster.finished(name)
    verdict = cluster.verdict(name)
    message = cluster.message(name).payload
    page = cluster.page(name).read_text("utf-8")
    kinds = {kind for kind, text in texts_in(message["blocks"]) if HOSTILE_TEXT in text}
    markup = [text for kind, text in texts_in(message["blocks"]) if kind == "mrkdwn"]

    assert verdict["job"]["name"] == HOSTILE_TEXT
    assert verdict["exception"]["message"] == HOSTILE_TEXT
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
    # Slack takes these two for plain text, and the fallback's escapes for what they stand for
    assert kinds and kinds <= {"plain_text", "text"}
    assert not [text for text in markup if "<!channel>" in text or "*bold*" in text]
    assert "<" not in message["text"]
    assert cluster.slack.refused == []


def texts_in(value: Any) -> Iterator[tuple[str, str]]:
    """Each text of a Slack message with the type of the object that it stands in."""
    if isinstance(value, dict):
        if isinstance(value.get("text"), str):
            yield value["type"], value["text"]
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)


def kernel_lines(path: Path) -> list[str]:
    """The kernel log's lines in a record."""
    record = json.loads(gzip.decompress(path.read_bytes()))
    return [
        line
        for file in record["files"]
        if file["what"] == "kernel"
        for excerpt in file["excerpts"]
        for line in excerpt["text"].splitlines()
    ]


def standing_at(cluster: Session, name: str, quoted: dict[str, Any]) -> str:
    """What really stands where the evidence says that it stands."""
    host, _, path = quoted["file"].rpartition(":")
    if path == "/dev/kmsg":
        records = jobs.kernel_log(cluster.runs[name].submitted_at)
        return next((line for line in records if quoted["text"] in line), "no such record")
    if path.startswith("/"):
        lines = Path(path).read_bytes().split(b"\n")
        line: bytes = lines[quoted["line"] - 1]
        start = sum(len(line) + 1 for line in lines[: quoted["line"] - 1])
        assert start == quoted["offset"]
        return line.decode("utf-8", "replace")
    if path == "Epilog environment":
        return (cluster.base / "epilog" / f"{cluster.runs[name].job}.{host}.txt").read_text()
    return cluster.accounting(name)
