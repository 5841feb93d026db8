"""The Epilog script where a node is not as it should be: it ends with 0 and harms nothing."""

from __future__ import annotations

import os
import pwd
import random
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault_epilog import entries
from tests.epilog.node import Node, end_job_in_a_run_of_its_own
from tests.epilog.test_queue import of_node

SHELLS = [
    shell
    for shell in (("/bin/dash",), ("/bin/bash", "--posix"), ("/bin/busybox", "sh"))
    if Path(shell[0]).exists()
]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
every_shell = pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: Path(shell[0]).name)


def everything_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def among_mounts(change: str, *argv: str) -> list[str]:
    """``argv`` where ``change`` holds for it and nobody else."""
    return ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", f'{change} && exec "$@"', "sh", *argv]


@needs_root
@every_shell
@pytest.mark.parametrize("trap", ["queue", "new", "ready", "link to new", "link to ready"])
def test_nothing_is_written_to_a_queue_that_a_user_laid_out(
    node: Node, owner: pwd.struct_passwd, shell: tuple[str, ...], trap: str
) -> None:
    target = node.folder / "root-only"
    target.mkdir(mode=0o700)
    node.queue.mkdir(mode=0o700)
    for name in ("new", "ready"):
        if trap == f"link to {name}":
            (node.queue / name).symlink_to(target)
        else:
            (node.queue / name).mkdir(mode=0o700)
    if trap == "link to new":
        # A link of a user's in a queue of the user's.
        os.chown(node.queue, owner.pw_uid, owner.pw_gid)
    elif trap == "queue":
        os.chown(node.queue, owner.pw_uid, owner.pw_gid)
    elif trap in ("new", "ready"):
        os.chown(node.queue / trap, owner.pw_uid, owner.pw_gid)
    before = everything_below(node.folder)

    status = node.end_job_with(shell, {})

    assert status == 0
    assert everything_below(node.folder) == before


@every_shell
def test_a_queue_that_is_a_link_is_not_used(node: Node, shell: tuple[str, ...]) -> None:
    elsewhere = node.folder / "elsewhere"
    elsewhere.mkdir()
    node.queue.symlink_to(elsewhere)

    status = node.end_job_with(shell, {})

    assert status == 0
    assert not any(path.is_file() for path in elsewhere.rglob("*"))


@every_shell
def test_what_is_already_there_under_the_entrys_name_is_neither_followed_nor_overwritten(
    node: Node, shell: tuple[str, ...]
) -> None:
    for name in ("new", "ready"):
        (node.queue / name).mkdir(parents=True, mode=0o700)
    secret = node.folder / "secret"
    # The script's pid is the shell's own: the trap is laid under it.
    script = f'ln -s {secret} {node.queue}/new/12-n3-$$; exec "$@"'

    status = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *shell, str(node.stub)],
        env=node.environment() | {"FIRSTFAULT_CONF": str(node.conf)},
        timeout=10,
    ).returncode

    assert status == 0
    assert not secret.exists()


@every_shell
def test_a_configuration_that_is_a_pipe_or_a_folder_does_not_stop_it(
    node: Node, shell: tuple[str, ...]
) -> None:
    for make in (os.mkfifo, os.mkdir):
        node.conf.unlink(missing_ok=True)
        make(node.conf)

        status = end_job_in_a_run_of_its_own(node, *shell)

        assert status == 0


# bash tries for 15 seconds to make a process, and gives up then.
@pytest.mark.slow
@every_shell
@pytest.mark.parametrize("start", ["systemd", "detach"])
def test_where_no_process_can_be_made_the_entry_waits_whole(
    node: Node, owner: pwd.struct_passwd, shell: tuple[str, ...], start: str
) -> None:
    node.configure(FIRSTFAULT_START=start)
    for name in ("new", "ready"):
        (node.queue / name).mkdir(parents=True, mode=0o700)
        os.chown(node.queue / name, owner.pw_uid, owner.pw_gid)
    os.chown(node.queue, owner.pw_uid, owner.pw_gid)

    # root may always make processes: an ordinary user at the limit may not.
    def at_the_limit() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))

    done = subprocess.run(
        [*shell, str(node.stub)],
        env=node.environment() | {"FIRSTFAULT_CONF": str(node.conf)},
        user=owner.pw_uid,
        group=owner.pw_gid,
        extra_groups=[],
        preexec_fn=at_the_limit,
        capture_output=True,
        timeout=60,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    # Where nothing is to be started no process is needed: it is said to be whole.
    (left,) = node.waiting() or (node.waiting("new") if start == "detach" else [])
    assert entries.parse(left.read_bytes(), 1, left.name).value("SLURM_JOB_ID") == "12"


@pytest.mark.skipif(not Path("/bin/dash").exists(), reason="dash is not installed")
def test_with_ever_less_memory_it_ends_well_as_long_as_a_shell_can_start(node: Node) -> None:
    variables = node.environment() | {"FIRSTFAULT_CONF": str(node.conf)}
    variables["SLURM_JOB_COMMENT"] = "x" * 30_000
    started = 0
    for kib in range(2000, 5000, 100):
        shell = ["/usr/bin/prlimit", f"--as={kib * 1024}", "/bin/dash"]
        empty = subprocess.run([*shell, "/dev/null"], env=variables, capture_output=True)
        if empty.returncode != 0:
            continue
        started += 1

        done = subprocess.run([*shell, node.stub], env=variables, capture_output=True, timeout=10)

        assert (done.returncode, done.stderr) == (0, b""), kib
    assert started > 5
    assert all(_is_whole(path) for path in node.waiting() + node.waiting("new"))


@needs_root
@pytest.mark.parametrize("missing", ["/usr/bin/mv", "/usr/bin/mkdir", "/usr/bin/setsid"])
def test_a_program_that_is_missing_on_the_node_fails_no_epilog(node: Node, missing: str) -> None:
    node.configure(FIRSTFAULT_START="detach", FIRSTFAULT_PYTHON="/nonexistent")

    status = subprocess.run(
        among_mounts(f"mount --bind /dev/null {missing}", str(node.stub)),
        env=node.environment() | {"FIRSTFAULT_CONF": str(node.conf), "PATH": "/usr/bin:/bin"},
        timeout=10,
    ).returncode

    assert status == 0


@pytest.fixture
def tiny_queue(node: Node) -> Iterator[Path]:
    """A queue on a disk of 64 KiB with room for few files."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a small disk")
    node.queue.mkdir(mode=0o700)
    options = "size=64k,nr_inodes=12,mode=0700"
    mount = ["/bin/mount", "-t", "tmpfs", "-o", options, "none", str(node.queue)]
    if subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield node.queue
    subprocess.run(["/bin/umount", node.queue], check=True)


@every_shell
def test_a_full_disk_leaves_no_half_entry_behind(
    node: Node, tiny_queue: Path, shell: tuple[str, ...]
) -> None:
    status = node.end_job_with(shell, {"SLURM_JOB_COMMENT": "x" * 100_000})

    assert status == 0
    assert [path for path in tiny_queue.rglob("*") if path.is_file()] == []


@every_shell
def test_a_disk_with_no_room_for_another_file_fails_no_epilog(
    node: Node, tiny_queue: Path, shell: tuple[str, ...]
) -> None:
    statuses = [node.end_job_with(shell, {}) for _ in range(14)]

    assert set(statuses) == {0}
    assert node.waiting() != []
    for path in node.waiting() + node.waiting("new"):
        entries.parse(path.read_bytes(), 1, path.name)


def test_arguments_that_it_does_not_know_do_not_keep_it_from_its_work(node: Node) -> None:
    status = subprocess.run(
        [node.stub, "epilog", "--verbose"],
        env=node.environment() | {"FIRSTFAULT_CONF": str(node.conf)},
    ).returncode

    assert status == 0
    assert len(node.waiting()) == 1


def test_what_nobody_takes_does_not_fill_the_node_and_is_counted(node: Node) -> None:
    node.end_job()
    (first,) = node.waiting()
    for number in range(1000):
        (first.parent / f"1-n3-{number}").touch()

    statuses = [node.end_job() for _ in range(3)]

    assert statuses == [0, 0, 0]
    assert len(list((node.queue / "new").glob("[0-9]*"))) == 1001
    assert entries.dropped(str(node.queue)) == 3
    for number in range(1000):
        (first.parent / f"1-n3-{number}").unlink()
    done = node.collect()
    (record,) = node.records()
    assert "3 earlier ends of jobs were not noted" in done.stderr
    assert any("3 earlier ends of jobs" in note for note in record.notes)
    assert entries.dropped(str(node.queue)) == 0


@pytest.mark.parametrize(
    ("start", "count"),
    [
        pytest.param("systemd", 200, id="queue only"),
        pytest.param("detach", 25, id="a collector each"),
        pytest.param("detach", 200, id="200 collectors", marks=pytest.mark.soak),
    ],
)
def test_many_epilogs_at_once_lose_nothing(node: Node, start: str, count: int) -> None:
    node.configure(FIRSTFAULT_START=start)
    variables = node.environment() | {"FIRSTFAULT_CONF": str(node.conf)}

    running = [
        subprocess.Popen([node.stub], env=variables | {"SLURM_JOB_ID": str(100 + number)})
        for number in range(count)
    ]
    statuses = [process.wait(60) for process in running]
    if start == "systemd":
        assert len(node.waiting()) == count
        node.collect()

    assert set(statuses) == {0}
    records = node.wait_for_records(count, 120)
    assert {record.job for record in records} == {str(100 + number) for number in range(count)}
    stop_at = time.monotonic() + 30
    while of_node(node):
        assert time.monotonic() < stop_at, "collectors stay"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "count", [40, pytest.param(500, marks=pytest.mark.soak)], ids=["short", "long"]
)
def test_an_epilog_killed_at_any_moment_leaves_a_whole_entry_or_none(
    node: Node, count: int
) -> None:
    node.configure(FIRSTFAULT_START="systemd")
    variables = node.environment() | {"FIRSTFAULT_CONF": str(node.conf)}
    variables["SLURM_JOB_COMMENT"] = "x" * 50_000
    moments = random.Random(count)
    told = 0
    for _ in range(count):
        process = subprocess.Popen([node.stub], env=variables, stdin=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.0, 0.006))
        process.kill()
        told += process.wait() == 0
    # Its mv may outlive it by a moment.
    time.sleep(0.1)
    killed = count - told
    for path in node.waiting("new"):
        os.utime(path, (time.time() - 100,) * 2)
    whole = sum(_is_whole(path) for path in node.waiting() + node.waiting("new"))

    done = node.collect()

    assert done.returncode == 0
    assert killed > 0
    assert told <= whole <= count
    assert len(node.records()) == whole
    assert node.waiting() == node.waiting("new") == node.waiting("claimed") == []


def _is_whole(path: Path) -> bool:
    try:
        entries.parse(path.read_bytes(), 1, path.name)
    except entries.EntryError:
        return False
    return True


def test_a_signal_that_can_be_caught_ends_it_with_0(node: Node) -> None:
    variables = node.environment() | {"FIRSTFAULT_CONF": str(node.conf)}
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        process = subprocess.Popen(
            ["/bin/sh", "-c", 'kill -s STOP $$; exec "$@"', "sh", str(node.stub)], env=variables
        )
        os.waitpid(process.pid, os.WUNTRACED)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.002)
        process.send_signal(number)
        status = process.wait(10)

        assert status in (0, -number)
