"""One cluster for all tests here: started once, with the jobs of the tests that were chosen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import session as cluster_session
from tests.cluster.session import Session


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Session]:
    """The running cluster; every chosen test's ``name`` parameter is a job that is under way."""
    names = {
        item.callspec.params["name"]
        for item in request.session.items
        if "cluster" in getattr(item, "fixturenames", ()) and hasattr(item, "callspec")
    }
    with cluster_session.running(names) as session:
        yield session
