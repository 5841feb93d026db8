"""States of nodes for pages: asked seldom, and never waited for long."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from firstfault.app import node_states
from firstfault.app.node_states import NodeStates
from firstfault.slurm.nodes import NodeState

CONFIG = "echo 'ClusterName             = main'"
IDLE = NodeState("IDLE")


def scontrol(folder: Path, nodes: str = "echo 'NodeName=n1 State=IDLE x=1'") -> Path:
    """One that notes each question, and answers those about nodes with ``nodes``."""
    path = folder / "scontrol"
    path.write_text(
        f'#!/bin/sh\necho "$*" >> {folder}/asked\n'
        f'case "$*" in *config*) {CONFIG};; *) {nodes};; esac\n'
    )
    path.chmod(0o755)
    return path


def settle() -> None:
    """Waits for what was asked in the background."""
    for thread in threading.enumerate():
        if thread.name == "node-states":
            thread.join(20)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_one_clusters_nodes_are_known_with_and_without_its_name(tmp_path: Path) -> None:
    asked = NodeStates(scontrol(tmp_path), (), 10)
    asked.known()
    settle()

    assert asked.known() == {("main", "n1"): IDLE, (None, "n1"): IDLE}


def test_clusters_that_are_named_are_asked_each(tmp_path: Path) -> None:
    asked = NodeStates(scontrol(tmp_path), ("a", "b"), 10)
    asked.known()
    settle()

    assert asked.known() == {("a", "n1"): IDLE, ("b", "n1"): IDLE}


def test_it_is_asked_once_a_minute_whoever_reads(tmp_path: Path) -> None:
    clock = Clock()
    asked = NodeStates(scontrol(tmp_path), ("a",), 10, clock)
    for _ in range(20):
        asked.known()
        settle()
    once = (tmp_path / "asked").read_text().count("show node")
    clock.now += node_states.FRESH_S + 1
    asked.known()
    settle()

    assert once == 1
    assert (tmp_path / "asked").read_text().count("show node") == 2


def test_what_slurm_said_is_kept_for_a_while_where_it_answers_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    asked = NodeStates(scontrol(tmp_path), ("a",), 10, clock)
    asked.known()
    settle()
    scontrol(tmp_path, "exit 1")
    clock.now += node_states.FRESH_S + 1
    asked.known()
    settle()
    kept = asked.known()
    clock.now += node_states.STALE_S
    asked.known()
    settle()

    assert kept == {("a", "n1"): IDLE}
    assert asked.known() == {}
    assert {record.getMessage() for record in caplog.records} == {"node-states-unknown"}


def test_a_slurm_that_does_not_answer_is_told_of_once_and_then_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "firstfault")
    clock = Clock()
    asked = NodeStates(scontrol(tmp_path), ("a",), 10, clock)

    def ask(times: int, nodes: str) -> None:
        scontrol(tmp_path, nodes)
        for _ in range(times):
            asked.known()
            settle()
            clock.now += node_states.FRESH_S + 1

    ask(2, "echo 'NodeName=n1 State=IDLE x=1'")
    ask(5, "echo down >&2; exit 1")
    ask(3, "echo away >&2; exit 1")
    ask(2, "echo 'NodeName=n1 State=IDLE x=1'")
    ask(1, "echo down >&2; exit 1")
    clock.now += node_states.TOLD_S
    ask(1, "echo down >&2; exit 1")

    said = [(record.getMessage(), vars(record)["values"].get("count")) for record in caplog.records]
    assert said == [
        ("node-states-unknown", None),
        ("node-states-unknown", 5),
        ("node-states-known", 2),
        ("node-states-unknown", None),
        ("node-states-unknown", 1),
    ]


def test_a_page_does_not_wait_for_a_slurm_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_states, "FIRST_S", 0.01)
    asked = NodeStates(scontrol(tmp_path, "sleep 60"), ("a",), 0.5)

    assert asked.known() == {}
    settle()
