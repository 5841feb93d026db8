"""The queue: nothing is lost, nothing is taken twice, nothing half written stays."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault.model import evidence
from firstfault_epilog import collector
from tests.epilog.node import Node, end_job_at, run_script, set_time


def test_the_same_entry_makes_the_same_record_name_and_another_end_another(node: Node) -> None:
    end_job_at(node, 1000.0)
    end_job_at(node, 2000.0)

    node.collect()

    records = node.records()
    assert len({record.id for record in records}) == len(records) == 2


def test_an_entry_that_cannot_be_read_goes_to_the_quarantine_with_the_reason(node: Node) -> None:
    node.end_job()
    (good,) = node.waiting()
    for name, data in (
        ("12-n3-1", good.read_bytes()[:-20]),
        ("12-n3-2", b"\x00" * 100),
        ("12-n3-3", good.read_bytes().replace(b"SLURM_JOB_ID=12", b"SLURM_JOB_ID=../x")),
    ):
        (node.queue / "ready" / name).write_bytes(data)

    done = node.collect()

    assert done.returncode == 0
    assert len(node.records()) == 1
    assert len([path for path in node.waiting("quarantine") if path.suffix == ".reason"]) == 3


@pytest.mark.slow
def test_with_no_spool_the_entry_waits_and_is_taken_when_there_is_one(node: Node) -> None:
    node.spool.rmdir()
    node.end_job()
    for _ in range(5):
        done = node.collect()
        assert done.returncode == collector.NOT_NOW
        assert str(node.spool) in done.stderr
    node.spool.mkdir()

    done = node.collect()

    assert done.returncode == 0
    assert len(node.records()) == 1
    assert node.waiting("quarantine") == []


@pytest.fixture
def small_disk(node: Node) -> Iterator[Path]:
    """A disk of 64 KiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a small disk")
    place = node.folder / "disk"
    place.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "none", str(place)]
    if subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["/bin/umount", place], check=True)


def test_with_a_full_spool_the_entry_waits_and_nothing_half_written_stays(
    node: Node, small_disk: Path
) -> None:
    node.configure(FIRSTFAULT_SPOOL=str(small_disk))
    (node.folder / "slurm-12.out").write_bytes(os.urandom(20_000))
    (small_disk / "filler").write_bytes(b"x" * 60_000)
    node.end_job()

    full = node.collect()
    left = [path.name for path in small_disk.iterdir()]
    (small_disk / "filler").unlink()
    freed = node.collect()

    assert (full.returncode, left) == (collector.NOT_NOW, ["filler"])
    assert "No space left" in full.stderr
    assert freed.returncode == 0
    assert len(list(small_disk.glob("*.json.gz"))) == 1


def test_a_queue_that_became_read_only_is_said_and_fails_no_epilog(
    node: Node, small_disk: Path
) -> None:
    node.configure(FIRSTFAULT_QUEUE=str(small_disk))
    node.end_job()
    subprocess.run(["/bin/mount", "-o", "remount,ro", small_disk], check=True)

    status = node.end_job()
    done = node.collect()

    assert status == 0
    assert done.returncode == collector.NOT_NOW
    assert "Read-only file system" in done.stderr and str(small_disk) in done.stderr


def test_detached_its_complaints_go_to_syslog_and_it_ends_as_told(node: Node) -> None:
    node.spool.rmdir()
    node.end_job()

    done = subprocess.run(node.command(), env={}, stderr=subprocess.DEVNULL, timeout=30)

    assert done.returncode == collector.NOT_NOW


def test_an_entry_on_which_collectors_die_is_given_up(node: Node) -> None:
    node.end_job()
    (entry,) = node.waiting()
    (node.queue / "claimed").mkdir(exist_ok=True)
    entry.rename(node.queue / "claimed" / f"3.{entry.name}")

    node.collect()

    assert node.records() == []
    assert len(node.waiting("quarantine")) == 2


def test_two_collectors_at_once_take_each_entry_once(node: Node) -> None:
    for _ in range(6):
        node.end_job()

    running = [subprocess.Popen(node.command(), env={}) for _ in range(3)]
    codes = [process.wait(60) for process in running]

    assert codes == [0, 0, 0]
    assert len(node.records()) == 6
    assert node.waiting() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "count", [20, pytest.param(500, marks=pytest.mark.soak)], ids=["short", "long"]
)
def test_a_collector_killed_at_any_moment_loses_nothing_and_leaves_no_half_record(
    node: Node, count: int
) -> None:
    (node.folder / "slurm-12.out").write_bytes(os.urandom(60_000))
    delays = random.Random(12)
    seen: set[Path] = set()
    for _ in range(count):
        node.end_job()
        process = subprocess.Popen(node.command(), env={}, stderr=subprocess.DEVNULL)
        try:
            process.wait(delays.uniform(0.0, 0.25))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for path in node.spool.glob("*.json.gz"):
            if path not in seen:
                assert evidence.decode(gzip.decompress(path.read_bytes())).job == "12"
                seen.add(path)
        for path in node.waiting("claimed"):
            path.rename(path.with_name("0." + path.name.partition(".")[2]))

    done = node.collect()

    assert done.returncode == 0
    assert len(node.records()) == count
    assert node.waiting() == node.waiting("claimed") == node.waiting("quarantine") == []
    assert [path for path in node.spool.iterdir() if path.name.startswith(".")] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "count", [15, pytest.param(500, marks=pytest.mark.soak)], ids=["short", "long"]
)
def test_what_the_epilog_started_may_be_killed_with_all_that_it_started(
    node: Node, count: int
) -> None:
    """As under PrologFlags=RunInJob: script, collector and reader die at once."""
    node.configure(FIRSTFAULT_START="detach")
    (node.folder / "slurm-12.out").write_bytes(os.urandom(60_000))
    variables = node.environment() | {"FIRSTFAULT_CONF": str(node.conf)}
    delays = random.Random(count)
    for _ in range(count):
        stub = subprocess.Popen([node.stub], env=variables, stdin=subprocess.DEVNULL)
        stub.wait(30)
        time.sleep(delays.uniform(0.0, 0.3))
        for pid in of_node(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for path in node.waiting("claimed"):
            path.rename(path.with_name("0." + path.name.partition(".")[2]))
    for path in node.waiting("new"):
        set_time(path, time.time() - 100)

    done = node.collect()

    assert done.returncode == 0
    # A collector that was just being started may have outlived its parents, and takes what waits.
    assert len(node.wait_for_records(count, 60)) == count
    stop_at = time.monotonic() + 10
    while of_node(node) and time.monotonic() < stop_at:
        time.sleep(0.05)
    assert node.waiting() == node.waiting("claimed") == node.waiting("quarantine") == []


def of_node(node: Node) -> list[int]:
    """The processes whose command line or environment names the node's configuration."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                told = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
                if os.fsencode(node.conf) in told:
                    found.append(int(folder.name))
    return found


def test_a_sign_that_stands_for_no_entry_is_removed(node: Node) -> None:
    """A collector died after it had claimed the entry."""
    node.end_job()
    (entry,) = node.waiting()
    (node.queue / "claimed").mkdir(mode=0o700)
    entry.rename(node.queue / "claimed" / f"1.{entry.name}")

    done = node.collect()

    assert done.returncode == 0
    assert len(node.records()) == 1
    assert list((node.queue / "ready").iterdir()) == []


def test_an_entry_that_was_moved_by_an_older_version_is_taken(node: Node) -> None:
    node.end_job()
    (entry,) = node.waiting()
    entry.rename(node.queue / "ready" / entry.name)

    node.collect()

    assert len(node.records()) == 1


def test_an_end_that_waited_long_for_a_collector_is_taken_once(node: Node) -> None:
    node.end_job()
    (entry,) = node.waiting()
    set_time(entry, time.time() - 3600)

    node.collect()

    assert len(node.records()) == 1
    assert list(node.queue.rglob("12-*")) == []


def test_what_is_parked_loses_neither_entries_nor_their_bytes(node: Node) -> None:
    node.end_job()
    node.end_job()
    moved, _ = node.waiting()
    moved.rename(node.queue / "ready" / moved.name)
    (node.folder / "off").touch()

    run_script(node, "collect")

    assert list((node.queue / "ready").iterdir()) == []
    (node.folder / "off").unlink()
    for path in (node.queue / "new").iterdir():
        set_time(path, time.time() - 100)
    node.collect()
    assert len(node.records()) == 2
