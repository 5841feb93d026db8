"""The kernel log in every form in which it is kept.

Lines built from the format strings of the kernel's mm/oom_kill.c, mm/memcontrol.c and
arch/x86/kernel/traps.c, and of NVIDIA's driver, with invented names and numbers.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest

from firstfault.model.document import Clock
from firstfault.model.event import OomKill, Trap, Xid
from firstfault.readers.cgroups import slurm_cgroup
from firstfault.readers.kernel import kernel_events, kernel_line_text
from firstfault.readers.times import Zone
from tests.readers.logs import ZONE, document

UTC = dt.UTC
CLOCK = Clock(kernel_offset_s=1_780_000_000.0, uncertainty_s=0.001, utc_offset_s=0)
GROUP = "/slurm_n4/uid_1001/job_12/step_0/task_0"
INVOKED = "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
USAGE = "memory: usage 1810000kB, limit 1810432kB, failcnt 77"
CHOSEN = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    f"oom_memcg=/slurm_n4/uid_1001/job_12,task_memcg={GROUP},task=pt_elastic,pid=11744,uid=1001"
)
KILLED = (
    "Memory cgroup out of memory: Killed process 11744 (pt_elastic) total-vm:2465072kB, "
    "anon-rss:1719048kB, file-rss:83912kB, shmem-rss:0kB, UID:1001 pgtables:3856kB oom_score_adj:0"
)
SEQUENCE = [INVOKED, "CPU: 1 PID: 11744 Comm: python3", USAGE, CHOSEN, KILLED]


def kmsg(text: str, number: int = 0) -> str:
    return f"6,{500 + number},{1629472548 + number},-;{text}"


def plain(text: str, number: int = 0) -> str:
    return f"[ 1629.47{2500 + number:04d}] {text}"


def raw_level(text: str, number: int = 0) -> str:
    return f"<4>[ 1629.47{2500 + number:04d}] {text}"


def with_caller(text: str, number: int = 0) -> str:
    return f"[ 1629.47{2500 + number:04d}][T11744] {text}"


def wall(text: str, number: int = 0) -> str:
    return f"[Mon Nov 30 15:56:2{number} 2026] {text}"


def decoded(text: str, number: int = 0) -> str:
    return f"kern  :info  : 2026-11-30T15:56:25,42300{number}+00:00 {text}"


def decoded_boot(text: str, number: int = 0) -> str:
    return f"kern  :err   : [ 1629.47{2500 + number:04d}] {text}"


def iso(text: str, number: int = 0) -> str:
    return f"2026-11-30T15:56:25,42300{number}+00:00 {text}"


def journal(text: str, number: int = 0) -> str:
    return f"Nov 30 15:56:2{number} n4 kernel: {text}"


def journal_precise(text: str, number: int = 0) -> str:
    return f"Nov 30 15:56:25.42300{number} n4 kernel: {text}"


def syslog(text: str, number: int = 0) -> str:
    return f"Nov 30 15:56:2{number} n4 kernel: [ 1629.472500] {text}"


def journal_iso(text: str, number: int = 0) -> str:
    return f"2026-11-30T15:56:2{number}+0000 n4 kernel: {text}"


def rsyslog_iso(text: str, number: int = 0) -> str:
    return f"2026-11-30T15:56:25.42300{number}+00:00 n4 kernel: [ 1629.472500] {text}"


def rsyslog_priority(text: str, number: int = 0) -> str:
    return f"<4>Nov 30 15:56:2{number} n4 kernel: [ 1629.472500] {text}"


def rfc5424(text: str, number: int = 0) -> str:
    return f"<4>1 2026-11-30T15:56:25.42300{number}Z n4 kernel - - - [ 1629.472500] {text}"


def journal_monotonic(text: str, number: int = 0) -> str:
    return f"[ 1629.47{2500 + number:04d}] n4 kernel: {text}"


def journal_full(text: str, number: int = 0) -> str:
    return f"Mon 2026-11-30 15:56:2{number} UTC n4 kernel: {text}"


def journal_unix(text: str, number: int = 0) -> str:
    return f"1796054185.42300{number} n4 kernel: {text}"


def pstore(text: str, number: int = 0) -> str:
    return f"<4>[ 1629.4{number}] {text}"


def with_delta(text: str, number: int = 0) -> str:
    return f"[ 1629.47{2500 + number:04d} <    0.000010>] {text}"


def wall_with_delta(text: str, number: int = 0) -> str:
    return f"[Mon Nov 30 15:56:2{number} 2026 <    0.000010>] {text}"


def console_server(text: str, number: int = 0) -> str:
    return f"[Mon Nov 30 15:56:2{number} 2026][ 1629.472500] {text}"


def terminal_capture(text: str, number: int = 0) -> str:
    return f"2026-11-30 15:56:2{number}.120 [ 1629.47{2500 + number:04d}] {text}"


def indented(text: str, number: int = 0) -> str:
    return f"    [ 1629.47{2500 + number:04d}] {text}"


def old_iso(text: str, number: int = 0) -> str:
    return f"2026-11-30T15:56:25,42300{number}+0000 {text}"


def decoded_wall(text: str, number: int = 0) -> str:
    return f"kern  :warn  : [Mon Nov 30 15:56:2{number} 2026] {text}"


def grepped(text: str, number: int = 0) -> str:
    return f"messages:{100 + number}:Nov 30 15:56:2{number} n4 kernel: {text}"


def numbered(text: str, number: int = 0) -> str:
    return f"{100 + number}:[ 1629.47{2500 + number:04d}] {text}"


FORMS: list[Callable[..., str]] = [
    grepped,
    numbered,
    rsyslog_priority,
    rfc5424,
    journal_monotonic,
    journal_full,
    journal_unix,
    pstore,
    with_delta,
    wall_with_delta,
    console_server,
    terminal_capture,
    indented,
    old_iso,
    decoded_wall,
    kmsg,
    plain,
    raw_level,
    with_caller,
    wall,
    decoded,
    decoded_boot,
    iso,
    journal,
    journal_precise,
    syslog,
    journal_iso,
    rsyslog_iso,
]


def log(lines: list[str], form: Callable[..., str] = plain) -> str:
    return "".join(form(text, number % 10) + "\n" for number, text in enumerate(lines))


def found(text: str | bytes, host: str | None = None) -> list[OomKill | Trap | Xid]:
    return list(kernel_events(document(text, "dmesg.txt", host=host, clock=CLOCK), ZONE))


def kills(text: str | bytes) -> list[OomKill]:
    return [event for event in found(text) if isinstance(event, OomKill)]


@pytest.mark.parametrize("form", FORMS)
def test_an_oom_kill_is_read_in_every_form_of_the_log(form: Callable[..., str]) -> None:
    (kill,) = kills(log(SEQUENCE, form))

    assert (kill.pid, kill.command, kill.limited, kill.uid) == (11744, "pt_elastic", True, 1001)
    assert (kill.job, kill.step, kill.task, kill.host) == ("12", "0", 0, "n4")
    assert (kill.usage_kb, kill.limit_kb, kill.resident_kb) == (1810000, 1810432, 1719048)
    assert kill.place.text.endswith("oom_score_adj:0")
    assert kill.place.line == 5
    assert kill.at is not None


@pytest.mark.parametrize("form", FORMS)
def test_a_lines_head_is_told_from_its_text(form: Callable[..., str]) -> None:
    assert kernel_line_text(form(INVOKED)) == INVOKED


@pytest.mark.parametrize("text", [INVOKED, "step 0", "", "[12] x", "kernel: x", "user: a: b"])
def test_a_line_without_a_head_is_no_kernel_line(text: str) -> None:
    assert kernel_line_text(text) is None


def test_a_time_since_boot_needs_the_nodes_clock() -> None:
    (kill,) = kills(log(SEQUENCE, kmsg))
    (untimed,) = kernel_events(document(log(SEQUENCE, kmsg)), ZONE)

    assert kill.at is not None
    assert kill.at.earliest is not None
    assert kill.at.latest is not None
    assert kill.at.latest - kill.at.earliest == dt.timedelta(seconds=0.002)
    assert kill.at.earliest < dt.datetime.fromtimestamp(1_780_001_629.472552, UTC) < kill.at.latest
    assert untimed.at is None


def test_wall_clock_times_are_read_in_their_zone() -> None:
    (kill,) = kernel_events(document(log(SEQUENCE, wall)), Zone(3_600, True, 2026))
    (zoned,) = kernel_events(
        document("2026-11-30T15:56:25+0100 n4 kernel: " + KILLED), Zone(0, True, 2026)
    )

    assert kill.at is not None
    assert kill.at.earliest == dt.datetime(2026, 11, 30, 14, 56, 23, tzinfo=UTC)
    assert zoned.at is not None
    assert zoned.at.earliest == dt.datetime(2026, 11, 30, 14, 56, 25, tzinfo=UTC)


def test_a_syslog_time_without_a_year_takes_the_documents() -> None:
    (dated,) = kernel_events(document(log(SEQUENCE, journal)), Zone(0, True, 2024))
    (undated,) = kernel_events(document(log(SEQUENCE, journal)), Zone(0, True, None))

    assert dated.at is not None
    assert dated.at.earliest == dt.datetime(2024, 11, 30, 15, 56, 23, tzinfo=UTC)
    assert undated.at is None


@pytest.mark.parametrize("date", ["Nov 31 15:56:25", "Foo 30 15:56:25", "Nov 30 25:99:99"])
def test_a_date_that_does_not_exist_is_no_time(date: str) -> None:
    (kill,) = kills(f"{date} n4 kernel: {KILLED}\n")

    assert kill.at is None


def test_a_killed_line_alone_tells_the_process_and_the_limit() -> None:
    (kill,) = kills(plain(KILLED))

    assert (kill.pid, kill.limited, kill.uid, kill.resident_kb) == (11744, True, 1001, 1719048)
    assert (kill.job, kill.host) == (None, None)


def test_a_choice_without_its_kill_is_kept() -> None:
    (kill,) = kills(log([INVOKED, USAGE, CHOSEN]))

    assert (kill.pid, kill.limit_kb, kill.place.line) == (11744, 1810432, 3)


def test_two_kills_are_two() -> None:
    text = log([*SEQUENCE, *[each.replace("11744", "11745") for each in SEQUENCE]])

    assert [kill.pid for kill in kills(text)] == [11744, 11745]


def test_a_node_out_of_memory_is_told_from_a_cgroups_limit() -> None:
    text = log(
        [
            INVOKED,
            CHOSEN.replace("CONSTRAINT_MEMCG", "CONSTRAINT_NONE").replace(
                "oom_memcg=/slurm_n4/uid_1001/job_12", "global_oom"
            ),
            KILLED.replace("Memory cgroup out", "Out"),
        ]
    )

    (kill,) = kills(text)

    assert (kill.limited, kill.pid, kill.job, kill.task) == (False, 11744, "12", 0)


def test_a_node_out_of_memory_is_told_by_the_killed_line_alone() -> None:
    (kill,) = kills(plain(KILLED.replace("Memory cgroup out", "Out")))

    assert kill.limited is False


@pytest.mark.parametrize(
    ("where", "limited"), [("Memory cgroup out of memory", True), ("Out of memory", False)]
)
def test_old_kernels_say_one_kill_in_two_lines(where: str, limited: bool) -> None:
    text = log(
        [
            INVOKED,
            "Task in /slurm/uid_1001/job_12/step_0/task_1 killed as a result of limit of /slurm/uid_1001/job_12",
            USAGE,
            f"{where}: Kill process 11744 (python) score 998 or sacrifice child",
            "Killed process 11744 (python), UID 1001, total-vm:2465072kB, anon-rss:1719048kB, file-rss:0kB, shmem-rss:0kB",
        ]
    )

    (kill,) = kills(text)

    assert (kill.pid, kill.command, kill.limited) == (11744, "python", limited)
    assert (kill.job, kill.step, kill.task) == ("12", "0", 1)
    assert (kill.limit_kb, kill.resident_kb) == (1810432, 1719048)
    assert kill.place.line == 5


def test_old_kernels_may_kill_a_child_instead() -> None:
    text = log(
        [
            INVOKED,
            "Memory cgroup out of memory: Kill process 11744 (python) score 998 or sacrifice child",
            "Killed process 11799 (python) total-vm:2465072kB, anon-rss:1719048kB, file-rss:0kB",
        ]
    )

    (kill,) = kills(text)

    assert (kill.pid, kill.limited) == (11799, True)


def test_an_old_kernels_kill_without_its_second_line_is_kept() -> None:
    (kill,) = kills(
        log([INVOKED, "Out of memory: Kill process 9 (a b) score 1 or sacrifice child"])
    )

    assert (kill.pid, kill.command, kill.limited) == (9, "a b", False)


@pytest.mark.parametrize("name", ["a) b (c", "x, y", "pid=1,uid=2", "task=z"])
def test_a_process_may_have_any_name(name: str) -> None:
    (kill,) = kills(log([INVOKED, CHOSEN.replace("task=pt_elastic", f"task={name}")]))

    assert kill.pid == 11744
    assert kill.job == "12"


@pytest.mark.parametrize(
    "form",
    [
        "12,500,1629472548,-;{}",
        "<12>[ 1629.472500] {}",
        "user  :info  : 2026-11-30T15:56:25,423000+00:00 {}",
        "user  :notice: [ 1629.472500] {}",
    ],
)
def test_a_line_that_a_program_wrote_kills_nobody(form: str) -> None:
    text = "".join(
        form.format(each) + "\n"
        for each in [*SEQUENCE, "traps: a[1] general protection fault ip:0 sp:0 error:0 in b[0+1]"]
    )

    assert found(text) == []


def test_a_programs_xid_is_kept_as_a_programs() -> None:
    (xid,) = found("12,500,1,-;NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n")

    assert isinstance(xid, Xid)
    assert not xid.by_kernel


@pytest.mark.parametrize(
    ("text", "number", "device", "pid"),
    [
        (
            "NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s",
            119,
            "PCI:0000:9b:00",
            2024380,
        ),
        (
            "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off",
            79,
            "PCI:0000:9b:00",
            None,
        ),
        (
            "NVRM: Xid (PCI:0000:9b:00): 13, pid='77', name=python, Graphics",
            13,
            "PCI:0000:9b:00",
            77,
        ),
        ("NVRM: Xid (0000:9b:00): 31, Ch 0000007e, engmask 00000101", 31, "0000:9b:00", None),
    ],
)
def test_an_xid_names_its_device_and_the_process_that_was_hit(
    text: str, number: int, device: str, pid: int | None
) -> None:
    (xid,) = [event for event in found(plain(text)) if isinstance(event, Xid)]

    assert (xid.number, xid.device, xid.pid, xid.by_kernel) == (number, device, pid, True)


@pytest.mark.parametrize(
    ("text", "kind", "command", "library"),
    [
        (
            "pt_main_thread[2536443]: segfault at 8 ip 00007f sp 00007f error 4 in libnccl.so.2[7f+1]",
            "segfault",
            "pt_main_thread",
            "libnccl.so.2",
        ),
        ("python[2536443]: segfault at 0 ip 0 sp 0 error 4", "segfault", "python", None),
        (
            "traps: python3[2536443] general protection fault ip:7f sp:7f error:0 in libc.so.6[7f+1]",
            "general protection fault",
            "python3",
            "libc.so.6",
        ),
        (
            "traps: python3[2536443] general protection ip:7f sp:7f error:0 in libc-2.17.so[7f+1]",
            "general protection",
            "python3",
            "libc-2.17.so",
        ),
        (
            "traps: python3[2536443] trap invalid opcode ip:7f sp:7f error:0 in x.so[7f+1]",
            "trap invalid opcode",
            "python3",
            "x.so",
        ),
        (
            "traps: python3[2536443] trap divide error ip:7f sp:7f error:0 in x.so[7f+1]",
            "trap divide error",
            "python3",
            "x.so",
        ),
        ("a[1] b[2536443]: segfault at 0 ip 0 sp 0 error 4", "segfault", "a[1] b", None),
    ],
)
@pytest.mark.parametrize("form", [kmsg, plain, journal])
def test_a_fatal_fault_names_the_process_and_the_library(
    form: Callable[..., str], text: str, kind: str, command: str, library: str | None
) -> None:
    (trap,) = found(form(text) + "\n")

    assert isinstance(trap, Trap)
    assert (trap.pid, trap.kind) == (2536443, kind)
    assert (trap.command, trap.library) == (command, library)


@pytest.mark.parametrize(
    ("path", "node", "job", "step", "task"),
    [
        ("/slurm/uid_1001/job_12/step_0/task_3", None, "12", "0", 3),
        ("/slurm_n4/uid_1001/job_12/step_0/task_3", "n4", "12", "0", 3),
        ("/slurm_gpu_04/uid_1001/job_12/step_batch", "gpu_04", "12", "batch", None),
        ("/slurm/uid_1001/job_12", None, "12", None, None),
        (
            "/system.slice/slurmstepd.scope/job_12/step_0/user/task_3",
            None,
            "12",
            "0",
            3,
        ),
        ("/system.slice/n4_slurmstepd.scope/job_12/step_0/user/task_3", "n4", "12", "0", 3),
        ("/system.slice/gpu_04_slurmstepd.scope/job_12/step_1/user", "gpu_04", "12", "1", None),
        (
            "/system.slice/slurmstepd.scope/job_12/step_extern/user/task_special",
            None,
            "12",
            "extern",
            None,
        ),
        ("/kube/pod7/system.slice/slurmstepd.scope/job_12/step_0+1/slurm", None, "12", "0", None),
        ("/system.slice/slurmstepd.scope/s0123456789ABC/step_2/user/task_9", None, None, "2", 9),
    ],
)
def test_a_cgroup_path_tells_node_job_step_and_task(
    path: str, node: str | None, job: str | None, step: str | None, task: int | None
) -> None:
    place = slurm_cgroup(path)

    assert place is not None
    assert (place.node, place.job, place.step, place.task) == (node, job, step, task)


@pytest.mark.parametrize("path", ["/", "/user.slice/user-1001.slice", "/docker/abc", "/slurm/x"])
def test_other_cgroups_are_not_slurms(path: str) -> None:
    assert slurm_cgroup(path) is None


def test_the_journals_host_is_the_lines_and_localhost_is_none() -> None:
    (named,) = found(journal(KILLED), host="n9")
    (local,) = found(journal(KILLED).replace(" n4 ", " localhost "), host="n9")
    (nobody,) = found(journal(KILLED).replace(" n4 ", " localhost "))

    assert (named.host, local.host, nobody.host) == ("n4", "n9", None)


def test_colours_nul_bytes_and_broken_utf8_hide_nothing() -> None:
    text = f"\x00\x1b[32m[ 1629.472500] \x1b[0m\x1b[31m{KILLED}\x1b[0m\r\n".encode() + b"\xff\xfe\n"

    assert [kill.pid for kill in kills(text)] == [11744]


def test_a_logs_other_lines_are_no_events() -> None:
    text = log(
        [
            "usb 1-1: new high-speed USB device",
            "python3 (123) used greatest stack depth: 1 bytes left",
            "Memory cgroup stats for /slurm: anon 1",
        ]
    )

    assert found(text) == []
