"""The local runs and what is true of each."""

from __future__ import annotations

from tests.diagnosis.recording.scenarios import crashes, exceptions, resources, together

SCENARIOS = (*exceptions.RUNS, *crashes.RUNS, *resources.RUNS, *together.RUNS)
