"""What the job's memory cgroup counted, where it is still there.

Slurm removes the job's cgroup before it calls the Epilog, unless the Epilog runs within the job
(``PrologFlags=RunInJob``) or something in it does not end. Places: src/plugins/cgroup/v1 and v2
of Slurm 22.05 to 26.05; with several slurmd on a machine the node's name is part of them, and
26.05 names the folders by the job's SLUID. Files: Documentation/admin-guide/cgroup-v1/memory.rst
and cgroup-v2.rst of Linux.
"""

import os
import re
import stat
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

from firstfault_epilog.record import Coverage, Excerpt, File

ROOT = "/sys/fs/cgroup"
FILES = (
    "memory.events",
    "memory.peak",
    "memory.max",
    "memory.swap.events",
    "memory.swap.peak",
    "memory.failcnt",
    "memory.max_usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.memsw.failcnt",
    "memory.memsw.max_usage_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.oom_control",
    "pids.events",
)
FILE_MAX = 4096
STEPS_MAX = 64
_STEP = re.compile(r"step_[A-Za-z0-9]{1,20}\Z")
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}\Z")


class Job(NamedTuple):
    """Whose cgroup is looked for; ``sluid`` is None before Slurm 25.11."""

    id: str
    uid: Optional[int]
    node: str
    sluid: Optional[str]


def read(job: Job, root: str = ROOT) -> Tuple[List[File], Coverage]:
    """The counters of the job's cgroup and of its steps', a line each, and how that went."""
    folder = next((place for place in places(job, root) if _is_folder(place)), None)
    if folder is None:
        detail = "Slurm had removed the job's memory cgroup"
        return [], Coverage("cgroup", None, "none", "ENOENT", detail)
    rows = list(_rows(folder, ""))
    for step in _steps(folder):
        rows.extend(_rows(os.path.join(folder, step), step + "/"))
    data = b"".join(rows)
    if not data:
        detail = "the job's cgroup has no counters of memory"
        return [], Coverage("cgroup", folder, "none", "absent", detail)
    file = File(folder, "cgroup", len(data), None, None, True, (Excerpt(0, 1, data),), False)
    return [file], Coverage("cgroup", folder, "full")


def places(job: Job, root: str = ROOT) -> Iterator[str]:
    """Where the job's memory cgroup may be, cgroup v2 first."""
    nodes = [""] if not _NAME.match(job.node) else ["", job.node]
    names = [f"job_{job.id}"] + ([job.sluid] if job.sluid and _NAME.match(job.sluid) else [])
    for node in nodes:
        scope = f"{node}_slurmstepd.scope" if node else "slurmstepd.scope"
        for name in names:
            yield os.path.join(root, "system.slice", scope, name)
    for node in nodes:
        if job.uid is not None:
            top = f"slurm_{node}" if node else "slurm"
            yield os.path.join(root, "memory", top, f"uid_{job.uid}", f"job_{job.id}")


# "[STEP/]FILE: LINE" for each line of each file.
def _rows(folder: str, prefix: str) -> Iterator[bytes]:
    for name in FILES:
        for line in _content(os.path.join(folder, name)).split(b"\n"):
            if line:
                yield f"{prefix}{name}: ".encode("ascii") + line + b"\n"


def _content(path: str) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(handle, FILE_MAX) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    except OSError:
        # Removed between opening and reading.
        return b""
    finally:
        os.close(handle)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _steps(folder: str) -> Sequence[str]:
    try:
        return sorted(name for name in os.listdir(folder) if _STEP.match(name))[:STEPS_MAX]
    except OSError:
        return ()
