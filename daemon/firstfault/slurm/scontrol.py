"""Questions to slurmctld by `scontrol show`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from firstfault.slurm.command import printed


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
    options = [f"--clusters={cluster}"] if cluster else []
    return printed(
        scontrol,
        [*options, "show", *what],
        f"show {what[0]}",
        "slurmctld up (scontrol ping)",
        timeout_s=timeout_s,
        cap_bytes=cap_bytes,
        more=more,
    )
