"""What a test needs of one compute node."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from firstfault.model import evidence
from firstfault_epilog import settings

SETTINGS = {"FIRSTFAULT_START": "systemd", "FIRSTFAULT_PYTHON": sys.executable}

# Of a recorded run: wall clock minus kernel clock, and the kernel clock at an OOM kill.
RECORDED_OFFSET_S = 1796052555.949805
OOM_AT_S = 1629.472548


class Node:
    """A folder with a queue, a spool and an epilog.conf; its Epilog and its collector."""

    def __init__(self, folder: Path, pyz: Path, stub: Path) -> None:
        self.folder = folder
        self.pyz = pyz
        self.stub = stub
        self.conf = folder / "epilog.conf"
        self.queue = folder / "queue"
        self.spool = folder / "spool"
        self.kmsg = folder / "kmsg"

    def configure(self, **changes: str) -> None:
        """Writes epilog.conf; an empty file stands in for the kernel log unless told otherwise."""
        self.kmsg.touch()
        values = {
            "FIRSTFAULT_QUEUE": str(self.queue),
            "FIRSTFAULT_PYZ": str(self.pyz),
            **SETTINGS,
        }
        rest = {
            "FIRSTFAULT_SPOOL": str(self.spool),
            "FIRSTFAULT_KERNEL_LOG": str(self.kmsg),
            "FIRSTFAULT_KERNEL_OFFSET_S": str(RECORDED_OFFSET_S),
            "FIRSTFAULT_BOOT_ID": "6f2d0a60-0000-4000-8000-000000000001",
            "FIRSTFAULT_RANK_LOGS": f"{self.folder}/ranks/*_*",
            "FIRSTFAULT_ALLOW_ROOT_JOBS": "1",
        }
        for key, value in changes.items():
            (values if key in settings.STUB_KEYS else rest)[key] = value
        lines = [f"{key}={value}" for key, value in values.items()]
        lines += ["# ---", *(f"{key}={value}" for key, value in rest.items())]
        self.conf.write_text("\n".join(lines) + "\n")

    def environment(self, **changes: str) -> dict[str, str]:
        """What slurmd 22.05 sets for the Epilog of a job that failed."""
        variables = {
            "SLURMD_NODENAME": "n3",
            "SLURM_CLUSTER_NAME": "testcluster",
            "SLURM_JOB_ID": "12",
            "SLURM_JOB_UID": str(os.geteuid()),
            "SLURM_JOB_GID": str(os.getegid()),
            "SLURM_JOB_WORK_DIR": str(self.folder),
            "SLURM_JOB_EXIT_CODE": "256",
            "SLURM_NODELIST": "n[1-4]",
        }
        variables.update(changes)
        return variables

    def end_job(self, **changes: str) -> int:
        """Runs the Epilog as slurmd does: no PATH, no HOME, no terminal. Its exit status."""
        return self.end_job_with((), changes)

    def end_job_with(self, shell: tuple[str, ...], changes: dict[str, str]) -> int:
        """The same with a shell that is not the script's own."""
        variables = self.environment(**changes)
        variables["FIRSTFAULT_CONF"] = str(self.conf)
        return subprocess.run(
            [*shell, str(self.stub)], env=variables, stdin=subprocess.DEVNULL, timeout=30
        ).returncode

    def command(self, name: str = "collect") -> list[str]:
        """The collector's command line."""
        return [sys.executable, "-I", str(self.pyz), name, "--config", str(self.conf)]

    def collect(self) -> subprocess.CompletedProcess[str]:
        """Runs the collector once."""
        return subprocess.run(
            self.command(), env={}, capture_output=True, text=True, timeout=60, check=False
        )

    def raw_records(self) -> list[bytes]:
        """The records in the spool, as JSON, in the order of their names."""
        return [gzip.decompress(path.read_bytes()) for path in sorted(self.spool.glob("*.json.gz"))]

    def records(self) -> list[evidence.EvidenceRecord]:
        """The records in the spool, as the daemon reads them."""
        return [evidence.decode(data) for data in self.raw_records()]

    def waiting(self, folder: str = "ready") -> list[Path]:
        """The entries in a folder of the queue; those that are said to be whole are in `ready`."""
        place = self.queue / folder
        paths = sorted(place.iterdir()) if place.is_dir() else []
        if folder == "ready":
            return [
                path if path.stat().st_size else self.queue / "new" / path.name for path in paths
            ]
        if folder == "new":
            return [path for path in paths if not (self.queue / "ready" / path.name).exists()]
        return paths

    def wait_for_records(self, count: int, seconds: float = 10.0) -> list[evidence.EvidenceRecord]:
        """The records, once there are ``count``; fails after ``seconds``."""
        stop_at = time.monotonic() + seconds
        while len(list(self.spool.glob("*.json.gz"))) < count:
            assert time.monotonic() < stop_at, f"no {count} records after {seconds} s"
            time.sleep(0.02)
        return self.records()


def file_of(record: evidence.EvidenceRecord, name: str) -> bytes:
    """The bytes that the daemon gets of the file whose name ends in ``name``."""
    found = [d for d in evidence.documents(record) if d.name.endswith(name)]
    assert len(found) == 1, [d.name for d in evidence.documents(record)]
    return b"".join(excerpt.data for excerpt in found[0].excerpts)


def reason_of(record: evidence.EvidenceRecord, name: str) -> str | None:
    """Why the file whose path ends in ``name`` was not read whole."""
    rows = [row for row in record.coverage if row.path is not None and row.path.endswith(name)]
    assert rows, record.coverage
    return rows[-1].reason


def oom_block(job: int, pid: int, sequence: int, microseconds: int) -> str:
    """An OOM kill as the kernel logs it (shortened from a recorded one)."""
    texts = [
        (4, "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"),
        (4, f"CPU: 0 UID: 1001 PID: {pid} Comm: python3 Not tainted 6.18.44 #1 PREEMPT(none) "),
        (4, "Call Trace:"),
        (6, "memory: usage 2048000kB, limit 2048000kB, failcnt 94"),
        (6, "Tasks state (memory values in pages):"),
        (6, f"[  {pid}]  1001 {pid}  930016   512101   499839    12262         0  5693440"),
        (
            6,
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
            f"oom_memcg=/slurm_n3/uid_1001/job_{job},"
            f"task_memcg=/slurm_n3/uid_1001/job_{job}/step_0/task_0,task=python3,pid={pid},uid=1001",
        ),
        (3, f"Memory cgroup out of memory: Killed process {pid} (python3) total-vm:3720064kB"),
    ]
    return "".join(
        f"{prefix},{sequence + i},{microseconds + i},-;{text}\n"
        for i, (prefix, text) in enumerate(texts)
    )


def set_time(path: Path, at_s: float) -> None:
    """Sets a file's times to ``at_s`` (seconds since 1970)."""
    os.utime(path, (at_s, at_s), follow_symlinks=False)


def end_job_at(node: Node, at_s: float, **changes: str) -> None:
    """Runs the Epilog as if it were ``at_s`` (seconds since 1970)."""
    before = set(node.waiting())
    assert node.end_job(**changes) == 0
    (entry,) = set(node.waiting()) - before
    set_time(entry, at_s)


def write_ranks(folder: Path, name: str, texts: dict[str, bytes]) -> None:
    """Writes a run folder of torchrun: ``texts`` by "LOCAL_RANK/FILE" of the first attempt."""
    for path, data in texts.items():
        target = folder / name / "attempt_0" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def end_job_in_a_run_of_its_own(node: Node, *shell: str) -> int:
    """Runs the Epilog where the defaults are in force, and harms no collector of this machine's."""
    if os.geteuid() != 0:
        pytest.skip("needs root: hides /run")
    script = 'mount -t tmpfs none /run && exec "$@"'
    return subprocess.run(
        ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", script, "sh", *shell, str(node.stub)],
        env=node.environment() | {"FIRSTFAULT_CONF": str(node.conf), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        timeout=30,
    ).returncode


def run_script(node: Node, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command of the script, as an administrator or systemd runs it."""
    return subprocess.run(
        [node.stub, *arguments],
        env={"FIRSTFAULT_CONF": str(node.conf), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
