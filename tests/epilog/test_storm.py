"""All at once: many ends, no daemon, a full disk, and an owner who stops the reader and its files."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.epilog.node import Node
from tests.epilog.receiver import STORED, Receiver, Reply
from tests.epilog.test_push import collect_until, forget_waits, sending_to
from tests.epilog.test_queue import of_node

# Stops each process of its own that it can see but itself, and writes its log anew all the time.
ATTACK = """
import os, signal, sys
log = sys.argv[1]
while True:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                os.kill(int(name), signal.SIGSTOP)
            except OSError:
                pass
    with open(log + ".new", "wb") as file:
        file.write(os.urandom(30000))
    os.rename(log + ".new", log)
    os.truncate(log, 100)
"""


@pytest.fixture
def small_spool(node: Node) -> Iterator[Path]:
    """The node's spool on a disk that holds a few records."""
    mount = ["/bin/mount", "-t", "tmpfs", "-o", "size=128k,mode=0700", "none", str(node.spool)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("needs root: mounts a small disk")
    yield node.spool
    subprocess.run(["/bin/umount", "--lazy", str(node.spool)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "count", [10, pytest.param(200, marks=pytest.mark.soak)], ids=["short", "long"]
)
def test_nothing_is_lost_nothing_stays_and_no_epilog_fails(
    node: Node, owner: pwd.struct_passwd, small_spool: Path, count: int
) -> None:
    work = node.folder / "work"
    work.mkdir()
    os.chown(work, owner.pw_uid, owner.pw_gid)
    key = node.folder / "key"
    key.touch(0o400)
    key.write_bytes(os.urandom(32).hex().encode() + b"\n")
    with Receiver() as daemon:
        daemon.answer = lambda _: Reply(503)
        node.configure(
            **sending_to(node, daemon.url),
            FIRSTFAULT_START="detach",
            FIRSTFAULT_READ_DEADLINE_S="1",
        )
        attack = subprocess.Popen(
            ["/usr/bin/python3", "-I", "-c", ATTACK, str(work / "slurm.out")],
            user=owner.pw_uid,
            group=owner.pw_gid,
            extra_groups=[],
        )
        try:
            statuses = end_jobs(node, owner, work, count)
            stop_at = time.monotonic() + max(10, count / 4)
            while time.monotonic() < stop_at and node.waiting():
                time.sleep(0.2)
        finally:
            attack.kill()
            attack.wait()
        subprocess.run(["/bin/mount", "-o", "remount,size=64m", str(small_spool)], check=True)
        daemon.answer = lambda _: STORED
        for pid in of_node(node):
            subprocess.run(["/bin/kill", "-9", str(pid)], stderr=subprocess.DEVNULL)
        forget_waits(node)
        collect_until(node, lambda: len(set(daemon.stored)) == count, 60 + count)

    assert set(statuses) == {0}
    assert node.waiting() == node.waiting("quarantine") == []
    assert [path.name for path in small_spool.rglob("*.partial")] == []
    assert left_of(owner.pw_uid) == []


def left_of(uid: int) -> list[str]:
    """The user's processes that do not end by themselves. One that its owner stopped in the moment
    between becoming the owner's and being bound to a collector that was killed then ends once it is
    continued."""
    stop_at = time.monotonic() + 20
    while (left := of_user(uid)) and time.monotonic() < stop_at:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        time.sleep(0.2)
    return list(left.values())


def end_jobs(node: Node, owner: pwd.struct_passwd, work: Path, count: int) -> list[int]:
    """The Epilogs' exit statuses."""
    job = {
        "SLURM_JOB_UID": str(owner.pw_uid),
        "SLURM_JOB_GID": str(owner.pw_gid),
        "SLURM_JOB_WORK_DIR": str(work),
        "SLURM_JOB_STDOUT": str(work / "slurm.out"),
    }
    variables = node.environment(**job) | {"FIRSTFAULT_CONF": str(node.conf)}
    running = [
        subprocess.Popen([node.stub], env=variables | {"SLURM_JOB_ID": str(100 + number)})
        for number in range(count)
    ]
    return [process.wait(60) for process in running]


def of_user(uid: int) -> dict[int, str]:
    """The names of this user's processes, by pid."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if folder.stat().st_uid == uid:
                    found[int(folder.name)] = (folder / "comm").read_text()
            except OSError:
                continue
    return found
