"""The newest deliveries in a state are the same, however many there are."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.store import deliveries
from firstfault.store.database import Database, open_store
from firstfault.store.schema import deliveries as table
from firstfault.store.schema import jobs
from tests.store.fill import failed
from tests.web import boards

STATES = (j.SENT, j.SENT, j.SENT, j.PENDING, j.DEAD)


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    failed(opened, [(end.facts, len(end.nodes), end.verdict) for end in boards.ENDS[:60]])
    of = random.Random(5)
    with opened.writing() as connection:
        keys = connection.execute(sa.select(jobs.c.key)).scalars().all()
        rows = [
            {
                "delivery_id": f"{key}-{channel}",
                "job_key": key,
                "revision": 1,
                "channel": channel,
                "state": of.choice(STATES),
                "attempts": 1,
                "created_at": boards.NOW - dt.timedelta(minutes=key),
            }
            for key in keys
            for channel in ("mail", "slack", "slack-admins")
        ]
        of.shuffle(rows)
        connection.execute(table.insert(), rows)
    yield opened
    opened.close()


@pytest.mark.parametrize("few", [1, 40, 20_000])
def test_the_newest_in_some_states_are_listed(
    database: Database, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(deliveries, "_FEW", few)
    every = deliveries.listed(database, 1000)
    assert len(every) == 180

    for states in ([j.DEAD], [j.SENT], [j.PENDING, j.DEAD], [j.SUPERSEDED], ["no such state"]):
        wanted = [one for one in every if one.state in states]
        for limit in (1, 7, 1000):
            assert deliveries.listed(database, limit, states) == wanted[:limit]


def test_where_nothing_was_sent_nothing_is_listed(store_url: str) -> None:
    opened = open_store(store_url)

    assert deliveries.listed(opened, 10) == deliveries.listed(opened, 10, [j.DEAD]) == []
    opened.close()
