"""Logs of steps, dumps of the flight recorder, and who reads what all nodes see."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from typing import Any

import pytest

from firstfault_epilog import anchors, joblogs, patterns
from tests.epilog.node import Node, file_of, reason_of, set_time

KNOWN = {"j": "12", "u": "alice", "N": "n3", "w": "/home/al[i]ce/w", "h": "/home/alice"}


def names(node: Node, what: str) -> list[str]:
    (record,) = node.records()
    return [Path(file.name).name for file in record.files if file.what == what]


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("%w/logs/%x-%j-%t.out", ["llm-12-0.out", "-12-31.out"], ["llm-13-0.out", "llm-12.out"]),
        ("/logs/%5j.%3t", ["00012.007"], ["12.007"]),
        ("/logs/%J_%s_%n", ["12_0_3", "12.0_batch_1"], ["13.0_0_1"]),
        ("/logs/%N-%A_%a", ["n3-10_4"], ["n4-10_4"]),
        ("/logs/rank[0-9]*.100%%", ["rank7.100%"], ["rank.100%"]),
    ],
)
def test_a_steps_pattern_finds_what_srun_would_have_made(
    pattern: str, fits: list[str], does_not: list[str]
) -> None:
    path = patterns.step_log(pattern, KNOWN)

    assert path is not None
    last = path.parts[-1]
    matches = (lambda name: name == last) if isinstance(last, str) else last.match
    assert all(matches(name) for name in fits)
    assert not any(matches(name) for name in does_not)


def test_the_work_folder_is_taken_as_it_is_called() -> None:
    path = patterns.step_log("%w/x-%j", KNOWN)

    assert path is not None and path.parts == ["home", "al[i]ce", "w", "x-12"]
    assert patterns.step_log("%h/x", dict(KNOWN, h="")) is None
    assert patterns.step_log("logs/x", KNOWN) is None


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("n[1-4]", ["n1", "n2"]),
        ("n[08-10]", ["n08", "n09"]),
        ("n[7,9-12],m3", ["n7", "n9"]),
        ("n7", ["n7"]),
        ("gpu-a,gpu-b,gpu-c", ["gpu-a", "gpu-b"]),
        ("n[1-999999999999]", ["n1", "n2"]),
        ("n[1-2]x[3-4]", None),
        ("", None),
        (None, None),
    ],
)
def test_the_first_nodes_of_a_list(nodes: str | None, first: list[str] | None) -> None:
    assert patterns.first_nodes(nodes, 2) == first


def test_logs_of_tasks_are_read_and_those_of_other_jobs_and_times_are_not(node: Node) -> None:
    logs = node.folder / "logs"
    logs.mkdir()
    for name in ("llm-12-0.out", "llm-12-1.out", "llm-13-0.out", "llm-12-2.out"):
        (logs / name).write_text(f"{name}: ValueError: x\n")
    set_time(logs / "llm-12-2.out", time.time() - 900_000)
    node.configure(FIRSTFAULT_STEP_LOGS="%w/logs/%x-%j-%t.out")
    node.end_job()

    node.collect()

    assert sorted(names(node, "rank-log")) == ["llm-12-0.out", "llm-12-1.out"]
    assert file_of(node.records()[0], "llm-12-1.out") == b"llm-12-1.out: ValueError: x\n"


def test_of_an_arrays_outputs_one_that_grew_after_the_end_is_another_tasks(node: Node) -> None:
    ended_at = time.time() - 40
    for task, at in ((1, ended_at - 2), (2, ended_at + 30), (3, ended_at - 500)):
        path = node.folder / f"slurm-10_{task}.out"
        path.write_bytes(b"task %d\n" % task)
        set_time(path, at)
    node.end_job(SLURM_JOB_STDOUT=f"{node.folder}/slurm-%A_%a.out")
    (entry,) = node.waiting()
    set_time(entry, ended_at)

    node.collect()

    assert file_of(node.records()[0], "slurm-10_1.out") == b"task 1\n"
    assert "ambiguous" in [row.reason for row in node.records()[0].coverage]


def dump(rank: int, entries: int) -> bytes:
    # As torch writes it: a pickle of builtins, protocol 2.
    rows = [{"record_id": n, "profiling_name": "nccl:all_reduce"} for n in range(entries)]
    return pickle.dumps({"version": "2.10", "rank": rank, "entries": rows}, 2)


def test_a_flight_recorders_dump_is_taken_whole_where_it_is_small(node: Node) -> None:
    small, large = dump(0, 10), dump(1, 50_000)
    (node.folder / "trace_0").write_bytes(small)
    (node.folder / "trace_1").write_bytes(large)
    node.configure(FIRSTFAULT_FLIGHT_RECORDER=f"{node.folder}/trace_*", FIRSTFAULT_MASK_SECRETS="1")
    node.end_job()

    node.collect()

    (record,) = node.records()
    files = {Path(f.name).name: f for f in record.files if f.what == "flight-recorder"}
    assert pickle.loads(file_of(record, "trace_0")) == pickle.loads(small)
    assert files["trace_0"].complete and not files["trace_1"].complete
    assert files["trace_1"].size == len(large)
    assert file_of(record, "trace_1") == large[: 64 << 10]
    assert reason_of(record, "trace_1") == "limit"


@pytest.mark.parametrize(
    "words",
    ["Finished writing Flight Recorder debug info to", "Finished writing NCCLPG debug info to"],
)
def test_a_dump_that_a_log_tells_of_is_found(node: Node, words: str) -> None:
    trace = node.folder / "my traces_3"
    trace = node.folder / "fr/of_rank_3"
    trace.parent.mkdir()
    trace.write_bytes(dump(3, 2))
    (node.folder / "slurm-12.out").write_text(
        f"[rank3]:[E1130 12:00:00.000000000 FlightRecorder.cpp:84] {words} {trace}\n"
    )
    node.end_job()

    node.collect()

    assert names(node, "flight-recorder") == ["of_rank_3"]


def test_many_dumps_leave_room_for_the_logs(node: Node) -> None:
    for rank in range(100):
        (node.folder / f"trace_{rank}").write_bytes(dump(rank, 20_000))
    (node.folder / "slurm-12.out").write_text("ValueError: x\n" * 50)
    node.configure(FIRSTFAULT_FLIGHT_RECORDER=f"{node.folder}/trace_*")
    node.end_job()

    node.collect()

    assert file_of(node.records()[0], "slurm-12.out") == b"ValueError: x\n" * 50
    assert len(names(node, "flight-recorder")) == joblogs.DUMPS_MAX
    assert len(node.raw_records()[0]) < 600_000


def read_as(node: Path, *, first: bool, shared: bool) -> list[dict[str, Any]]:
    frames: list[dict[str, Any]] = []
    plan = joblogs.Plan(
        job="12",
        uid=os.geteuid(),
        started_at_s=time.time() - 60,
        start_known=True,
        ended_at_s=time.time(),
        outputs=(("output", (patterns.Path([*str(node).strip("/").split("/"), "out"]),)),),
        rank_logs=(),
        anchors=anchors.read(),
        seconds=10,
        reads_shared=first,
        is_shared=lambda device: shared,
    )
    joblogs.read_all(plan, frames.append)
    return frames


@pytest.mark.parametrize(
    ("first", "shared", "read"),
    [(True, True, True), (False, False, True), (False, True, False)],
)
def test_what_all_nodes_see_is_read_by_the_first_ones(
    tmp_path: Path, first: bool, shared: bool, read: bool
) -> None:
    run = tmp_path / "elsewhere/none_x/attempt_0/3"
    run.mkdir(parents=True)
    (run / "error.json").write_text("{}")
    mention = f"error_file: {run}/error.json\n"
    (tmp_path / "out").write_text("a\n" * 500_000 + mention + "b\n" * 1000)

    frames = read_as(tmp_path, first=first, shared=shared)

    outputs = [f for f in frames if f["kind"] == "file" and f["what"] == "job-output"]
    reasons = [f["reason"] for f in frames if f["kind"] == "coverage"]
    assert bool(outputs) is read
    assert ("other-node" in reasons) is not read
    mentioned = [f for f in frames if f["kind"] == "file" and f["what"] == "error-json"]
    # On a shared file system that is another node's folder, whoever reads.
    assert bool(mentioned) is (first or not shared)
