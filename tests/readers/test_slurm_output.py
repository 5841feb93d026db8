"""srun's, slurmstepd's and the shell's lines, in the wordings of Slurm 22.05 to 26.05.

Built from the format strings in src/srun/launch.c, src/slurmd/slurmstepd/req.c and
src/plugins/task/cgroup/task_cgroup_memory.c of these releases, with invented names.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from firstfault.model.event import (
    Cancelled,
    NodeFailure,
    OomNoticed,
    ShellKill,
    StepEnded,
    TaskEnd,
)
from firstfault.readers.slurm_output import SlurmReader, slurm_events, step_id, stepd_node
from tests.readers.logs import ZONE, line


def found(text: str) -> list[Any]:
    return list(slurm_events(line(text), ZONE))


@pytest.mark.parametrize(
    ("said", "kind", "number"),
    [
        ("Exited with exit code 1", "exit", 1),
        ("Exited with exit code 137", "exit", 137),
        ("Out Of Memory", "oom", None),
        ("Killed", "signal", 9),
        ("Terminated", "signal", 15),
        ("Segmentation fault (core dumped)", "signal", 11),
        ("Segmentation fault", "signal", 11),
        ("Aborted (core dumped)", "signal", 6),
        ("Bus error", "signal", 7),
        ("Floating point exception", "signal", 8),
        ("Illegal instruction", "signal", 4),
        ("User defined signal 1", "signal", 10),
    ],
)
def test_srun_says_how_a_task_ended(said: str, kind: str, number: int | None) -> None:
    (end,) = found(f"srun: error: gpu-07: task 3: {said}")

    assert isinstance(end, TaskEnd)
    assert (end.host, end.tasks, end.kind, end.number) == ("gpu-07", (3,), kind, number)


@pytest.mark.parametrize(
    ("tasks", "numbers"),
    [
        ("task 3", (3,)),
        ("tasks 0-3", (0, 1, 2, 3)),
        ("tasks 0-1,7", (0, 1, 7)),
        ("tasks [0-1,7]", (0, 1, 7)),
        ("tasks 5,5-6", (5, 5, 6)),
    ],
)
def test_tasks_may_be_ranges(tasks: str, numbers: tuple[int, ...]) -> None:
    (end,) = found(f"srun: error: n1: {tasks}: Killed")

    assert end.tasks == numbers


@pytest.mark.parametrize(
    "tasks",
    ["0-9999999", ",".join(["0-9999999"] * 1_000), "9" * 9_000, "-", "7-3", "3-9" * 500],
)
def test_ranges_that_no_step_has_take_no_memory(tasks: str) -> None:
    assert (
        sum(len(each.tasks) for each in found(f"srun: error: n1: tasks {tasks}: Killed"))
        <= 1_000_000
    )


def test_two_messages_on_one_line_are_two() -> None:
    ends = found(
        "srun: error: n1: task 0: Killedsrun: error: n2: tasks 2-3: Exited with exit code 1"
    )

    assert [(end.host, end.tasks, end.kind) for end in ends] == [
        ("n1", (0,), "signal"),
        ("n2", (2, 3), "exit"),
    ]


def test_two_cancellations_on_one_line_are_two() -> None:
    text = (
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-03-25T10:34:07 DUE TO TIME LIMIT ***"
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-25T10:34:07 DUE TO TIME LIMIT ***"
    )

    assert [(each.job, each.step) for each in found(text)] == [("7", "0"), ("7", None)]


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("", None),
        (" DUE TO TIME LIMIT", "time-limit"),
        (" DUE TO PREEMPTION", "preemption"),
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "node-failure"),
        (" DUE TO JOB REQUEUE", "requeue"),
        (" DUE TO TASK FAILURE", "task-failure"),
        (" DUE to SIGNAL Killed", "signal"),
    ],
)
@pytest.mark.parametrize(
    "head",
    ["slurmstepd: error: ", "slurmstepd-n1: error: ", "[2026-03-25T10:34:07.530] error: "],
)
def test_a_cancellation_says_what_where_when_and_why(
    head: str, why: str, reason: str | None
) -> None:
    (end,) = found(f"{head}*** STEP 4242.0 ON n1 CANCELLED AT 2026-03-25T10:34:07{why} ***")

    assert isinstance(end, Cancelled)
    assert (end.job, end.step, end.host, end.reason) == ("4242", "0", "n1", reason)
    assert end.at is not None
    assert end.at.earliest == dt.datetime(2026, 3, 25, 10, 34, 7, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("entity", "job", "step"),
    [
        ("JOB 4242", "4242", None),
        ("STEP 4242.batch", "4242", "batch"),
        ("STEP 4242.extern", "4242", "extern"),
        ("STEP 4242+1.0", "4242+1", "0"),
    ],
)
def test_jobs_and_steps_are_cancelled(entity: str, job: str, step: str | None) -> None:
    (end,) = found(f"slurmstepd: error: *** {entity} ON n1 CANCELLED AT 2026-03-25T10:34:07 ***")

    assert (end.job, end.step) == (job, step)


@pytest.mark.parametrize(
    "text",
    [
        "slurmstepd-n4: error: Detected 1 oom-kill event(s) in StepId=12.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.",
        "slurmstepd-n4: error: Detected 3 oom-kill event(s) in StepId=12.0. Some of your processes may have been killed by the cgroup out-of-memory handler.",
        "slurmstepd-n4: error: Detected 1 oom_kill event in StepId=12.0. Some of the step tasks have been OOM Killed.",
        "slurmstepd-n4: error: Detected 2 oom_kill events in StepId=12.0. Some of the step tasks have been OOM Killed.",
        "slurmstepd-n4: error: Detected 1 oom-kill event(s) in step 12.0 cgroup.",
    ],
)
def test_an_oom_kill_is_noticed_in_every_wording(text: str) -> None:
    (event,) = found(text)

    assert isinstance(event, OomNoticed)
    assert (event.job, event.step, event.host) == ("12", "0", "n4")


def test_an_oom_kill_without_a_nodes_name_has_no_host() -> None:
    (event,) = found(
        "[2026-03-25T10:34:07.530] error: Detected 1 oom_kill event in StepId=12.batch. x"
    )

    assert (event.job, event.step, event.host) == ("12", "batch", None)


@pytest.mark.parametrize(
    "text",
    [
        "srun: error: Node failure on gpu-07",
        "srun: error: Node failure on gpu-07srun: error: n1: x",
    ],
)
def test_srun_names_a_node_that_failed(text: str) -> None:
    (event,) = found(text)

    assert isinstance(event, NodeFailure)
    assert event.host == "gpu-07"


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("srun: Terminating StepId=12.0", "0"),
        ("srun: launch/slurm: _step_signal: Terminating StepId=12.0", "0"),
        ("srun: Terminating job step 12.0", "0"),
        ("srun: Force Terminated StepId=12.1", "1"),
    ],
)
def test_srun_says_that_it_ends_the_step(text: str, step: str) -> None:
    (event,) = found(text)

    assert isinstance(event, StepEnded)
    assert event.step == step


@pytest.mark.parametrize(
    ("text", "pid", "signal"),
    [
        (
            "/var/spool/slurmd/job00012/slurm_script: line 46: 2113061 Killed                  python3 train.py",
            2113061,
            9,
        ),
        ("bash: line 1:  4711 Segmentation fault      (core dumped) python3 train.py", 4711, 11),
        ("/bin/sh: line 3: 9 Aborted                 ./run", 9, 6),
    ],
)
def test_a_shell_says_which_child_died(text: str, pid: int, signal: int) -> None:
    (event,) = found(text)

    assert isinstance(event, ShellKill)
    assert (event.pid, event.signal) == (pid, signal)


@pytest.mark.parametrize(
    "text",
    [
        "srun: job 12 queued and waiting for resources",
        "slurmstepd: error: pyxis: importing docker image",
        "StepId=7.0 hit memory limit at least once during execution. This may or may not result in some failure.",
        "Node failure on a",
        "*** note ***",
    ],
)
def test_other_lines_are_no_events(text: str) -> None:
    assert found(text) == []


def test_a_node_is_named_where_several_slurmd_share_a_host() -> None:
    assert stepd_node("slurmstepd-n4: error: x") == "n4"
    assert stepd_node("slurmstepd: error: x") is None
    assert stepd_node("said: slurmstepd-n4: error: x") is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("12.0", ("12", "0")),
        ("12.0.", ("12", "0")),
        ("12.batch", ("12", "batch")),
        ("12", ("12", None)),
        ("", (None, None)),
    ],
)
def test_a_step_id_has_a_job_and_a_step(text: str, parts: tuple[str | None, str | None]) -> None:
    assert step_id(text) == parts


@pytest.mark.parametrize(
    ("said", "job", "step", "host", "timed"),
    [
        ("*** JOB 42 CANCELLED AT 2026-11-30T12:00:00 DUE TO TIME LIMIT ***", "42", None, None, 1),
        (
            "*** STEP 42.1 CANCELLED AT 2026-11-30T12:00:00 DUE TO TIME LIMIT ***",
            "42",
            "1",
            None,
            1,
        ),
        ("*** JOB 42 ON gpu-07 CANCELLED DUE TO TIME LIMIT ***", "42", None, "gpu-07", 0),
    ],
)
def test_a_cancellation_may_lack_its_node_or_its_time(
    said: str, job: str, step: str | None, host: str | None, timed: int
) -> None:
    (end,) = found(f"slurmstepd: error: {said}")

    assert isinstance(end, Cancelled)
    assert (end.job, end.step, end.host, end.reason) == (job, step, host, "time-limit")
    assert (end.at is not None) == bool(timed)


def test_a_cancellation_without_time_needs_a_reason() -> None:
    assert found("slurmstepd: error: *** JOB 42 ON gpu-07 CANCELLED ***") == []


@pytest.mark.parametrize(
    "parts",
    [
        (
            "slurmstepd: error: *** JOB 42 ON gpu-07 CANCELLED AT 2026-11-30T12:00:00",
            "DUE TO TIME LIMIT ***",
        ),
        (
            "   slurmstepd: error: *** STEP 42.0 ON gpu-07 ",
            "   CANCELLED AT 2026-11-30T12:00:00 DUE TO TIME LIMIT ***",
        ),
        ("*** JOB 42 ON gpu-07 CANCELLED AT 2026-11-30T12:00:00 DUE TO TIME", "LIMIT ***"),
    ],
)
def test_a_cancellation_may_be_broken_over_two_lines(parts: tuple[str, str]) -> None:
    reader = SlurmReader()
    events = [each for part in parts for each in reader.feed(line(part), ZONE)]

    (end,) = events
    assert isinstance(end, Cancelled)
    assert (end.host, end.reason) == ("gpu-07", "time-limit")


def test_half_a_cancellation_is_none() -> None:
    reader = SlurmReader()
    half = "slurmstepd: error: *** JOB 42 ON gpu-07 CANCELLED AT 2026-11-30T12:00:00"
    events = [
        each
        for part in (half, "epoch 3", "DUE TO TIME LIMIT ***")
        for each in reader.feed(line(part), ZONE)
    ]

    assert events == []


def test_salloc_speaks_as_srun_does() -> None:
    (failed,) = found("salloc: error: Node failure on gpu-07")
    (ended,) = found(
        "salloc: Job 42 has exceeded its time limit and its allocation has been revoked."
    )

    assert isinstance(failed, NodeFailure)
    assert failed.host == "gpu-07"
    assert isinstance(ended, Cancelled)
    assert (ended.job, ended.step, ended.reason) == ("42", None, "time-limit")


def test_srun_tells_that_a_whole_job_was_ended() -> None:
    (ended,) = found("srun: Force Terminated job 42")

    assert isinstance(ended, StepEnded)
    assert ended.step is None
