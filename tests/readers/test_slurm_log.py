"""slurmctld's and slurmd's logs.

Lines as a real Slurm 22.05.8 wrote them (other names and numbers), or built from the format
strings of src/slurmctld/job_mgr.c, ping_nodes.c, src/slurmd/slurmd/req.c of 20.11 to 26.05.
"""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.model.event import SlurmNote
from firstfault.readers.kind import Kind, kind
from firstfault.readers.slurm_log import looks_like_slurm_log, slurm_notes
from tests.readers.logs import ZONE, document

CONTROLLER = """\
[2026-11-30T22:00:55.381] _slurm_rpc_submit_batch_job: JobId=4242 InitPrio=4294901759 usec=540
[2026-11-30T22:00:58.306] sched: Allocate JobId=4242 NodeList=n[3-4] #CPUs=2 Partition=main
[2026-11-30T22:01:21.147] preempted JobId=4240 has been killed to reclaim resources for JobId=4242
[2026-11-30T22:02:08.210] requeue job JobId=4241 due to failure of node n2
[2026-11-30T22:02:08.211] Killing JobId=4242 on failed node n4
[2026-11-30T22:02:08.211] error: Nodes n[2,4] not responding, setting DOWN
"""
DAEMON = """\
[2026-11-30T22:00:58.372] Launching batch job 4242 for UID 1001
[2026-11-30T22:00:58.447] launch task StepId=4242.0 request from UID:1001 GID:1001 HOST:127.0.0.1 PORT:57758
[2026-11-30T22:00:59.452] [4242.0] task 0 (17402) exited. Killed by signal 9.
[2026-11-30T22:00:59.453] [4242.0] error: Detected 1 oom-kill event(s) in StepId=4242.0. Some of your processes may have been killed by the cgroup out-of-memory handler.
[2026-11-30T22:00:59.500] [4242.batch] task 0 (17294) exited with exit code 1.
"""


def notes(text: str, host: str | None = None) -> list[SlurmNote]:
    return list(slurm_notes(document(text, host=host), ZONE))


def one(message: str) -> SlurmNote:
    (found,) = notes(f"[2026-11-30T22:00:58.238] {message}\n")
    return found


def test_a_controllers_log_tells_of_jobs_and_nodes() -> None:
    found = [(note.kind, note.job, note.node) for note in notes(CONTROLLER)]

    assert found == [
        ("preempted", "4240", None),
        ("node-failure", "4241", "n2"),
        ("node-failure", "4242", "n4"),
        ("node-down", None, "n2"),
        ("node-down", None, "n4"),
    ]


def test_a_daemons_log_tells_of_its_own_node() -> None:
    found = [
        (note.kind, note.job, note.step, note.node, note.number) for note in notes(DAEMON, "n3")
    ]

    assert found == [
        ("signal", "4242", "0", "n3", 9),
        ("oom", "4242", "0", "n3", None),
        ("exit", "4242", "batch", "n3", 1),
    ]


def test_a_note_has_its_time() -> None:
    at = one("Time limit exhausted for JobId=12").at

    assert at is not None
    assert at.earliest == dt.datetime(2026, 11, 30, 22, 0, 58, 238000, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("message", "told", "job", "number"),
    [
        ("Time limit exhausted for JobId=12", "time-limit", "12", None),
        ("_job_complete: JobId=12 WEXITSTATUS 2", "exit", "12", 2),
        ("_job_complete: JobId=10_2(12) WEXITSTATUS 2", "exit", "12", 2),
        ("_job_complete: JobId=12 WTERMSIG 9", "signal", "12", 9),
        ("_job_complete: JobId=12 WTERMSIG 53", "launch", "12", 53),
        ("_job_complete: JobId=12 OOM failure", "oom", "12", None),
        ("_job_complete: JobId=12 cancelled by interactive user", "cancelled", "12", None),
        ("_job_complete: JobId=12 cancelled by node failure", "node-failure", "12", None),
        ("_job_complete: requeue JobId=12 due to node failure", "node-failure", "12", None),
        ("Killing JobId=12 on DOWN node n4", "node-failure", "12", None),
        ("Removing failed node n3 from JobId=12", "node-failure", "12", None),
        ("preempted JobId=12 has been requeued", "preempted", "12", None),
        ("slurm_job_preempt: preempted JobId=12 had to be killed", "preempted", "12", None),
        ("Prolog launch failure, JobId=12", "prolog", "12", None),
        ("error: prolog_slurmctld JobId=12 prolog exit status 1:0", "prolog", "12", None),
        ("error: [job 12] prolog failed status=1:0", "prolog", "12", None),
        ("error: Could not launch job 12 and not able to requeue it, cancelling job", "launch", "12", None),
        ("Killing non-startable batch JobId=12: Invalid user id", "launch", "12", None),
        ("Job 12 exceeded memory limit (900>800), cancelling it", "memory-poll", "12", None),
        ("[12.0] error: StepId=12.0 exceeded memory limit (900 > 800), being killed", "memory-poll", "12", None),
        ("[12.batch] error: *** JOB 12 ON n3 CANCELLED AT 2026-11-30T22:02:08 DUE TO TIME LIMIT ***", "time-limit", "12", None),
        ("[12.0] error: *** STEP 12.0 ON n3 CANCELLED AT 2026-11-30T22:02:08 DUE TO PREEMPTION ***", "preempted", "12", None),
        ("[12.batch] error: *** JOB 12 ON n3 CANCELLED AT 2026-11-30T22:02:08 ***", "cancelled", "12", None),
        ("[12.batch] error: Could not open stdout file /x/y.out: No such file or directory", "launch", "12", None),
        ("[12.0] error: execve(): torchrunn: No such file or directory", "launch", "12", None),
        ("[12.0] error: spank: required plugin spank_pyxis.so: init_post_opt() failed with rc=-1", "launch", "12", None),
    ],
)  # fmt: skip
def test_each_kind_of_note(message: str, told: str, job: str, number: int | None) -> None:
    note = one(message)

    assert (note.kind, note.job, note.number) == (told, job, number)


def test_who_asked_for_a_kill_is_named() -> None:
    assert one("_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=12 uid 1001").by_uid == 1001


@pytest.mark.parametrize(
    "message",
    [
        "_job_complete: JobId=12 done",
        "[12.0] error: *** STEP 12.0 ON n3 CANCELLED AT 2026-11-30T22:02:08 ***",
        "error: Nodes n3 not responding",
        "[12.0] error: Failed to send MESSAGE_TASK_EXIT: Connection refused",
        "prolog_slurmctld JobId=12 prolog exit status 0:0",
        "debug:  _slurm_rpc_node_registration complete for n3 usec=10",
    ],
)
def test_other_lines_are_no_notes(message: str) -> None:
    assert notes(f"[2026-11-30T22:00:58.238] {message}\n") == []


@pytest.mark.parametrize("text", [CONTROLLER, DAEMON, f"slurmctld: {CONTROLLER[26:100]}"])
def test_a_daemons_log_is_told_from_its_content(text: str) -> None:
    assert looks_like_slurm_log(text)
    assert kind(document(text)) is Kind.SLURM_LOG


@pytest.mark.parametrize(
    "text",
    [
        "[2026-11-30T22:00:58.238] error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-30T22:00:58 ***\n",
        "[2026-11-30T22:00:58.238] error: Detected 1 oom_kill event in StepId=12.0. Some of the step tasks have been OOM Killed.\n",
        "[2026-11-30T22:00:58.238] step 10 loss 0.3\n" * 30,
        CONTROLLER + "step 10 loss 0.3\n" * 30,
        "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-30T22:00:58 ***\n",
        "",
    ],
)
def test_a_jobs_output_is_no_daemons_log(text: str) -> None:
    assert not looks_like_slurm_log(text)


def test_a_log_is_read_under_every_head() -> None:
    message = "Time limit exhausted for JobId=12"
    heads = [
        "[2026-11-30T22:00:58] ",
        "[2026-11-30T22:00:58.238+01:00] ",
        "slurmctld: ",
        "Nov 30 22:00:58 ctl1 slurmctld[812]: ",
        "2026-11-30T22:00:58.1+00:00 ctl1 slurmctld[812]: error: ",
    ]

    assert [len(notes(f"{head}{message}\n")) for head in heads] == [1] * len(heads)


@given(st.text(max_size=400))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for head in ("", "[2026-11-30T22:00:58.238] ", "[2026-11-30T22:00:58.238] [12.0] error: "):
        notes(head + text)
        looks_like_slurm_log(head + text)
