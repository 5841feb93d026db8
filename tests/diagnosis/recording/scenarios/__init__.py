"""The local runs and what is true of each."""

from __future__ import annotations

from tests.diagnosis.recording.scenarios import (
    agents,
    crashes,
    data,
    exceptions,
    launchers,
    resources,
    settings,
    starts,
    together,
)

SCENARIOS = (
    *exceptions.RUNS,
    *starts.RUNS,
    *crashes.RUNS,
    *resources.RUNS,
    *data.RUNS,
    *together.RUNS,
    *agents.RUNS,
    *settings.RUNS,
    *launchers.RUNS,
)
