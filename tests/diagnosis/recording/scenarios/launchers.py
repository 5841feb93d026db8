"""Launchers other than torchrun: PyTorch Lightning's own."""

from __future__ import annotations

from tests.diagnosis.recording.local import Scenario
from tests.diagnosis.recording.scenarios.versions import T24, fault

LIGHTNING = "lightning_train.py"

RUNS = (
    Scenario(
        "t24-lightning-exception",
        T24,
        "exception",
        ("python.exception",),
        fault("exception", 1),
        rank=1,
        nodes=1,
        launcher=LIGHTNING,
        script="",
        confidence=None,
        key="ValueError: expected 4 features, got 5",
        teaches="Lightning starts rank 1 itself and ends all when it fails",
    ),
    Scenario(
        "t24-lightning-exception-main",
        T24,
        "exception",
        ("python.exception",),
        fault("exception", 0),
        rank=0,
        nodes=1,
        launcher=LIGHTNING,
        script="",
        confidence=None,
        key="ValueError: expected 4 features, got 5",
        teaches="the same on rank 0, which is the launcher, too",
    ),
    Scenario(
        "t24-lightning-segfault",
        T24,
        "segfault",
        ("process.segfault", "collective.peer-lost"),
        fault("segfault", 1),
        nodes=1,
        launcher=LIGHTNING,
        script="",
        confidence=None,
        teaches="a child of Lightning's dies of a signal, and nothing says so",
    ),
    Scenario(
        "t24-lightning-killed",
        T24,
        "SIGKILL",
        ("process.killed", "collective.peer-lost"),
        fault("kill-self", 1),
        nodes=1,
        launcher=LIGHTNING,
        script="",
        confidence=None,
        teaches="a child of Lightning's is killed, and nothing says so",
    ),
)
