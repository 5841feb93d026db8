"""What a job's owner may leave where the collector, started by root, goes to read."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from firstfault_epilog import confined
from tests.epilog.node import Node, file_of, reason_of

SECRET = b"root's alone\n"


@pytest.fixture
def work(node: Node, owner: pwd.struct_passwd) -> Path:
    """The job's folder, its owner's."""
    folder = node.folder / "work"
    folder.mkdir()
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    return folder


def run(node: Node, owner: pwd.struct_passwd, work: Path, **changes: str) -> str:
    node.end_job(
        SLURM_JOB_UID=str(owner.pw_uid),
        SLURM_JOB_GID=str(owner.pw_gid),
        SLURM_JOB_USER=owner.pw_name,
        SLURM_JOB_WORK_DIR=str(work),
        **changes,
    )
    done = node.collect()
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_owners_output_is_read_with_the_owners_rights(
    node: Node, owner: pwd.struct_passwd, work: Path
) -> None:
    output = work / "slurm-12.out"
    output.write_bytes(b"private\n")
    os.chown(output, owner.pw_uid, owner.pw_gid)
    output.chmod(0o600)
    work.chmod(0o700)

    run(node, owner, work)

    assert file_of(node.records()[0], "slurm-12.out") == b"private\n"


def test_a_file_that_only_root_can_read_is_not_read(
    node: Node, owner: pwd.struct_passwd, work: Path
) -> None:
    (work / "slurm-12.out").write_bytes(SECRET)
    (work / "slurm-12.out").chmod(0o600)

    run(node, owner, work)

    (record,) = node.records()
    assert reason_of(record, "slurm-12.out") == "EACCES"
    assert SECRET.strip() not in node.raw_records()[0]


def test_a_link_to_roots_file_is_not_followed(
    node: Node, owner: pwd.struct_passwd, work: Path
) -> None:
    secret = node.folder / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    (work / "slurm-12.out").symlink_to(secret)

    run(node, owner, work)

    (record,) = node.records()
    assert reason_of(record, "slurm-12.out") == "ELOOP"
    assert SECRET.strip() not in node.raw_records()[0]


def test_a_folder_that_links_to_roots_place_gives_nothing(
    node: Node, owner: pwd.struct_passwd, work: Path
) -> None:
    hidden = node.folder / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / "slurm-12.out").write_bytes(SECRET)
    (work / "logs").symlink_to(hidden)

    run(node, owner, work, SLURM_JOB_STDOUT=f"{work}/logs/slurm-%j.out")

    assert SECRET.strip() not in node.raw_records()[0]


@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "device"])
def test_what_is_no_file_is_neither_read_nor_waited_for(
    node: Node, owner: pwd.struct_passwd, work: Path, kind: str
) -> None:
    place = work / "slurm-12.out"
    if kind == "fifo":
        os.mkfifo(place, 0o666)
        place.chmod(0o666)
    elif kind == "folder":
        place.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place))
        place.chmod(0o666)
    before = time.monotonic()

    target = "/dev/zero" if kind == "device" else str(place)
    run(node, owner, work, SLURM_JOB_STDOUT=target)

    assert time.monotonic() - before < 30
    (record,) = node.records()
    expected = "ENXIO" if kind == "socket" else "not-regular"
    assert reason_of(record, target) == expected


@pytest.mark.slow
def test_a_huge_sparse_file_costs_neither_the_record_nor_the_other_logs(
    node: Node, owner: pwd.struct_passwd, work: Path
) -> None:
    output = work / "slurm-12.out"
    with output.open("wb") as file:
        file.write(b"first line\nRuntimeError: CUDA error\n")
        file.truncate(1 << 40)
        file.seek((1 << 40) - 11)
        file.write(b"\nlast line\n")
    rank = node.folder / "ranks/12_x/attempt_0/0"
    rank.mkdir(parents=True)
    (rank / "stderr.log").write_bytes(b"a rank's word\n")
    os.chown(node.folder / "ranks/12_x", owner.pw_uid, owner.pw_gid)
    node.configure(FIRSTFAULT_READ_DEADLINE_S="4")

    run(node, owner, work)

    (record,) = node.records()
    taken = file_of(record, "slurm-12.out")
    assert taken.startswith(b"first line\nRuntimeError")
    assert taken.endswith(b"last line\n")
    assert len(taken) < 100_000
    assert any("time ran out" in (row.detail or "") for row in record.coverage)
    assert file_of(record, "stderr.log") == b"a rank's word\n"


def test_a_log_that_is_replaced_and_truncated_all_the_time_does_no_harm(
    node: Node, owner: pwd.struct_passwd, work: Path
) -> None:
    output = work / "slurm-12.out"
    output.write_bytes(b"line\n" * 100_000)
    stop = threading.Event()

    def churn() -> None:
        secret = node.folder / "secret"
        secret.write_bytes(SECRET)
        secret.chmod(0o600)
        while not stop.is_set():
            spare = work / "spare"
            spare.symlink_to(secret)
            spare.replace(output)
            spare.write_bytes(b"line\n" * 50_000)
            spare.replace(output)
            os.truncate(output, 100)

    churner = threading.Thread(target=churn)
    churner.start()
    try:
        for _ in range(3):
            run(node, owner, work)
    finally:
        stop.set()
        churner.join()

    assert len(node.records()) == 3
    assert not any(SECRET.strip() in data for data in node.raw_records())


def test_run_folders_of_somebody_else_are_left_alone(
    node: Node, owner: pwd.struct_passwd, work: Path
) -> None:
    mine = node.folder / "ranks/12_mine/attempt_0/0"
    theirs = node.folder / "ranks/12_theirs/attempt_0/0"
    for folder in (mine, theirs):
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_bytes(b"text\n")
    os.chown(node.folder / "ranks/12_mine", owner.pw_uid, owner.pw_gid)

    run(node, owner, work)

    names = [file.name for file in node.records()[0].files]
    assert any("12_mine" in name for name in names)
    assert not any("12_theirs" in name for name in names)


def test_supplementary_groups_let_the_owner_read_a_shared_folder(
    node: Node, owner: pwd.struct_passwd, work: Path
) -> None:
    team = f"ffteam{os.getpid()}"
    subprocess.run(["/usr/sbin/groupadd", team], check=True)
    try:
        subprocess.run(["/usr/sbin/usermod", "-aG", team, owner.pw_name], check=True)
        shared = work / "slurm-12.out"
        shared.write_bytes(b"the team's\n")
        subprocess.run(["/bin/chgrp", team, shared], check=True)
        shared.chmod(0o640)

        run(node, owner, work)
    finally:
        subprocess.run(["/usr/sbin/groupdel", team], check=True)

    assert file_of(node.records()[0], "slurm-12.out") == b"the team's\n"


def test_the_reader_holds_nothing_of_root(owner: pwd.struct_passwd) -> None:
    kept = os.open("/etc/shadow", os.O_RDONLY)
    os.set_inheritable(kept, True)

    def look(send: confined.Send) -> None:
        def refused(action: object) -> bool:
            try:
                action()  # type: ignore[operator]
            except (OSError, ValueError):
                return True
            return False

        with open("/proc/self/status") as file:
            status = dict(line.split(":", 1) for line in file.read().splitlines())
        send(
            {
                "uids": os.getresuid(),
                "gids": os.getresgid(),
                "groups": os.getgroups(),
                "descriptors": [n for n in range(256) if not refused(partial(os.fstat, n))],
                "no_new_privs": status["NoNewPrivs"].strip(),
                "capabilities": status["CapEff"].strip(),
                "shadow": refused(lambda: open("/etc/shadow").close()),
                "root": refused(lambda: os.setuid(0)),
                "writes": refused(lambda: Path("/tmp/firstfault-written").write_bytes(b"x")),
                "umask": os.umask(0),
            }
        )

    try:
        identity = confined.Identity(owner.pw_uid, owner.pw_gid, (owner.pw_gid,))
        answer = confined.run(look, identity, 5)
    finally:
        os.close(kept)
        Path("/tmp/firstfault-written").unlink(missing_ok=True)

    assert answer.fault is None
    (seen,) = answer.frames
    assert seen["uids"] == [owner.pw_uid] * 3 and seen["gids"] == [owner.pw_gid] * 3
    assert seen["groups"] == [owner.pw_gid]
    assert seen["descriptors"] == [0, 1, 2, 3]
    assert (seen["no_new_privs"], int(seen["capabilities"], 16)) == ("1", 0)
    assert seen["shadow"] and seen["root"] and seen["writes"]
    assert seen["umask"] == 0o077


def test_a_reader_that_hangs_is_killed_at_the_deadline_and_what_it_sent_is_kept() -> None:
    def hang(send: confined.Send) -> None:
        send({"kind": "note"})
        time.sleep(60)

    before = time.monotonic()

    answer = confined.run(hang, None, 0.3)

    assert time.monotonic() - before < 30
    assert answer.frames == ({"kind": "note"},)
    assert "did not end" in (answer.fault or "")


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00",
        b"\x00\x00\x00\x05{}",
        b"\x00\x00\x00\x02[]",
        b"\x00\x00\x00\x02{x",
        b"\x00\x01\x00\x00" + b"[" * 0x10000,
        b"\x00\x00\x00\x00",
    ],
)
def test_a_reader_that_was_taken_over_cannot_harm_the_parent(sent: bytes) -> None:
    def attack(_: confined.Send) -> None:
        os.write(3, sent)

    answer = confined.run(attack, None, 2)

    assert answer.frames == ()
    assert answer.fault is not None


def test_a_reader_that_sends_without_end_is_cut_off() -> None:
    def flood(send: confined.Send) -> None:
        while True:
            send({"kind": "note", "x": "x" * 100_000})

    answer = confined.run(flood, None, 10)

    assert "more than" in (answer.fault or "")


def test_the_reader_dies_with_the_collector(tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "from firstfault_epilog import confined\n"
        f"def work(send):\n    open({str(tmp_path / 'pid')!r}, 'w').close()\n    time.sleep(60)\n"
        "confined.run(work, None, 60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    stop_at = time.monotonic() + 10
    while not (tmp_path / "pid").exists() and time.monotonic() < stop_at:
        time.sleep(0.02)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()

    process.kill()
    process.wait()

    assert len(children) == 1
    while Path(f"/proc/{children[0]}").exists() and time.monotonic() < stop_at:
        if " Z " in Path(f"/proc/{children[0]}/stat").read_text():
            break
        time.sleep(0.02)
    else:
        assert not Path(f"/proc/{children[0]}").exists()
