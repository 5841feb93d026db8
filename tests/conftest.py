"""What all tests share: who may run what, and what a skipped cluster test means."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.databases import postgresql, postgresql_url, store_url

# Fixtures that every test may ask for.
__all__ = ["postgresql", "postgresql_url", "store_url"]

_OF_REAL_PROGRAMS = ("cluster", "chromium", "slow")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--soak``: the tests that take minutes, too."""
    parser.addoption("--soak", action="store_true", help="run the long tests (marker soak) as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the tests marked ``soak`` out, whatever ``-m`` says, unless ``--soak`` is given.

    What waits for real programs gets a second try, which the closing line tells of ("1 rerun").
    """
    for item in items:
        if any(item.get_closest_marker(mark) for mark in _OF_REAL_PROGRAMS):
            item.add_marker(pytest.mark.flaky(reruns=1))
    if config.getoption("--soak"):
        return
    left_out = [item for item in items if item.get_closest_marker("soak") is not None]
    items[:] = [item for item in items if item not in set(left_out)]
    config.hook.pytest_deselected(items=left_out)


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
