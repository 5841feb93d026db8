"""States of nodes, as scontrol prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.slurm.facts import FactsError
from firstfault.slurm.nodes import NodeState, cluster_name, read, states

RECORDED = Path(__file__).with_name("recorded") / "scontrol-22.05.8-nodes.txt"


def test_what_slurm_printed_is_read() -> None:
    assert read(RECORDED.read_text()) == {
        "n1": NodeState("UNKNOWN"),
        "n2": NodeState("UNKNOWN+DRAIN", "bad fan in slot 3 State=IDLE [old]"),
        "n3": NodeState("DOWN", "gpu.ecc, job 12 (firstfault)"),
        "n4": NodeState("UNKNOWN"),
    }


@pytest.mark.parametrize(
    "text", ["", "No nodes in the system\n", "NodeName=n1 \n", " State=IDLE\n", "\0" * 1000]
)
def test_what_is_no_node_is_left_out(text: str) -> None:
    assert read(text) == {}


def scontrol(folder: Path, text: str) -> Path:
    path = folder / "scontrol"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_another_cluster_is_asked_by_its_name(tmp_path: Path) -> None:
    program = scontrol(tmp_path, f'echo "$*" > {tmp_path}/asked; cat {RECORDED}')

    assert len(states(program, 10, "other")) == 4
    assert (tmp_path / "asked").read_text() == "--clusters=other show node -o\n"


def test_the_clusters_name_is_told(tmp_path: Path) -> None:
    program = scontrol(tmp_path, "echo 'ClusterName             = main'")

    assert cluster_name(program, 10) == "main"


def test_an_answer_that_does_not_come_is_told(tmp_path: Path) -> None:
    with pytest.raises(FactsError, match="ended with status 1: no"):
        states(scontrol(tmp_path, "echo no >&2; exit 1"), 10)
    with pytest.raises(FactsError, match="does not name the cluster"):
        cluster_name(scontrol(tmp_path, "echo x"), 10)
