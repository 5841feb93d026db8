"""Questions to slurmctld by `scontrol show`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from firstfault.slurm.command import run
from firstfault.slurm.facts import FactsError


def show(
    scontrol: Path,
    *what: str,
    timeout_s: float,
    cap_bytes: int,
    cluster: str = "",
    more: Mapping[str, str] | None = None,
) -> str:
    """What `scontrol show` prints, of the cluster that slurm.conf names or another.

    ``more`` goes into scontrol's environment. Raises `FactsError`.
    """
    argv = [str(scontrol), *([f"--clusters={cluster}"] if cluster else []), "show", *what]
    environment = {"LC_ALL": "C", "PATH": "/usr/bin:/bin", **(more or {})}
    if "SLURM_CONF" in os.environ:
        environment["SLURM_CONF"] = os.environ["SLURM_CONF"]
    try:
        output = run(argv, environment, timeout_s, cap_bytes)
    except OSError as error:
        raise FactsError(f"{scontrol} cannot be run: {error.strerror}") from error
    if output.stopped is not None:
        raise FactsError(f"{scontrol}: {output.stopped}. Is slurmctld up (scontrol ping)?")
    if output.status != 0:
        said = output.stderr.decode("utf-8", "replace").strip()[-500:]
        raise FactsError(f"{scontrol} show {what[0]} ended with status {output.status}: {said}")
    return output.stdout.decode("utf-8", "replace")
