"""What the crash tests share: a receiver, and what an undisturbed daemon tells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash import stream
from tests.crash.site import Site, Told, told
from tests.fakes.slack import SlackServer


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, Told]]:
    """What a daemon that is left alone tells of each recorded case: job id and outcome."""
    folder = tmp_path_factory.mktemp("undisturbed")
    known = stream.jobs(len(stream.RECORDED))
    with SlackServer() as slack:
        site = Site(folder, f"sqlite:///{folder}/ff.db", slack)
        site.expect(known)
        site.put(known)
        site.finish(180)
    outcomes = told(site)
    return {job.case: (job.id, outcomes[job.id]) for job in known}


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    with SlackServer() as server:
        yield server
