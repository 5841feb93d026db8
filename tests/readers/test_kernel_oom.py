"""The lines of one OOM kill, of all kernels, joined.

Lines built from the format strings of mm/oom_kill.c and mm/memcontrol.c, of earlyoom's kill.c and of
systemd's oomd-manager.c, with invented names and numbers.
"""

from __future__ import annotations

import pytest

from firstfault.model.event import HeldTogether, Holder, OomKill
from firstfault.readers.cgroups import limit_of
from firstfault.readers.kernel import kernel_events
from tests.readers.logs import ZONE, document
from tests.readers.test_kernel import CHOSEN, INVOKED, KILLED, log

V2 = "/system.slice/slurmstepd.scope/job_12/step_0/user/task_1"
POD = (
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_0000_4000_8000_00000000ab"
    "cd.slice/cri-containerd-0123456789abcdef.scope"
)
TABLES = {
    "2.6.32": "[ pid ]   uid  tgid total_vm      rss cpu oom_adj oom_score_adj name|0 1 0",
    "3.10": "[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name|29 0 0",
    "4.4": "[ pid ]   uid  tgid total_vm      rss nr_ptes nr_pmds swapents oom_score_adj name|29 5 0 0",
    "4.16": "[ pid ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name|4096 0 0",
    "5.10": "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name|4096 0 -5",
    "6.18": "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes "
    "swapents oom_score_adj name|90 5 0 4096 0 0",
}


def kills(*texts: str) -> list[OomKill]:
    events = kernel_events(document(log(list(texts)), "dmesg.txt"), ZONE)
    return [event for event in events if isinstance(event, OomKill)]


def program(name: str, text: str) -> OomKill:
    """A program's line in a journal beside the kernel's."""
    lines = f"Nov 30 15:56:25 n4 kernel: x\nNov 30 15:56:25 n4 {name}[812]: {text}\n"
    (kill,) = kernel_events(document(lines), ZONE)
    assert isinstance(kill, OomKill)
    return kill


@pytest.mark.parametrize("kernel", TABLES)
def test_the_table_of_tasks_tells_who_held_what_in_every_generation(kernel: str) -> None:
    columns, rest = TABLES[kernel].split("|")
    rows = [
        f"[{pid:5d}]  1001 {pid:5d}   616268 {rss:8d} {rest} {name}"
        for pid, rss, name in [
            (700, 100, "sleep"),
            (11744, 429762, "pt_elastic"),
            (701, 900, "a b"),
        ]
    ]
    (kill,) = kills(INVOKED, columns, *rows, CHOSEN, KILLED)

    assert kill.holders == (
        Holder(11744, "pt_elastic", 429762 * 4),
        Holder(701, "a b", 3600),
        Holder(700, "sleep", 400),
    )


def test_the_kills_own_line_tells_how_large_a_page_is() -> None:
    columns = "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name"
    row = f"[  11744]  1001 11744   616268 {(1719048 + 83912) // 64:8d} 4096 0 0 pt_elastic"
    (kill,) = kills(INVOKED, columns, row, CHOSEN, KILLED)

    assert abs(kill.holders[0].resident_kb - 1719048 - 83912) < 64


def test_a_limit_on_memory_and_swap_is_told_from_one_on_memory() -> None:
    (kill,) = kills(
        INVOKED,
        "memory: usage 700000kB, limit 900000kB, failcnt 0",
        "memory+swap: usage 950000kB, limit 950000kB, failcnt 31",
        CHOSEN,
        KILLED,
    )
    (plain,) = kills(
        INVOKED,
        "memory: usage 900000kB, limit 900000kB, failcnt 3",
        "memory+swap: usage 900000kB, limit 9007199254740988kB, failcnt 0",
        CHOSEN,
        KILLED,
    )

    assert (kill.swap, kill.usage_kb, kill.limit_kb) == (True, 950000, 950000)
    assert (plain.swap, plain.limit_kb) == (False, 900000)


@pytest.mark.parametrize("constraint", ["CPUSET", "MEMORY_POLICY", "NONE"])
def test_a_lack_of_memory_on_allowed_nodes_is_the_nodes(constraint: str) -> None:
    chosen = CHOSEN.replace("CONSTRAINT_MEMCG", f"CONSTRAINT_{constraint}")
    (kill,) = kills(INVOKED, chosen.replace("oom_memcg=/slurm_n4/uid_1001/job_12", "global_oom"))

    assert (kill.limited, kill.limit_cgroup, kill.job) == (False, None, "12")


def test_the_cgroup_that_was_full_is_told_from_the_victims() -> None:
    chosen = CHOSEN.replace("oom_memcg=/slurm_n4/uid_1001/job_12", "oom_memcg=/slurm_n4")
    (kill,) = kills(INVOKED, chosen, KILLED)

    assert kill.limit_cgroup == "/slurm_n4"
    assert kill.cgroup == "/slurm_n4/uid_1001/job_12/step_0/task_0"


@pytest.mark.parametrize(
    ("path", "level"),
    [
        (V2, "task"),
        ("/slurm/uid_1001/job_12/step_0", "step"),
        ("/slurm/uid_1001/job_12", "job"),
        (POD, "pod"),
        ("/kubepods/besteffort/pod0a1b/0123456789ab", "pod"),
        ("/docker/0123456789ab", "container"),
        ("/system.slice/docker-0123456789abcdef.scope", "container"),
        ("/machine.slice/libpod-0123456789abcdef.scope", "container"),
        ("/user.slice/user-1001.slice/session-3.scope", "user"),
        ("/slurm_n4", "group"),
        ("/", "group"),
    ],
)
def test_a_limit_is_of_the_innermost_level_that_its_path_names(path: str, level: str) -> None:
    assert limit_of(path) == level


def test_all_victims_of_a_group_are_of_its_cgroup() -> None:
    other = KILLED.replace("11744", "11750")
    last = "Killed process 11751 (python3) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:0kB"
    group = f"Tasks in {V2} are going to be killed due to memory.oom.group set"
    found = kills(
        INVOKED, "memory: usage 9kB, limit 9kB, failcnt 1", CHOSEN, KILLED, group, other, last
    )

    assert [kill.pid for kill in found] == [11744, 11750, 11751]
    assert {kill.job for kill in found} == {"12"}
    assert {(kill.limited, kill.limit_kb) for kill in found} == {(True, 9)}


@pytest.mark.parametrize(
    "line",
    [
        "oom_reaper: reaped process 11744 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
        "oom_reaper: unable to reap pid:11744 (python3)",
    ],
)
def test_a_reaped_process_was_killed_though_the_kills_lines_are_lost(line: str) -> None:
    (lost,) = kills(line)
    whole = kills(INVOKED, CHOSEN, KILLED, line)

    assert (lost.pid, lost.command, lost.limited) == (11744, "python3", None)
    assert len(whole) == 1


def test_a_child_killed_in_its_parents_place_is_of_the_same_job() -> None:
    (kill,) = kills(
        INVOKED,
        CHOSEN,
        "Memory cgroup out of memory: Kill process 11744 (pt_elastic) score 998 or sacrifice child",
        "Killed process 11799 (python3) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:0kB",
    )

    assert (kill.pid, kill.limited, kill.job) == (11799, True, "12")


def test_an_allocating_task_may_be_the_victim() -> None:
    (kill,) = kills("Out of memory (oom_kill_allocating_task): Killed process 9 (x) total-vm:9kB, ")

    assert (kill.pid, kill.limited) == (9, False)


@pytest.mark.parametrize(
    ("text", "uid"),
    [
        ('sending SIGTERM to process 700 "python3": badness 812, VmRSS 4100 MiB', None),
        ('sending SIGTERM to process 700 uid 1001 "python3": badness 812, VmRSS 4100 MiB', 1001),
        (
            'sending SIGKILL to process 700 uid 1001 "python3": oom_score 812, VmRSS 4100 MiB, '
            'cmdline "python3 loop.py"',
            1001,
        ),
    ],
)
def test_earlyoom_kills_for_the_nodes_sake(text: str, uid: int | None) -> None:
    kill = program("earlyoom", text)

    assert (kill.pid, kill.command, kill.uid, kill.host) == (700, "python3", uid, "n4")
    assert (kill.limited, kill.killer, kill.resident_kb) == (False, "earlyoom", 4100 * 1024)


def test_systemd_oomd_kills_a_cgroup_whole() -> None:
    kill = program(
        "systemd-oomd",
        f"Killed {V2} due to memory pressure for /system.slice being 91.20% > 60.00% for > 30s with "
        "reclaim activity",
    )

    assert (kill.pid, kill.killer, kill.limited) == (0, "systemd-oomd", False)
    assert (kill.job, kill.step, kill.task) == ("12", "0", 1)


def test_another_program_may_not_speak_for_them() -> None:
    lines = (
        "Nov 30 15:56:25 n4 kernel: x\n"
        'Nov 30 15:56:25 n4 app[812]: sending SIGKILL to process 700 "python3": badness 1, VmRSS 1 MiB\n'
    )

    assert list(kernel_events(document(lines), ZONE)) == []


def test_processes_of_other_users_are_only_summed() -> None:
    columns = "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name"
    rows = [
        f"[{pid:7d}] {uid:5d} {pid:5d}   616268 {pages:8d} 4096 0 0 {name}"
        for pid, uid, pages, name in [
            (11744, 1001, 400_000, "python3"),
            (800, 27, 900_000, "mysqld"),
            (801, 0, 100, "slurmstepd"),
            *((12000 + k, 1001, 10 + k, "loader") for k in range(8)),
        ]
    ]
    (kill,) = kills(INVOKED, columns, *rows, CHOSEN, KILLED)

    assert [each.command for each in kill.holders] == ["python3", "slurmstepd", *["loader"] * 3]
    assert kill.own == HeldTogether(10, (400_100 + sum(range(10, 18))) * 4)
    assert kill.others == HeldTogether(1, 900_000 * 4)


def test_a_kill_at_the_head_of_a_log_that_begins_within_it_is_torn() -> None:
    killed = "Memory cgroup out of memory: Killed process 71 (python) anon-rss:4kB, UID:1001"
    (head,) = kills(killed)
    later = kills("a invoked oom-killer: gfp_mask=0x1, order=0, oom_score_adj=0", killed, killed)

    assert head.torn
    assert [each.torn for each in later] == [False, False]
