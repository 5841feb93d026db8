"""The kernel log: this machine's own, and what stands in for it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault.signatures import signatures
from firstfault_epilog import kernel, kernel_evidence, moment
from tests.epilog.node import Node, file_of

CGROUPS = Path("/sys/fs/cgroup")


def own_log_works() -> bool:
    return os.geteuid() == 0 and os.access(kernel.DEVICE, os.R_OK | os.W_OK)


needs_kmsg = pytest.mark.skipif(not own_log_works(), reason="needs root and /dev/kmsg")


def lines(*texts: str, prefix: int = 6) -> tuple[kernel.Line, ...]:
    raw = "".join(f"{prefix},{n},{n * 1000},-;{text}\n" for n, text in enumerate(texts))
    return kernel.parse(raw.encode())


def selected(*texts: str) -> list[str]:
    selection = kernel_evidence.select(lines(*texts))
    data = b"".join(excerpt.data for excerpt in selection.excerpts)
    return [line.partition(";")[2] for line in data.decode().splitlines()]


@needs_kmsg
def test_the_clock_is_found_by_writing_a_marker_and_reading_it_back() -> None:
    clock = kernel.calibrate(kernel.DEVICE, None, time.time())

    assert clock.method == "kmsg-marker"
    assert clock.uncertainty_s < 0.1
    assert clock.kernel_offset_s is not None
    rough = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    assert abs(clock.kernel_offset_s - rough) < 60


@needs_kmsg
def test_a_line_written_now_is_read_at_the_time_it_was_written() -> None:
    clock = kernel.calibrate(kernel.DEVICE, None, time.time())
    token = f"firstfault-test {os.urandom(6).hex()}"
    written_at = time.time()
    Path(kernel.DEVICE).write_bytes(b"<12>" + token.encode() + b"\n")

    log = kernel.read(kernel.DEVICE)

    (line,) = [line for line in log.lines if line.text == token.encode()]
    assert clock.kernel_offset_s is not None
    assert abs(line.microseconds / 1e6 + clock.kernel_offset_s - written_at) < 0.1
    assert line.prefix == 12


def test_a_log_that_lost_its_beginning_says_from_when_it_is_whole() -> None:
    first = kernel.parse(b"6,912,5000000,-;eth0: link up\n")
    log = kernel.Log(kernel.DEVICE, 30, first, ())

    row = moment.overwritten(log, 1_800_000_000.0, 1_800_000_001.0)

    assert row is not None
    assert (row.state, row.since) == ("partial", "2027-01-15T08:00:05.000000Z")


def test_a_log_that_begins_at_boot_or_before_the_job_lost_nothing() -> None:
    from_boot = kernel.Log(kernel.DEVICE, 30, kernel.parse(b"6,0,5000000,-;Linux\n"), ())
    wrapped = kernel.Log(kernel.DEVICE, 30, kernel.parse(b"6,912,5000000,-;eth0\n"), ())

    assert moment.overwritten(from_boot, 1_800_000_000.0, 1_800_000_001.0) is None
    assert moment.overwritten(wrapped, 1_800_000_000.0, 1_800_000_099.0) is None


def test_the_markers_themselves_are_no_evidence() -> None:
    marker = kernel.MARKER.decode() + "00ff segfault at 0"

    assert kernel_evidence.in_window(lines(marker), None, 0, 1) == []


def test_a_device_that_cannot_be_read_is_said_with_the_reason(tmp_path: Path) -> None:
    log = kernel.read(str(tmp_path / "absent"))

    assert log.lines == ()
    assert [(row.state, row.reason) for row in log.coverage] == [("none", "ENOENT")]


def test_continuation_lines_stay_with_their_record() -> None:
    raw = b"6,1,5,-;segfault at 0\n SUBSYSTEM=acpi\n DEVICE=+acpi:x\n6,2,6,-;other\n"

    (first, second) = kernel.parse(raw)

    assert first.data + second.data == raw
    assert (second.number, second.offset) == (4, raw.index(b"6,2,6"))


def test_lines_that_are_no_records_are_left_out_and_do_not_shift_the_others() -> None:
    raw = b"garbage\r\n\xff\xfe\n6,1,5,-;segfault at 0\n"

    (line,) = kernel.parse(raw)

    assert (line.number, line.offset) == (3, raw.index(b"6,1"))


def test_an_oom_kill_is_kept_from_the_request_to_the_kill() -> None:
    block = [
        "java invoked oom-killer: gfp_mask=0xcc0, order=0",
        "Call Trace:",
        " try_charge_memcg+0x422/0x6f0",
        "Tasks state (memory values in pages):",
        "[  11744]  1001 11744  930016   512101",
        "oom-kill:constraint=CONSTRAINT_MEMCG,task=python3,pid=11744,uid=1001",
        "Memory cgroup out of memory: Killed process 11744 (python3)",
    ]
    reaper = "oom_reaper: reaped process 11744 (python3)"

    assert selected("quiet", *block, "eth0: up", reaper, "quiet")[:7] == block
    assert reaper in selected("quiet", *block, "eth0: up", "eth0: up", reaper)


def test_an_oom_kill_with_ten_thousand_tasks_keeps_its_two_ends() -> None:
    table = [f"[{n:7}]  1001 {n:5}  930016   512101   499839    12262" for n in range(1800)]

    found = selected("a invoked oom-killer: x", *table, "Out of memory: Killed process 1 (a)")

    assert found[0] == "a invoked oom-killer: x"
    assert found[-1] == "Out of memory: Killed process 1 (a)"
    assert len(found) < 400


@pytest.mark.parametrize(
    "text",
    [
        "pt_main_thread[2536443]: segfault at 8 ip 0000 sp 0000 error 4 in libnccl.so.2[1+2]",
        "traps: python3[12] trap invalid opcode ip:55 sp:7f error:0 in libc.so.6[1+2]",
        "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off",
        "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up",
        "mce: [Hardware Error]: CPU 15: Machine Check Exception: 5 Bank 6: bb80",
        "INFO: task python:280058 blocked for more than 120 seconds.",
        "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python3:123]",
        "Kernel panic - not syncing: Fatal machine check",
        "blk_update_request: I/O error, dev nvme0n1, sector 0",
        "EXT4-fs error (device sda1): ext4_find_entry:1455",
        "nfs: server filer not responding, still trying",
        "LustreError: 11-0: lustre-OST0001-osc: operation ost_write failed with -110",
        "Out of memory: Kill process 12 (python) score 9 or sacrifice child",
    ],
)
def test_a_kernel_line_that_tells_of_a_fault_is_kept(text: str) -> None:
    assert text in selected("usb 1-1: new device", text, "eth0: renamed")


def test_the_code_line_after_a_segfault_is_kept() -> None:
    segfault = "python3[1]: segfault at 0 ip 00 sp 00 error 4 in libc.so.6[1+2]"

    assert selected(segfault, "Code: fe 7f 5c", "a", "b")[:2] == [segfault, "Code: fe 7f 5c"]


def test_a_quiet_kernel_log_adds_nothing() -> None:
    assert selected("usb 1-1: new device", "systemd[1]: Started x", "eth0: link up") == []


def test_a_flood_keeps_the_first_faults_and_the_last(node: Node) -> None:
    flood = [f"NVRM: Xid (PCI:0000:9b:00): 31, pid={n}, name=x, {'y' * 100}" for n in range(5000)]

    found = selected(*flood)

    assert found[0] == flood[0] and found[-1] == flood[-1]
    assert sum(map(len, found)) <= kernel_evidence.BYTES_MAX


def test_journal_and_dmesg_lines_take_the_form_of_dev_kmsg() -> None:
    journal = (
        b'{"MESSAGE":"segfault at 0","PRIORITY":"6","SYSLOG_FACILITY":"0",'
        b'"_SOURCE_MONOTONIC_TIMESTAMP":"5000001","__MONOTONIC_TIMESTAMP":"5000009"}\n'
        b'{"MESSAGE":[255,254],"PRIORITY":"4","__MONOTONIC_TIMESTAMP":"5000001"}\n'
        b'{"MESSAGE":null}\nnot json\n[]\n'
    )
    dmesg = b"<6>[    5.000001] segfault at 0\n<12>[   77.123456] by a program\nnoise\n"

    of_journal = kernel.parse(b"".join(kernel._journal_lines(journal)))
    of_dmesg = kernel.parse(b"".join(kernel._dmesg_lines(dmesg)))

    assert [(x.prefix, x.microseconds, x.text) for x in of_journal] == [
        (6, 5000001, b"segfault at 0"),
        (4, 5000001, b"\xff\xfe"),
    ]
    assert [(x.prefix, x.microseconds, x.text) for x in of_dmesg] == [
        (6, 5000001, b"segfault at 0"),
        (12, 77123456, b"by a program"),
    ]
    assert of_journal[0].sequence == of_dmesg[0].sequence != of_journal[1].sequence


def test_where_the_device_is_not_there_dmesg_gives_the_same_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not own_log_works() or not os.access("/usr/bin/dmesg", os.X_OK):
        pytest.skip("needs root, /dev/kmsg and dmesg")
    token = f"firstfault-test {os.urandom(6).hex()}"
    Path("/dev/kmsg").write_bytes(b"<12>" + token.encode() + b"\n")
    of_device = kernel.read(kernel.DEVICE)
    monkeypatch.setattr(kernel, "DEVICE", str(tmp_path / "kmsg"))
    monkeypatch.setattr(kernel, "JOURNAL", ("journalctl -k", ("/nonexistent",), ()))

    log = kernel.read(kernel.DEVICE)

    assert log.name == "dmesg --raw"
    (row,) = log.coverage
    assert (row.state, row.reason) == ("partial", "ENOENT")
    assert "dmesg --raw" in (row.detail or "") and "made up" in (row.detail or "")
    (mine,) = [line for line in log.lines if line.text == token.encode()]
    (same,) = [line for line in of_device.lines if line.text == token.encode()]
    assert (mine.prefix, mine.microseconds) == (
        same.prefix,
        same.microseconds,
    ) and mine.prefix == 12
    of_kernel = {(line.prefix, line.microseconds) for line in of_device.lines}
    first, last = of_device.lines[0].microseconds, of_device.lines[-1].microseconds
    shared = [line for line in log.lines if first <= line.microseconds <= last]
    assert {(line.prefix, line.microseconds) for line in shared} <= of_kernel


def fake(path: Path, script: str) -> tuple[str, ...]:
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return (str(path),)


JOURNAL_LINE = (
    '{"MESSAGE":"segfault at 0","PRIORITY":"4","SYSLOG_FACILITY":"0",'
    '"_SOURCE_MONOTONIC_TIMESTAMP":"5000001","__MONOTONIC_TIMESTAMP":"5000009"}'
)


@pytest.mark.parametrize(
    ("journal", "dmesg", "name", "says"),
    [
        (f"echo '{JOURNAL_LINE}'", "exit 1", "journalctl -k", "taken from journalctl -k"),
        (f"echo '{JOURNAL_LINE}'; exec sleep 60", "exit 1", "journalctl -k", "did not end within"),
        ("echo 'No journal files were found.'", "echo '<4>[    5.000001] segfault at 0'",
         "dmesg --raw", "taken from dmesg"),
        ("exit 1", "echo 'Operation not permitted' >&2; exit 1", None, "neither journalctl nor"),
    ],
)  # fmt: skip
def test_what_stands_in_for_the_device_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    journal: str,
    dmesg: str,
    name: str | None,
    says: str,
) -> None:
    """No journald runs where the tests do: programs that print as it does stand in."""
    monkeypatch.setattr(kernel, "DEVICE", str(tmp_path / "kmsg"))
    monkeypatch.setattr(kernel, "FALLBACK_DEADLINE_S", 1.0)
    for each, script in (("JOURNAL", journal), ("DMESG", dmesg)):
        shown, _, arguments = getattr(kernel, each)
        monkeypatch.setattr(kernel, each, (shown, fake(tmp_path / each, script), arguments))

    log = kernel.read(kernel.DEVICE)

    (row,) = log.coverage
    assert (log.name, row.state) == (name or kernel.DEVICE, "partial" if name else "none")
    assert says in (row.detail or "")
    assert [line.text for line in log.lines] == ([b"segfault at 0"] if name else [])
    assert [line.microseconds for line in log.lines] == ([5000001] if name else [])


def test_without_the_right_to_read_the_device_the_reason_is_told(owner: pwd.struct_passwd) -> None:
    if Path(kernel.RESTRICTED).read_text().strip() != "1":
        pytest.skip("kernel.dmesg_restrict is not set here")
    script = "from firstfault_epilog import kernel; print(kernel.read(kernel.DEVICE).coverage[0])"
    folder = Path(tempfile.mkdtemp())
    try:
        shutil.copytree(Path(kernel.__file__).parent, folder / "firstfault_epilog")
        folder.chmod(0o755)
        done = subprocess.run(
            ["/usr/bin/setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}",
             "--clear-groups", "/usr/bin/python3", "-c", script],
            cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
    finally:
        shutil.rmtree(folder)

    assert "state='none', reason='EPERM'" in done.stdout
    assert "kernel.dmesg_restrict is 1" in done.stdout


def test_a_node_that_was_booted_after_the_job_had_started_says_so() -> None:
    log = kernel.Log(kernel.DEVICE, 30, kernel.parse(b"6,0,0,-;Linux version 6.18\n"), ())

    row = moment.rebooted(log, 1_800_000_100.0, 1_800_000_000.0)

    assert row is not None
    assert (row.state, row.reason) == ("partial", "rebooted")
    assert row.since == "2027-01-15T08:01:40.000000Z"
    assert moment.rebooted(log, 1_800_000_000.0, 1_800_000_100.0) is None


@needs_kmsg
def test_a_job_that_started_before_this_boot_has_it_in_its_record(node: Node) -> None:
    node.configure(
        FIRSTFAULT_KERNEL_LOG="/dev/kmsg", FIRSTFAULT_KERNEL_OFFSET_S="", FIRSTFAULT_BOOT_ID=""
    )
    node.end_job(SLURM_JOB_START_TIME="1700000000")
    node.end_job(SLURM_JOB_ID="13", SLURM_JOB_START_TIME=str(int(time.time())))

    node.collect()

    reasons = {
        record.job: {row.reason for row in record.coverage if row.what == "kernel"}
        for record in node.records()
    }
    assert "rebooted" in reasons["12"] and "rebooted" not in reasons["13"]


@needs_kmsg
def test_a_line_that_a_program_wrote_is_marked_by_its_facility(node: Node) -> None:
    """/dev/kmsg takes facility 1 or more from programs: the kernel alone has 0 (prefix < 8)."""
    node.configure(
        FIRSTFAULT_KERNEL_LOG="/dev/kmsg", FIRSTFAULT_KERNEL_OFFSET_S="", FIRSTFAULT_BOOT_ID=""
    )
    token = os.urandom(6).hex()
    Path("/dev/kmsg").write_bytes(f"<3>NVRM: Xid (PCI:0000:9b:00): 79, {token}\n".encode())
    node.end_job(SLURM_JOB_START_TIME=str(int(time.time()) - 1))

    node.collect()

    text = file_of(node.records()[0], ":/dev/kmsg").decode("utf-8", "replace")
    (line,) = [line for line in text.splitlines() if token in line]
    assert int(line.partition(",")[0]) == 8 + 3


@pytest.fixture
def memory_cgroup() -> Iterator[Path]:
    """A group of this test's own with 32 MiB, cgroup v1 or v2."""
    if not own_log_works():
        pytest.skip("needs root and /dev/kmsg")
    v1 = CGROUPS / "memory"
    name = f"uid_0/job_{os.getpid()}"
    parent = (v1 if v1.is_dir() else CGROUPS) / f"firstfault-test-{os.getpid()}"
    folder = parent / name
    try:
        folder.mkdir(parents=True)
        if v1.is_dir():
            (folder / "memory.limit_in_bytes").write_text(str(32 << 20))
        else:
            for above in (CGROUPS, parent, folder.parent):
                (above / "cgroup.subtree_control").write_text("+memory")
            (folder / "memory.max").write_text(str(32 << 20))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    yield folder
    stop_at = time.monotonic() + 5
    for place in (folder, folder.parent, parent):
        while place.exists() and time.monotonic() < stop_at:
            try:
                place.rmdir()
            except OSError:
                time.sleep(0.02)


def test_a_real_oom_kill_is_in_the_record_with_the_time_it_happened(
    node: Node, memory_cgroup: Path
) -> None:
    node.configure(
        FIRSTFAULT_KERNEL_LOG="/dev/kmsg", FIRSTFAULT_KERNEL_OFFSET_S="", FIRSTFAULT_BOOT_ID=""
    )
    hungry = (
        f"open({str(memory_cgroup / 'cgroup.procs')!r}, 'w').write('0')\n"
        "hog = []\nwhile True: hog.append(bytearray(1 << 20))\n"
    )
    before = time.time()
    killed = subprocess.Popen([sys.executable, "-I", "-S", "-c", hungry])
    assert killed.wait(30) == -9
    after = time.time()
    node.end_job(SLURM_JOB_START_TIME=str(int(before)))

    done = node.collect()

    assert (done.returncode, done.stderr) == (0, "")
    (record,) = node.records()
    text = file_of(record, ":/dev/kmsg").decode("utf-8", "replace")
    (kill,) = [line for line in text.splitlines() if f"Killed process {killed.pid} " in line]
    assert f"{memory_cgroup.name}" in text and "invoked oom-killer" in text
    prefix, sequence, microseconds, _ = kill.partition(";")[0].split(",")
    assert int(prefix) < 8 and int(sequence) > 0
    assert record.clock is not None and record.clock.kernel_offset_s is not None
    at = int(microseconds) / 1e6 + record.clock.kernel_offset_s
    assert before - 0.5 <= at <= after + 0.5
    assert record.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


SIGNS = [sample for each in signatures("kernel") for sample in each.signature.samples]


@pytest.mark.parametrize("sample", SIGNS)
def test_what_a_signature_knows_is_kept(sample: str) -> None:
    assert kernel_evidence._FAULT.search(sample.encode())


@pytest.mark.parametrize(
    "line",
    [
        "nfs: server files3 OK",
        "Lustre: work-OST0003-osc: Connection restored to work-OST0003 (at 10.0.0.9@o2ib)",
        "potentially unexpected fatal signal 11.",
        "oom_reaper: reaped process 1 (x), now anon-rss:0kB",
        "python3[700]: unhandled exception: DABT (lower EL), ESR 0x92000006",
        "python3[700]: segfault (11) at 8 nip 7fff lr 7fff code 1",
        "Tasks in /x are going to be killed due to memory.oom.group set",
    ],
)
def test_what_the_readers_look_for_beside_signatures_is_kept(line: str) -> None:
    assert kernel_evidence._FAULT.search(line.encode())
