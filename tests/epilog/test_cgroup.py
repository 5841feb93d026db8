"""The counters of a job's memory cgroup: this machine's own, and trees as Slurm makes them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault.model.document import Document, Excerpt
from firstfault.readers.kind import Kind, kind
from firstfault_epilog import cgroup

JOB = cgroup.Job("12", 1001, "n3", "s5K1KKYAYG5D00")


def make(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    "place",
    [
        "system.slice/slurmstepd.scope/job_12",
        "system.slice/n3_slurmstepd.scope/job_12",
        "system.slice/slurmstepd.scope/s5K1KKYAYG5D00",
        "memory/slurm/uid_1001/job_12",
        "memory/slurm_n3/uid_1001/job_12",
    ],
)
def test_the_counters_of_job_and_steps_are_taken(tmp_path: Path, place: str) -> None:
    make(tmp_path / place, {"memory.events": "low 0\noom_kill 1\n", "memory.peak": "4096\n"})
    make(tmp_path / place / "step_0", {"memory.failcnt": "7\n", "cgroup.procs": "1\n"})

    (file,), coverage = cgroup.read(JOB, str(tmp_path))

    assert file.excerpts[0].data == (
        b"memory.events: low 0\nmemory.events: oom_kill 1\nmemory.peak: 4096\n"
        b"step_0/memory.failcnt: 7\n"
    )
    assert (file.what, file.name, coverage.state) == ("cgroup", str(tmp_path / place), "full")


@pytest.mark.parametrize("node", ["n4", "../n3", "n3/x", ".."])
def test_another_jobs_or_nodes_cgroup_is_not_taken(tmp_path: Path, node: str) -> None:
    for place in ("memory/slurm_n3/uid_1001/job_12", "memory/slurm/uid_1001/job_120"):
        make(tmp_path / place, {"memory.failcnt": "7\n"})

    files, coverage = cgroup.read(JOB._replace(node=node), str(tmp_path))

    assert files == []
    assert (coverage.state, coverage.reason) == ("none", "ENOENT")


def test_what_is_no_file_or_a_link_is_left_alone(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root's alone")
    folder = tmp_path / "memory/slurm/uid_1001/job_12"
    make(folder, {})
    (folder / "memory.failcnt").symlink_to(secret)
    os.mkfifo(folder / "memory.oom_control")
    (folder / "memory.events").mkdir()

    files, coverage = cgroup.read(JOB, str(tmp_path))

    assert files == []
    assert coverage.reason == "absent"


@pytest.fixture
def real_cgroup() -> Iterator[Path]:
    """A group where Slurm would make it, for a node and job that no Slurm here has."""
    job = f"99{os.getpid()}"
    v1 = Path(cgroup.ROOT) / "memory"
    top = "memory" if v1.is_dir() else "system.slice"
    parts = f"slurm_fftest/uid_0/job_{job}" if v1.is_dir() else f"fftest_slurmstepd.scope/job_{job}"
    folder = Path(cgroup.ROOT) / top / parts
    try:
        folder.mkdir(parents=True)
        if not v1.is_dir():
            for above in (folder.parent.parent, folder.parent):
                (above / "cgroup.subtree_control").write_text("+memory")
        limit = "memory.limit_in_bytes" if v1.is_dir() else "memory.max"
        (folder / limit).write_text(str(32 << 20))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    yield folder
    stop_at = time.monotonic() + 5
    for place in (folder, *folder.parents):
        if place.name in ("memory", "system.slice"):
            break
        while place.exists() and time.monotonic() < stop_at:
            try:
                place.rmdir()
            except OSError:
                time.sleep(0.02)


def test_a_real_oom_kill_is_counted(real_cgroup: Path) -> None:
    hungry = (
        f"open({str(real_cgroup / 'cgroup.procs')!r}, 'w').write('0')\n"
        "hog = []\nwhile True: hog.append(bytearray(1 << 20))\n"
    )
    killed = subprocess.Popen([sys.executable, "-I", "-S", "-c", hungry])
    assert killed.wait(30) == -9
    job = cgroup.Job(real_cgroup.name[4:], 0, "fftest", None)

    (file,), _ = cgroup.read(job)

    text = file.excerpts[0].data.decode()
    assert "oom_kill 1\n" in text
    assert "memory.failcnt: " in text or "memory.peak: " in text


@pytest.mark.parametrize("what", ["cgroup", "flight-recorder", "something-of-tomorrow"])
def test_the_daemon_takes_what_it_does_not_know_for_nobodys_word(what: str) -> None:
    text = b"Traceback (most recent call last):\nRuntimeError: CUDA out of memory\n"
    document = Document("n3:x", (Excerpt(0, 1, text),), host="n3", what=what)

    assert kind(document) is Kind.OTHER
