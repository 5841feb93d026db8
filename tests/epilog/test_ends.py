"""What becomes of an end: collected at once, asked about, or let go."""

from __future__ import annotations

import pytest

from firstfault_epilog import ends, kernel, kernel_evidence
from firstfault_epilog.entries import Entry
from firstfault_epilog.moment import Moment
from firstfault_epilog.record import Clock
from firstfault_epilog.settings import Settings
from tests.epilog.node import oom_block

PUSH = Settings(daemon="https://daemon:8766")
QUIET = Moment("boot", Clock(0.0, 0.0, 0.0, 0, None))
LOUD = QUIET._replace(alarmed=True)
ENDED_AT_S = 1_800_000_000.0


def entry(**changes: str | None) -> Entry:
    """The end of a job of two nodes that looks like success."""
    values: dict[str, str | None] = {
        "SLURM_JOB_ID": "12",
        "SLURMD_NODENAME": "n3",
        "SLURM_JOB_EXIT_CODE": "0",
        "SLURM_JOB_EXIT_CODE2": "0:0",
        "SLURM_JOB_DERIVED_EC": "0",
        "SLURM_JOB_START_TIME": str(int(ENDED_AT_S) - 60),
        "SLURM_JOB_NODELIST": "n[3-4]",
    } | changes
    given = {k.encode(): v.encode() for k, v in values.items() if v is not None}
    return Entry(given, ENDED_AT_S, "x-1")


ALONE = {"SLURM_JOB_NODELIST": "n3"}


@pytest.mark.parametrize(
    ("changes", "moment", "what"),
    [
        ({}, QUIET, ends.ASK),
        ({}, LOUD, ends.COLLECT),
        ({"SLURM_JOB_EXIT_CODE": "256"}, QUIET, ends.COLLECT),
        ({"SLURM_JOB_EXIT_CODE": "9"}, QUIET, ends.COLLECT),
        # A step failed, the batch script hid it.
        ({"SLURM_JOB_DERIVED_EC": "253"}, QUIET, ends.COLLECT),
        ({"SLURM_JOB_EXIT_CODE": None}, QUIET, ends.COLLECT),
        ({"SLURM_JOB_EXIT_CODE": "what"}, QUIET, ends.COLLECT),
        (ALONE, QUIET, ends.LET_GO),
        (ALONE, LOUD, ends.COLLECT),
        (ALONE | {"SLURM_JOB_START_TIME": str(int(ENDED_AT_S) - 601)}, QUIET, ends.ASK),
        # Slurm 22.05 does not tell the node.
        (ALONE | {"SLURM_JOB_START_TIME": None}, QUIET, ends.ASK),
        # A clock that is wrong is no proof that the job was short.
        (ALONE | {"SLURM_JOB_START_TIME": str(int(ENDED_AT_S) + 60)}, QUIET, ends.ASK),
        (ALONE | {"SLURM_JOB_NUM_NODES": "2"}, QUIET, ends.ASK),
        (ALONE | {"SLURM_HET_JOB_ID": "11"}, QUIET, ends.ASK),
        ({"SLURM_JOB_NODELIST": "n3,n7"}, QUIET, ends.ASK),
        ({"SLURM_JOB_NODELIST": None, "SLURM_NODELIST": "n3"}, QUIET, ends.LET_GO),
        ({"SLURM_JOB_NODELIST": "n[3"}, QUIET, ends.ASK),
        ({"SLURM_JOB_NODELIST": None}, QUIET, ends.ASK),
    ],
)
def test_what_becomes_of_an_end_follows_from_codes_kernel_size_and_length(
    changes: dict[str, str | None], moment: Moment, what: str
) -> None:
    assert ends.fate(entry(**changes), moment, PUSH).what == what


def test_where_nobody_can_be_asked_every_end_is_collected() -> None:
    assert ends.fate(entry(**ALONE), QUIET, Settings()).what == ends.COLLECT


SEGFAULT = "6,900,900,-;python3[77]: segfault at 0 ip 0000 sp 0000 error 4 in libc.so.6\n"
REAPED = "6,950,950,-;oom_reaper: reaped process 77 (python3), now anon-rss:0kB\n"
GROUP = (
    "6,951,951,-;Tasks in /slurm_n3/uid_1/job_13 are going to be killed due to "
    "memory.oom.group set\n"
    "3,952,952,-;Memory cgroup out of memory: Killed process 78 (python3) total-vm:1kB\n"
)
# Linux 4.18 (CentOS 8) has no line of "oom-kill:".
OLD = (
    "4,1,1,-;python3 invoked oom-killer: gfp_mask=0x0, order=0, oom_score_adj=0\n"
    "6,2,2,-;Task in /slurm/uid_1/job_13/step_0 killed as a result of limit of /slurm/uid_1/job_13\n"
    "3,3,3,-;Memory cgroup out of memory: Kill process 77 (python3) score 9 or sacrifice child\n"
    "3,4,4,-;Killed process 77 (python3) total-vm:1kB, anon-rss:1kB\n"
)
HOST = oom_block(13, 77, 1, 1).replace("CONSTRAINT_MEMCG", "CONSTRAINT_NONE")


@pytest.mark.parametrize(
    ("text", "alarming"),
    [
        ("", False),
        ("6,1,1,-;eth0: renamed from veth1\n", False),
        (oom_block(12, 77, 1, 1), True),
        (oom_block(12, 77, 1, 1) + REAPED, True),
        (oom_block(13, 77, 1, 1), False),
        (oom_block(13, 77, 1, 1) + REAPED + GROUP, False),
        (oom_block(13, 77, 1, 1) + oom_block(12, 78, 100, 100), True),
        (oom_block(13, 77, 1, 1) + SEGFAULT, True),
        ("6,1,1,-;mlx5_core 0000:5e:00.0 ib0: Link up\n", False),
        ("6,1,1,-;Lustre: home-MDT0000: Connection restored to 10.0.0.1@o2ib\n", False),
        ("3,1,1,-;NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off the bus.\n", True),
        (OLD, False),
        (OLD.replace("job_13", "job_12"), True),
        # The node had no memory left, whoever was killed for it.
        (HOST, True),
        # Whose memory it was stood in a line that is gone.
        (REAPED, True),
    ],
)
def test_what_another_jobs_memory_limit_made_the_kernel_do_is_no_fault_of_this_job(
    text: str, alarming: bool
) -> None:
    assert kernel_evidence.alarms(kernel.parse(text.encode()), ("12",)) is alarming
