"""What an owner is shown names no process but their own: two users on one node."""

from __future__ import annotations

import re

import msgspec
import pytest

from firstfault.model import verdict as v
from firstfault.report import text
from firstfault.report.discretion import ANOTHER, for_owner, without_others
from tests.diagnosis.case_files import explain, files

OTHERS = [
    "Out of memory: Killed process 3120 (payroll) total-vm:367320448kB, anon-rss:1kB, UID:27 pg",
    "Out of memory: Kill process 3120 (payroll) score 97 or sacrifice child",
    "Killed process 3120, UID 27, (payroll) total-vm:1kB, anon-rss:1kB",
    "Memory cgroup out of memory: Killed process 3120 (a (payroll) b) total-vm:1kB, UID:27",
    "oom_reaper: reaped process 3120 (payroll), now anon-rss:0kB",
    "payroll invoked oom-killer: gfp_mask=0x140cca, order=0, oom_score_adj=0",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg="
    "/slurm/uid_27/job_99,task_memcg=/slurm/uid_27/job_99/step_0,task=payroll,pid=3120,uid=27",
    "Task in /slurm/uid_27/job_99 killed as a result of limit of /slurm/uid_27/job_99",
    "payroll[3120]: segfault at 0 ip 00007f sp 00007f error 4 in libc.so.6[7f0000+1000]",
    "traps: payroll[3120] general protection fault ip:7f sp:7f error:0 in libc.so.6",
    "traps: payroll[3120] trap invalid opcode ip:7f sp:7f error:0 in x",
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=3120, name=payroll, Ch 0000000c, MMU Fault",
    "NVRM: Xid (PCI:0000:3b:00): 31, pid='3120', name=payroll, Ch 0000000c, MMU Fault",
    "INFO: task payroll:3120 blocked for more than 120 seconds.",
    "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [payroll:3120]",
    "CPU: 21 PID: 3120 Comm: payroll Not tainted 5.14.0 #1",
    "[   3120]    27  3120 91830112 31822011 262881280       0             0 payroll",
]


@pytest.mark.parametrize("line", OTHERS)
@pytest.mark.parametrize("head", ["", "[Mon Nov 30 14:18:25 2026] ", "kern  :err   : [  12.5] "])
def test_a_line_about_another_process_names_it_no_more(head: str, line: str) -> None:
    said = without_others(head + line, {6201}, "7")

    assert ANOTHER in said
    assert not re.search(r"payroll|3120|\b27\b|uid_|job_99", said)
    assert said.startswith(head)


@pytest.mark.parametrize("line", [each for each in OTHERS if "3120" in each])
def test_a_line_about_an_own_process_stays_as_it_is(line: str) -> None:
    assert without_others(line, {3120}, "7") == line


def test_a_line_about_the_jobs_own_cgroup_stays_as_it_is() -> None:
    line = "Task in /slurm/uid_27/job_99/step_0 killed as a result of limit of /slurm/uid_27/job_99"

    assert without_others(line, (), "99") == line
    assert ANOTHER in without_others(line, (), "9")


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off",
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 to 0x1",
        "mlx5_core 0000:5e:00.0 ib0: Link down",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0",
        "LustreError: 11-0: lustre-OST0001: operation ost_read failed: rc = -5",
        "nfs: server home not responding, still trying",
    ],
)
def test_a_line_about_no_process_stays_as_it_is(line: str) -> None:
    assert without_others(line, (), "7") == line


def test_the_kill_of_another_users_process_is_told_without_its_name() -> None:
    verdict = explain(files("made-host-oom-of-others"))
    assert "mariadbd" in v.encode(verdict).decode()

    shown = for_owner(verdict)

    for said in (v.encode(shown).decode(), text.render(shown)):
        assert "mariadbd" not in said and "UID:27" not in said
    assert "Out of memory: " in shown.unexplained[0].text
    assert shown.cause == verdict.cause


@pytest.mark.parametrize("name", ["made-host-oom", "oom-4n", "s113-torchrun-oom"])
def test_an_owner_sees_what_killed_their_own_ranks(name: str) -> None:
    verdict = explain(files(name))

    assert for_owner(verdict).evidence == verdict.evidence


def test_what_is_less_than_sure_is_not_quoted_by_name() -> None:
    verdict = explain(files("made-host-oom"))
    unsure = msgspec.structs.replace(
        verdict,
        cause=msgspec.structs.replace(verdict.cause, confidence=v.POSSIBLE),
        initiator=v.Initiator(),
        memory=None,
    )

    assert "(python3)" not in for_owner(unsure).evidence[0].text
