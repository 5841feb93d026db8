"""What a real Slurm says of its own settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.slurm.settings import kill_wait_s
from tests.cluster import slurm_cluster
from tests.cluster.session import cluster_folder
from tests.cluster.site_parts import write_command

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_kill_wait_is_read_from_a_running_slurm(tmp_path: Path) -> None:
    scontrol = tmp_path / "scontrol"
    with cluster_folder() as base:
        slurm_cluster.start(base)
        write_command(base, scontrol)

        assert kill_wait_s(scontrol, 30) == slurm_cluster.KILL_WAIT_S
