"""Steps of the clock are told from its running."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import NamedTuple

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


class Watched(NamedTuple):
    clocks: Clocks
    once: Callable[[], int]
    woken: list[dt.datetime]


@pytest.fixture
def watched(database: Database) -> Watched:
    clocks = Clocks()
    woken: list[dt.datetime] = []
    wall, monotonic = lambda: clocks.wall_s, lambda: clocks.monotonic_s
    set_back = SetBack(database, lambda: woken.append(clocks.now()), wall, monotonic)
    return Watched(clocks, set_back.once, woken)


def due(database: Database, watched: Watched) -> int:
    return len(work.claim_jobs(database, watched.clocks.now(), 60, 10).jobs)


def test_only_a_step_back_makes_due_what_it_has_put_off(
    database: Database, watched: Watched
) -> None:
    evidence.keep(database, [incoming()], watched.clocks.now())
    watched.once()
    watched.clocks.run(10)
    watched.once()
    assert watched.woken == []

    watched.clocks.wall_s -= 3600
    watched.once()

    assert watched.woken == [watched.clocks.now()]
    assert due(database, watched) == 1
    watched.clocks.wall_s += 86400
    watched.once()
    assert len(watched.woken) == 1


def test_what_was_in_hand_during_the_step_is_made_due_when_it_is_stored(
    database: Database, watched: Watched
) -> None:
    before = watched.clocks.now()
    watched.once()
    watched.clocks.wall_s -= 3600
    watched.once()
    evidence.keep(database, [incoming()], before)
    assert due(database, watched) == 0

    watched.clocks.run(5)
    watched.once()

    assert due(database, watched) == 1


def test_what_lies_in_the_future_at_the_start_is_due(database: Database, watched: Watched) -> None:
    evidence.keep(database, [incoming()], watched.clocks.now() + dt.timedelta(days=1))

    watched.once()

    assert due(database, watched) == 1
