"""scontrol show job, scontrol show node and seff.

The records are of a real Slurm 22.05.8, with other names and numbers; seff's is built from
contribs/seff/seff of 24.11.
"""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.model.slurm import ExitCode
from firstfault.readers.kind import Kind, kind
from firstfault.readers.scontrol import node_notes, parse_jobs, parse_seff
from tests.readers.logs import document

JOB = """\
JobId=4242 JobName=loop
   UserId=eve(1001) GroupId=eve(1001) MCS_label=N/A
   Priority=4294901735 Nice=0 Account=(null) QOS=normal
   JobState=NODE_FAIL Reason=NodeDown Dependency=(null)
   Requeue=0 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=137:0
   RunTime=00:00:32 TimeLimit=1-00:05:00 TimeMin=N/A
   SubmitTime=2026-11-30T22:01:35 EligibleTime=2026-11-30T22:01:35
   AccrueTime=2026-11-30T22:01:35
   StartTime=2026-11-30T22:01:36 EndTime=2026-11-30T22:02:08 Deadline=N/A
   PreemptEligibleTime=2026-11-30T22:01:36 PreemptTime=None
   Partition=main AllocNode:Sid=login1:10193
   ReqNodeList=n[3-4] ExcNodeList=(null)
   NodeList=n[3-4]
   BatchHost=n3
   NumNodes=2 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   Command=/home/eve/loop.sh
   WorkDir=/home/eve
   StdErr=/home/eve/loop.out
   StdIn=/dev/null
   StdOut=/home/eve/loop.out
   Power=

"""
NODE = """\
NodeName=n4 Arch=x86_64 CoresPerSocket=1
   CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=2.05
   NodeAddr=127.0.0.1 NodeHostName=n4 Port=28319 Version=22.05.8
   RealMemory=5000 AllocMem=0 FreeMem=5185 Sockets=2 Boards=1
   State=DOWN+NOT_RESPONDING ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=main
   Reason=Not responding [slurm@2026-11-30T22:02:08]

NodeName=n5 Arch=x86_64 CoresPerSocket=1
   CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=2.05
   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
"""
SEFF = """\
Job ID: 4242
Array Job ID: 4200_7
Cluster: alpha
User/Group: eve/lab
State: CANCELLED by 1001 (exit code 1)
Nodes: 2
Cores per node: 8
CPU Utilized: 00:10:00
CPU Efficiency: 12.50% of 01:20:00 core-walltime
Job Wall-clock time: 00:10:00
Memory Utilized: 7.80 GB
Memory Efficiency: 97.50% of 8.00 GB
"""


def test_a_jobs_record_is_read() -> None:
    (job,) = parse_jobs(JOB)

    assert (job.id, job.raw_id, job.user, job.uid, job.partition) == (
        "4242",
        "4242",
        "eve",
        1001,
        "main",
    )
    assert (job.state, job.reason, job.nodes, job.work_dir) == (
        "NODE_FAIL",
        "NodeDown",
        "n[3-4]",
        "/home/eve",
    )
    assert (job.exit_code, job.restarts, job.time_limit_s) == (ExitCode(137, 0), 2, 86_700)
    assert job.ended_at == dt.datetime(2026, 11, 30, 22, 2, 8, tzinfo=dt.UTC)


def test_one_line_a_record_says_the_same() -> None:
    line = " ".join(JOB.split())

    assert parse_jobs(f"{line}\n{line}\n") == parse_jobs(JOB + JOB)


def test_an_array_task_has_both_its_ids() -> None:
    (job,) = parse_jobs(JOB.replace("JobId=4242 ", "JobId=4242 ArrayJobId=4200 ArrayTaskId=7 "))

    assert (job.id, job.raw_id) == ("4200_7", "4242")


def test_a_state_that_hides_the_end_is_none() -> None:
    (job,) = parse_jobs(JOB.replace("NODE_FAIL", "COMPLETING"))

    assert job.state is None


def test_a_jobs_name_sets_no_field() -> None:
    (job,) = parse_jobs(JOB.replace("JobName=loop", "JobName=a JobState=COMPLETED ExitCode=0:0"))

    assert (job.state, job.exit_code) == ("NODE_FAIL", ExitCode(137, 0))


def test_times_are_of_who_asked() -> None:
    (job,) = parse_jobs(JOB, utc_offset_s=3600)

    assert job.ended_at == dt.datetime(2026, 11, 30, 21, 2, 8, tzinfo=dt.UTC)


def test_a_node_that_is_down_is_told_with_its_reason() -> None:
    (note,) = node_notes(document(NODE))

    assert (note.kind, note.node, note.reason) == ("node-down", "n4", "Not responding")


def test_seff_is_read() -> None:
    (job,) = parse_seff(SEFF)

    assert (job.id, job.raw_id, job.cluster, job.user) == ("4200_7", "4242", "alpha", "eve")
    assert (job.state, job.by_uid, job.exit_code) == ("CANCELLED", 1001, ExitCode(1, 0))


def test_seffs_zero_exit_code_tells_nothing() -> None:
    (job,) = parse_seff(
        SEFF.replace("CANCELLED by 1001 (exit code 1)", "OUT_OF_MEMORY (exit code 0)")
    )

    assert (job.state, job.exit_code) == ("OUT_OF_MEMORY", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (JOB, Kind.SCONTROL_JOB),
        (" ".join(JOB.split()) + "\n", Kind.SCONTROL_JOB),
        (NODE, Kind.SCONTROL_NODE),
        (SEFF, Kind.SEFF),
        ("JobId=4242 started\nState: FAILED\n", Kind.OUTPUT),
        ("NodeName=n4 is slow\n", Kind.OUTPUT),
    ],
)
def test_they_are_told_from_their_content(text: str, expected: Kind) -> None:
    assert kind(document(text)) is expected


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_jobs(f"JobId=1 JobName={text}")
    parse_jobs(JOB[:120] + text)
    parse_seff(SEFF[:60] + text)
    list(node_notes(document(NODE[:40] + text)))
