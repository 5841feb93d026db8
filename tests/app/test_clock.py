"""Steps of the clock are told from its running."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

from firstfault.app.clock import SetBack
from firstfault.store import evidence, work
from firstfault.store.database import Database, open_store
from tests.intake.records import ENDED_AT
from tests.store.incoming import incoming


class Clocks:
    """A wall clock and a monotonic one."""

    def __init__(self) -> None:
        self.wall_s = ENDED_AT.timestamp()
        self.monotonic_s = 100.0

    def run(self, seconds: float) -> None:
        self.wall_s += seconds
        self.monotonic_s += seconds

    def now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.wall_s, dt.UTC)


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def test_only_a_step_back_makes_due_what_it_has_put_off(database: Database) -> None:
    clocks = Clocks()
    woken: list[dt.datetime] = []
    watched = SetBack(
        database,
        lambda: woken.append(clocks.now()),
        lambda: clocks.wall_s,
        lambda: clocks.monotonic_s,
    )
    evidence.keep(database, [incoming()], clocks.now())
    assert watched.once() == 0
    clocks.run(10)
    assert watched.once() == 0

    clocks.wall_s -= 3600

    assert watched.once() == 1
    assert woken == [clocks.now()]
    assert len(work.claim_jobs(database, clocks.now(), 60, 10).jobs) == 1
    clocks.wall_s += 86400
    assert watched.once() == 0


def test_what_lies_in_the_future_at_the_start_is_due(database: Database) -> None:
    clocks = Clocks()
    evidence.keep(database, [incoming()], clocks.now() + dt.timedelta(days=1))

    SetBack(database, lambda: None, lambda: clocks.wall_s, lambda: clocks.monotonic_s).once()

    assert len(work.claim_jobs(database, clocks.now(), 60, 10).jobs) == 1
