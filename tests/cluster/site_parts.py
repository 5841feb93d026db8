"""What every site with firstfault on the test cluster has: the collector, and Slurm's commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cluster import slurm_cluster

_TOP = Path(__file__).resolve().parents[2]


def build_collector(base: Path) -> Path:
    """The collector's archive, built into the cluster's folder."""
    pyz = base / "etc/collector.pyz"
    subprocess.run(
        [sys.executable, "-I", str(_TOP / "epilog/build-pyz"), "-o", str(pyz)],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=60,
    )
    return pyz


def write_command(base: Path, path: Path, **more: str) -> Path:
    """A script in place of the Slurm command that ``path`` is named for, which asks this cluster.

    The daemon runs Slurm's commands without Debian's own paths and the cluster's environment.
    """
    variables = slurm_cluster.environment(base) | more
    exported = "".join(f"export {key}='{value}'\n" for key, value in variables.items())
    path.write_text(f'#!/bin/sh\n{exported}exec {path.name} "$@"\n')
    path.chmod(0o755)
    return path
