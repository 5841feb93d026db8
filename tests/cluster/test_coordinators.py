"""Who coordinates which accounts, as a real Slurm's accounting says."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.slurm.coordinators import coordinated
from tests.cluster import slurm_cluster
from tests.cluster.session import cluster_folder
from tests.cluster.site_parts import write_command

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

CHANGES = (
    ("account", "physics"),
    ("account", "plasma", "parent=physics"),
    ("account", "chem"),
    ("user", "bob", "account=chem"),
    ("user", "carol", "account=plasma"),
    ("coordinator", "account=physics", "names=bob"),
    ("coordinator", "account=chem", "names=bob"),
)


def test_a_coordinator_has_the_account_and_those_below_it(tmp_path: Path) -> None:
    sacctmgr = tmp_path / "sacctmgr"
    with cluster_folder() as base:
        slurm_cluster.start(base)
        write_command(base, sacctmgr)

        assert coordinated(sacctmgr, 30) == {}
        for change in CHANGES:
            slurm_cluster.ask(base, "sacctmgr", "-iQ", "add", *change)
        found = coordinated(sacctmgr, 30)
        assert {user: set(accounts) for user, accounts in found.items()} == {
            "bob": {"chem", "physics", "plasma"}
        }
        slurm_cluster.ask(
            base, "sacctmgr", "-iQ", "delete", "coordinator", "account=physics", "names=bob"
        )
        assert coordinated(sacctmgr, 30) == {"bob": ("chem",)}
