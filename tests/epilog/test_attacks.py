"""What a job's owner may do to the reader itself, each really done, by a real second user."""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault_epilog import anchors, confined, excerpts, grep, mounts
from tests.epilog.node import Node, file_of, reason_of

SECRET = b"root's alone\n"
DEADLINE_S = 3.0


@pytest.fixture
def work(node: Node, owner: pwd.struct_passwd) -> Path:
    """The job's folder, its owner's."""
    folder = node.folder / "work"
    folder.mkdir()
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    node.configure(FIRSTFAULT_READ_DEADLINE_S=str(DEADLINE_S))
    return folder


def end_job(node: Node, owner: pwd.struct_passwd, work: Path, **changes: str) -> None:
    who = {"SLURM_JOB_UID": str(owner.pw_uid), "SLURM_JOB_GID": str(owner.pw_gid)}
    variables = who | {"SLURM_JOB_USER": owner.pw_name, "SLURM_JOB_WORK_DIR": str(work)} | changes
    assert node.end_job(**variables) == 0


def endless(work: Path) -> None:
    """A log that takes longer to read than the deadline allows."""
    with (work / "slurm-12.out").open("wb") as file:
        file.write(b"first line\n")
        file.truncate(1 << 40)


def processes_of(uid: int) -> list[int]:
    """Those that run or are stopped; one that is not dumpable belongs to root in /proc."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            status = (each / "status").read_text() if each.name.isdigit() else ""
        except OSError:
            continue
        if f"\nUid:\t{uid}\t" in status and "\nState:\tZ" not in status:
            found.append(int(each.name))
    return found


def as_owner(owner: pwd.struct_passwd, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/usr/bin/setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}",
         "--clear-groups", *argv],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip


def collected_while(node: Node, owner: pwd.struct_passwd, attack: object) -> float:
    """Runs the collector with ``attack`` on each process of the owner's; how long it took."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            for pid in processes_of(owner.pw_uid):
                attack(pid)  # type: ignore[operator]
            time.sleep(0.005)

    thread = threading.Thread(target=run)
    before = time.monotonic()
    thread.start()
    try:
        done = node.collect()
    finally:
        stop.set()
        thread.join()
    assert (done.returncode, done.stderr) == (0, "")
    return time.monotonic() - before


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM])
def test_an_owner_who_signals_the_reader_harms_the_own_evidence_alone(
    node: Node, owner: pwd.struct_passwd, work: Path, number: signal.Signals
) -> None:
    endless(work)
    end_job(node, owner, work)

    took = collected_while(
        node, owner, lambda pid: as_owner(owner, "/bin/kill", f"-{number.value}", str(pid))
    )

    assert took < DEADLINE_S + 30
    (record,) = node.records()
    assert any(row.reason == "reader" for row in record.coverage)
    assert node.waiting() == node.waiting("claimed") == node.waiting("quarantine") == []
    assert processes_of(owner.pw_uid) == []


TRACE = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
print("attach", libc.ptrace(16, pid, None, None))
for name in ("mem", "environ", "maps", "fd/3", "root/etc/shadow"):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            print(name, "opened")
    except OSError as error:
        print(name, type(error).__name__)
"""


def test_an_owner_can_neither_trace_the_reader_nor_look_into_it(
    owner: pwd.struct_passwd,
) -> None:
    identity = confined.Identity(owner.pw_uid, owner.pw_gid, (owner.pw_gid,))
    seen: list[str] = []

    def spy() -> None:
        stop_at = time.monotonic() + 5
        while not (found := processes_of(owner.pw_uid)) and time.monotonic() < stop_at:
            time.sleep(0.01)
        time.sleep(0.2)
        done = as_owner(owner, "/usr/bin/python3", "-I", "-c", TRACE, str(found[0]))
        seen.append(done.stdout + done.stderr)

    thread = threading.Thread(target=spy)
    thread.start()

    answer = confined.run(lambda send: time.sleep(2) or send({"kind": "note"}), identity, 10)
    thread.join()

    assert answer.fault is None and len(answer.frames) == 1
    assert seen[0].splitlines()[0] == "attach -1"
    assert "opened" not in seen[0] and seen[0].count("PermissionError") == 5


def test_lines_that_an_owner_puts_into_greps_mouth_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unlike the reader its grep can be traced by the same user, and its pipes written to."""
    liar = tmp_path / "grep"
    liar.write_text(
        "#!/bin/sh\ncat >/dev/null\n"
        "printf '1:99999999999999999999999999:x\\n-1:-5:y\\n3:1234567890123:z\\n::\\n\\0\\n'\n"
        "printf '99999999999999999999:7:CUDA error\\n'\n"
    )
    liar.chmod(0o755)
    monkeypatch.setattr(grep, "PATHS", (str(liar),))
    log = tmp_path / "log"
    log.write_bytes(b"line of a log\n" * 20_000)
    handle = os.open(log, os.O_RDONLY)

    found = excerpts.cut(handle, 280_000, 96 << 10, anchors.read(), time.monotonic() + 5)
    os.close(handle)

    data = log.read_bytes()
    for excerpt in found.excerpts:
        assert data[excerpt.offset : excerpt.offset + len(excerpt.data)] == excerpt.data


def test_a_name_with_newlines_and_escapes_is_read_and_breaks_nothing(
    node: Node, owner: pwd.struct_passwd, work: Path
) -> None:
    name = '\x1b]0;x\x07\n<b>"quoted"\' $(id)`id`\r%s \udcff\u202e.out'
    (work / name).write_bytes(b"ValueError: x\n")
    os.chown(work / name, owner.pw_uid, owner.pw_gid)
    variables = node.environment(
        SLURM_JOB_UID=str(owner.pw_uid), SLURM_JOB_GID=str(owner.pw_gid),
        SLURM_JOB_USER=owner.pw_name, SLURM_JOB_WORK_DIR=str(work),
        SLURM_JOB_STDOUT=f"{work}/" + name.replace("%", "%%"),
        SLURM_JOB_COMMENT="a\nFIRSTFAULT=1\x1b[31m", FIRSTFAULT_CONF=str(node.conf),
    )  # fmt: skip
    assert subprocess.run([str(node.stub)], env=variables, timeout=30).returncode == 0

    done = node.collect()

    assert (done.returncode, done.stderr) == (0, "")
    (record,) = node.records()
    assert file_of(record, "\u202e.out") == b"ValueError: x\n"
    assert record.environment["SLURM_JOB_COMMENT"] == "a\nFIRSTFAULT=1\x1b[31m"
    (path,) = node.spool.iterdir()
    assert path.name.replace("-", "").replace(".", "").replace("_", "").isalnum()


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "hard link"])
def test_what_globs_find_is_opened_as_carefully_as_an_output(
    node: Node, owner: pwd.struct_passwd, work: Path, kind: str
) -> None:
    secret = node.folder / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    for place in (work / "trace_0", work / "task-12-0.out"):
        if kind == "link":
            place.symlink_to(secret)
        elif kind == "fifo":
            os.mkfifo(place)
        elif kind == "folder":
            place.mkdir()
        else:
            os.link(secret, place)
        os.chown(place, owner.pw_uid if kind != "hard link" else 0, 0, follow_symlinks=False)
    node.configure(
        FIRSTFAULT_FLIGHT_RECORDER="%w/trace_*", FIRSTFAULT_STEP_LOGS="%w/task-%j-%t.out"
    )
    end_job(node, owner, work)
    before = time.monotonic()

    assert node.collect().returncode == 0

    assert time.monotonic() - before < 30
    assert SECRET.strip() not in node.raw_records()[0]
    assert node.records()[0].files == () or kind == "x"


def test_the_reader_sees_which_file_systems_are_local(owner: pwd.struct_passwd) -> None:
    identity = confined.Identity(owner.pw_uid, owner.pw_gid, (owner.pw_gid,))

    answer = confined.run(
        lambda send: send({"shared": mounts.is_shared(os.stat("/dev/shm").st_dev)}), identity, 5
    )

    assert (answer.frames, answer.fault) == (({"shared": False},), None)


@pytest.fixture
def dead_mount(owner: pwd.struct_passwd) -> Iterator[Path]:
    """A file system whose server never answers."""
    folder = Path(tempfile.mkdtemp(prefix="firstfault-dead-"))
    try:
        handle = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        folder.rmdir()
        pytest.skip(f"no FUSE here: {error}")
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={handle},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"firstfault-dead", str(folder).encode(), b"fuse", 0, options) != 0:
        os.close(handle)
        folder.rmdir()
        pytest.skip(f"FUSE cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    yield folder
    subprocess.run(["/bin/umount", "-l", str(folder)], check=True)
    os.close(handle)
    folder.rmdir()


def test_a_log_on_a_file_system_that_never_answers_costs_the_deadline_alone(
    node: Node, owner: pwd.struct_passwd, work: Path, dead_mount: Path
) -> None:
    (work / "err").write_bytes(b"ValueError: x\n")
    os.chown(work / "err", owner.pw_uid, owner.pw_gid)
    end_job(node, owner, work, SLURM_JOB_STDOUT=f"{dead_mount}/%j.out")
    before = time.monotonic()

    done = node.collect()

    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - before < DEADLINE_S + 30
    (record,) = node.records()
    assert any("did not end within" in (row.detail or "") for row in record.coverage)
    assert record.environment["SLURM_JOB_EXIT_CODE"] == "256"


def test_the_reason_of_a_link_is_told(node: Node, owner: pwd.struct_passwd, work: Path) -> None:
    (work / "slurm-12.out").symlink_to("/etc/shadow")
    end_job(node, owner, work)

    node.collect()

    assert reason_of(node.records()[0], "slurm-12.out") == "ELOOP"
    assert sys.platform == "linux"


def test_a_name_service_that_never_answers_costs_seconds_and_the_groups_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confined, "GROUPS_DEADLINE_S", 0.5)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: time.sleep(60))
    before = time.monotonic()

    identity, notes = confined.identity_of(4242, 4243, "alice")

    assert time.monotonic() - before < 30
    assert identity == confined.Identity(4242, 4243, (4243,))
    assert len(notes) == 1 and "could not be found out" in notes[0]


def test_a_user_that_no_name_service_knows_keeps_the_group_that_slurm_told() -> None:
    identity, notes = confined.identity_of(3_999_999_999, 4243, None)

    assert (identity.gid, identity.home, notes) == (4243, None, [])


def test_root_is_never_taken_for_a_jobs_group() -> None:
    with pytest.raises(LookupError):
        confined.identity_of(3_999_999_999, 0, None)
    with pytest.raises(LookupError):
        confined.identity_of(3_999_999_999, None, None)
