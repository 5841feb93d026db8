"""What a real Slurm says of its nodes, as the pages are told."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from firstfault.app.node_states import NodeStates
from firstfault.slurm.nodes import NodeState
from tests.cluster import slurm_cluster
from tests.cluster.session import cluster_folder
from tests.cluster.site_parts import write_command

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_the_states_of_nodes_are_those_of_a_running_slurm(tmp_path: Path) -> None:
    scontrol = tmp_path / "scontrol"
    with cluster_folder() as base:
        slurm_cluster.start(base)
        write_command(base, scontrol)
        update = ("scontrol", "update", "nodename=n2", "state=drain", "reason=bad fan [State=IDLE]")
        slurm_cluster.ask(base, *update)
        asked = NodeStates(scontrol, (), 30)
        asked.known()
        for thread in threading.enumerate():
            if thread.name == "node-states":
                thread.join(60)
        known = asked.known()

    assert known["firstfaulttest", "n1"] == known[None, "n1"] == NodeState("IDLE")
    assert known["firstfaulttest", "n2"] == NodeState("IDLE+DRAIN", "bad fan [State=IDLE]")
    assert {node for _, node in known} == set(slurm_cluster.NODES)
