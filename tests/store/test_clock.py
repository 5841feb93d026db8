"""After the clock was set back nothing lies longer than it would have."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from firstfault.store import evidence, work
from firstfault.store.clock import bring_near
from firstfault.store.database import Database, open_store
from firstfault.store.schema import deliveries, jobs
from tests.intake.records import ENDED_AT
from tests.store.incoming import incoming

HOUR = dt.timedelta(hours=1)


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def test_what_was_seen_in_the_future_is_due_now(database: Database) -> None:
    now = ENDED_AT + dt.timedelta(seconds=2)
    evidence.keep(database, [incoming()], now + HOUR)
    assert work.claim_jobs(database, now, 60, 10).jobs == ()

    assert bring_near(database, now, HOUR) == 1

    (job,) = work.claim_jobs(database, now, 60, 10).jobs
    assert job.first_seen_at == now


def test_what_is_put_off_by_less_than_the_longest_wait_is_left_alone(database: Database) -> None:
    now = ENDED_AT + dt.timedelta(seconds=2)
    evidence.keep(database, [incoming()], now)
    with database.writing() as connection:
        connection.execute(jobs.update().values(look_at=now + HOUR, ask_at=now + 2 * HOUR))
        key = connection.execute(sa.select(jobs.c.key)).scalar_one()
        for number, wait in enumerate((HOUR, 2 * HOUR)):
            values = {"delivery_id": str(number), "job_key": key, "revision": number}
            connection.execute(
                deliveries.insert().values(
                    channel="slack",
                    state="pending",
                    attempts=0,
                    next_at=now + wait,
                    created_at=now,
                    **values,
                )
            )

    assert bring_near(database, now, HOUR + dt.timedelta(seconds=1)) == 2

    with database.reading() as connection:
        row = connection.execute(sa.select(jobs.c.look_at, jobs.c.ask_at)).one()
        times = connection.execute(sa.select(deliveries.c.next_at).order_by("key")).scalars().all()
    assert tuple(row) == (now, now)
    assert list(times) == [now + HOUR, now]
