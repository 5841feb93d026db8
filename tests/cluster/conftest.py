"""One cluster for all tests here, started once, with the jobs of the tests that were chosen."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import session as cluster_session
from tests.cluster.session import Session

HERE = Path(__file__).parent


@pytest.fixture(scope="package")
def cluster(request: pytest.FixtureRequest) -> Iterator[Session]:
    """The running cluster; every chosen test's ``name`` parameter is a job that is under way."""
    names = {
        item.callspec.params["name"]
        for item in request.session.items
        if item.path.is_relative_to(HERE)
        and "cluster" in getattr(item, "fixturenames", ())
        and hasattr(item, "callspec")
    }
    # a terminated run cleans up after itself as an interrupted one does
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with cluster_session.running(names) as session:
            yield session
    finally:
        signal.signal(signal.SIGTERM, before)
