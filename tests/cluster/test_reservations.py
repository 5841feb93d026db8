"""What a real Slurm says of its maintenance reservations."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from firstfault.slurm.reservations import maintenance
from tests.cluster import slurm_cluster
from tests.cluster.session import cluster_folder
from tests.cluster.site_parts import write_command

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_maintenance_is_read_from_a_running_slurm_in_utc(tmp_path: Path) -> None:
    scontrol = tmp_path / "scontrol"
    with cluster_folder() as base:
        slurm_cluster.start(base)
        write_command(base, scontrol, TZ="Asia/Kolkata")
        assert maintenance(scontrol, 30) == []
        before = dt.datetime.now(dt.UTC)
        for name, flags in (("maint", "maint,ignore_jobs"), ("course", "ignore_jobs")):
            slurm_cluster.ask(
                base,
                *("scontrol", "create", "reservation", f"ReservationName={name}"),
                *("StartTime=now", "Duration=60", "Users=root", f"Flags={flags}"),
                "Nodes=" + ("n[1-2]" if name == "maint" else "n3"),
            )

        (found,) = maintenance(scontrol, 30)

    assert found.name == "maint"
    assert found.nodes == ("n1", "n2")
    assert abs(found.start_at - before) < dt.timedelta(minutes=5)
    assert found.end_at - found.start_at == dt.timedelta(hours=1)
