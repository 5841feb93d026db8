"""What slurm.conf says, as `scontrol show config` prints it ("KillWait                = 30 sec")."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from firstfault.slurm.facts import FactsError
from firstfault.slurm.scontrol import show

CAP_BYTES = 4 * 1024 * 1024

_KILL_WAIT = re.compile(r"^KillWait\s*=\s*([0-9]{1,6}) sec\s*$", re.MULTILINE)


def kill_wait_s(scontrol: Path, timeout_s: float, clusters: Sequence[str] = ()) -> float:
    """Seconds from SIGTERM to SIGKILL at a job's time limit; of several clusters the longest.

    Without ``clusters`` the one that slurm.conf names is asked. Raises `FactsError`.
    """
    return max(_kill_wait_s(scontrol, timeout_s, name) for name in clusters or ("",))


def find(sacct: str) -> Path | None:
    """scontrol's absolute path: beside ``sacct`` where that is configured, else from PATH."""
    if sacct:
        path = Path(sacct).with_name("scontrol")
        return path if path.exists() else None
    found = shutil.which("scontrol")
    return None if found is None else Path(found).absolute()


def _kill_wait_s(scontrol: Path, timeout_s: float, cluster: str) -> float:
    printed = show(scontrol, "config", timeout_s=timeout_s, cap_bytes=CAP_BYTES, cluster=cluster)
    found = _KILL_WAIT.search(printed)
    if found is None:
        raise FactsError(f"{scontrol} show config does not name KillWait in seconds")
    return float(found[1])
