"""What all tests share: who may run what, and what a skipped cluster test means."""

from __future__ import annotations

import os
import shutil

import pytest

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what this machine cannot run, or fails it where that was asked for."""
    if item.get_closest_marker("cluster") is not None:
        reason = _no_cluster()
        if reason is not None and os.environ.get("FIRSTFAULT_REQUIRE_CLUSTER") == "1":
            pytest.fail(f"FIRSTFAULT_REQUIRE_CLUSTER=1, and {reason}", pytrace=False)
        if reason is not None:
            pytest.skip(f"no cluster: {reason}")
    if item.get_closest_marker("chromium") is not None and not any(map(shutil.which, _BROWSERS)):
        pytest.skip("no browser: chromium is not installed")


def _no_cluster() -> str | None:
    from tests.cluster import jobs, slurm_cluster

    return slurm_cluster.missing() or jobs.missing()
