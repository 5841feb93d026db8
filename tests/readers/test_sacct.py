"""sacct's tables and JSON, of real clusters and as hostile users make them."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from firstfault.model.slurm import ExitCode, JobFacts
from firstfault.readers import sacct

FOLDER = Path(__file__).parent / "sacct"
RECORDED = ("oom-4n", "hang_all_timelimit", "scancel", "success")


def text(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text("utf-8")


def one(content: str) -> JobFacts:
    (facts,) = sacct.parse_text(content)
    return facts


def test_a_recorded_failure_is_read_with_its_steps() -> None:
    facts = one(text("oom-4n"))

    assert (facts.id, facts.name, facts.user, facts.state) == ("12", "oom-4n", "alice", "FAILED")
    assert facts.exit_code == facts.derived_exit_code == ExitCode(1, 0)
    assert facts.nodes == "n[1-4]"
    assert facts.time_limit_s == 180
    assert facts.started_at == dt.datetime(2026, 11, 30, 15, 56, 7, tzinfo=dt.UTC)
    assert facts.ended_at == dt.datetime(2026, 11, 30, 15, 56, 29, tzinfo=dt.UTC)
    assert facts.work_dir == "/home/alice/train"
    assert facts.reason is None
    assert [(step.id, step.state) for step in facts.steps] == [
        ("batch", "FAILED"),
        ("extern", "COMPLETED"),
        ("0", "FAILED"),
    ]
    assert facts.steps[2].name == "torchrun"


def test_who_cancelled_is_split_off_the_state() -> None:
    facts = one(text("scancel"))

    assert (facts.state, facts.by_uid) == ("CANCELLED", 1001)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_text_looks_like_sacct(name: str) -> None:
    assert sacct.looks_like_text(text(name)[:300])


@pytest.mark.parametrize(
    "other",
    [
        "",
        "hello | world\n",
        "JobID=12 JobName=x\n",
        "the JobID|of the job was lost\n",
        "JobId=12 JobName=x\n   UserId=alice(1001)\n",
        "[ 12.5] Memory cgroup out of memory: Killed process 12\n",
    ],
)
def test_other_text_does_not(other: str) -> None:
    assert not sacct.looks_like_text(other)
    assert sacct.parse_text(other) == []


def test_the_aligned_table_is_read_with_its_cut_states() -> None:
    first, second = sacct.parse_text("$ sacct\n" + text("aligned"))

    assert (first.name, first.partition, first.exit_code) == ("oom-4n", "main", ExitCode(1, 0))
    assert first.steps[2].state == "OUT_OF_MEMORY"
    assert first.steps[2].exit_code == ExitCode(0, 125)
    assert (second.state, second.by_uid) == ("CANCELLED", None)


def test_a_trailing_delimiter_is_no_column() -> None:
    facts = one("JobID|State|JobName|\n7|FAILED|a|b|\n")

    assert facts.name == "a|b"


def test_every_incarnation_is_one_job_with_its_own_steps() -> None:
    rows = [
        "JobID|State|End",
        "7|REQUEUED|2026-11-30T15:00:00",
        "7.0|FAILED|2026-11-30T15:00:00",
        "7|RUNNING|Unknown",
        "7.0|RUNNING|Unknown",
    ]

    first, second = sacct.parse_text("\n".join(rows))

    assert [step.state for step in first.steps] == ["FAILED"]
    assert [step.state for step in second.steps] == ["RUNNING"]
    assert second.ended_at is None


def test_a_job_name_with_delimiter_and_newline_stays_one_name() -> None:
    header = "JobID|State|JobName"

    facts = one(f"{header}\n7|FAILED|a|b\nsecond line\n")

    assert facts.name == "a|b\nsecond line"


def test_a_job_name_cannot_forge_a_row_past_an_unknown_delimiter() -> None:
    delimiter = "\x1f0123456789abcdef\x1f"
    rows = [("JobID", "JobIDRaw", "State", "JobName"), ("7", "7", "FAILED", "x\n8|8|COMPLETED|y")]
    content = "\n".join(delimiter.join(row) for row in rows) + "\n"

    facts = one(content)

    assert (facts.id, facts.state) == ("7", "FAILED")
    assert facts.name == "x\n8|8|COMPLETED|y"


def test_an_array_task_and_a_component_keep_their_ids() -> None:
    header = "JobID|JobIDRaw|State"

    jobs = sacct.parse_text(
        f"{header}\n123_4|130|FAILED\n123_4.batch|130.batch|FAILED\n9+1|10|FAILED"
    )

    assert [(job.id, job.raw_id) for job in jobs] == [("123_4", "130"), ("9+1", "10")]
    assert jobs[0].steps[0].id == "batch"


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [("1-00:00:30", 86430), ("00:01:00", 60), ("UNLIMITED", None), ("Partition_Limit", None)],
)
def test_a_time_limit_is_in_seconds(limit: str, seconds: int | None) -> None:
    assert one(f"JobID|Timelimit\n7|{limit}").time_limit_s == seconds


def test_local_times_get_the_offset_that_the_caller_gives() -> None:
    (facts,) = sacct.parse_text("JobID|End\n7|2026-11-30T16:00:00", utc_offset_s=3600)

    assert facts.ended_at == dt.datetime(2026, 11, 30, 15, tzinfo=dt.UTC)


def test_times_as_seconds_and_with_a_zone_are_read() -> None:
    facts = one("JobID|Start|End\n7|1796054167|2026-11-30T16:56:29+0100")

    assert facts.started_at == dt.datetime(2026, 11, 30, 15, 56, 7, tzinfo=dt.UTC)
    assert facts.ended_at == dt.datetime(2026, 11, 30, 15, 56, 29, tzinfo=dt.UTC)


@pytest.mark.parametrize("name", ["oom-4n", "scancel", "success"])
def test_json_and_text_of_one_job_agree_where_both_tell(name: str) -> None:
    data = (FOLDER / f"{name}.json").read_bytes()

    assert sacct.looks_like_json(data[:2048])
    (from_json,) = sacct.parse_json(data)
    from_text = one(text(name))
    for field in ("id", "name", "state", "nodes", "started_at", "ended_at", "time_limit_s"):
        assert getattr(from_json, field) == getattr(from_text, field)
    assert [(s.id, s.name, s.state, s.nodes, s.ended_at) for s in from_json.steps] == [
        (s.id, s.name, s.state, s.nodes, s.ended_at) for s in from_text.steps
    ]


def test_the_old_json_is_not_believed_that_a_failure_exited_with_zero() -> None:
    (failed,) = sacct.parse_json((FOLDER / "oom-4n.json").read_bytes())
    (fine,) = sacct.parse_json((FOLDER / "success.json").read_bytes())

    assert failed.exit_code is None
    assert {step.id: step.exit_code for step in failed.steps}["extern"] == ExitCode(0, 0)
    assert fine.exit_code == ExitCode(0, 0)


def test_the_new_json_is_read() -> None:
    (facts,) = sacct.parse_json((FOLDER / "array-task-v0.0.43.json").read_bytes())

    assert (facts.id, facts.raw_id, facts.state) == ("120_3", "130", "FAILED")
    assert facts.exit_code == ExitCode(137, 0)
    assert facts.derived_exit_code == ExitCode(0, 9)
    assert facts.time_limit_s == 3600
    assert facts.steps[0].id == "batch"
    assert facts.steps[0].ended_at == facts.ended_at


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"jobs": 3}', b'{"jobs": "x"}', b"[" * 50000])
def test_what_is_not_saccts_json_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="not the output of sacct"):
        sacct.parse_json(data)


def test_jobs_of_a_strange_shape_are_left_out() -> None:
    data = b'{"jobs": [3, {"job_id": 5, "steps": 7, "time": [], "state": null, "exit_code": "x"}]}'

    (facts,) = sacct.parse_json(data)

    assert facts.id == "5"
    assert facts.state is None


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=2", 4),
        ("cpu=8,gres/gpu:a100=4,gres/gpu:h100=2,node=2", 6),
        ("cpu=8,gres/gpu=0,node=2", 0),
        ("cpu=8,mem=64G,node=2", None),
        ("", None),
        ("gres/gpu=four,gres/gpumem=80,gres/shard=9", None),
    ],
)
def test_gpus_are_counted_where_slurm_accounts_for_them(tres: str, gpus: int | None) -> None:
    (facts,) = sacct.parse_text(f"JobID|State|AllocTRES\n7|FAILED|{tres}\n")

    assert facts.gpus == gpus


def test_json_tells_gpus_as_the_text_does() -> None:
    def told(*tres: tuple[str, str, int]) -> int | None:
        allocated = [{"type": t, "name": n, "id": 1, "count": c} for t, n, c in tres]
        job = {"job_id": 7, "tres": {"allocated": allocated}}
        (facts,) = sacct.parse_json(json.dumps({"jobs": [job]}).encode())
        return facts.gpus

    assert told(("cpu", "", 8), ("gres", "gpu", 4), ("gres", "gpu:a100", 4)) == 4
    assert told(("gres", "gpu:a100", 4), ("gres", "gpu:h100", 2)) == 6
    assert told(("cpu", "", 8)) is None
