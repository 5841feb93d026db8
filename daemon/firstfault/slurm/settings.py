"""What slurm.conf says, as `scontrol show config` prints it ("KillWait                = 30 sec")."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from firstfault.slurm.command import run
from firstfault.slurm.facts import FactsError

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
    argv = [str(scontrol), *([f"--clusters={cluster}"] if cluster else []), "show", "config"]
    environment = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    if "SLURM_CONF" in os.environ:
        environment["SLURM_CONF"] = os.environ["SLURM_CONF"]
    try:
        output = run(argv, environment, timeout_s, CAP_BYTES)
    except OSError as error:
        raise FactsError(f"{scontrol} cannot be run: {error.strerror}") from error
    if output.stopped is not None:
        raise FactsError(f"{scontrol}: {output.stopped}. Is slurmctld up (scontrol ping)?")
    if output.status != 0:
        said = output.stderr.decode("utf-8", "replace").strip()[-500:]
        raise FactsError(f"{scontrol} show config ended with status {output.status}: {said}")
    found = _KILL_WAIT.search(output.stdout.decode("utf-8", "replace"))
    if found is None:
        raise FactsError(f"{scontrol} show config does not name KillWait in seconds")
    return float(found[1])
