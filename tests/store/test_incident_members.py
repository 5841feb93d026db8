"""What an incident tells of its jobs is what one gets who reads them all."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.store import common_causes, incident_members
from firstfault.store.database import Database, open_store
from firstfault.store.schema import incident_jobs, incidents, jobs
from tests.store.fill import failed
from tests.web import boards


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    failed(opened, [(end.facts, len(end.nodes), end.verdict) for end in boards.ENDS[:150]])
    yield opened
    opened.close()


def belong(database: Database, sizes: list[int]) -> list[int]:
    """Makes incidents of so many jobs, which came to them in turns; their keys."""
    opened = {"cluster": "main", "kind": j.CAUSE, "name": "x", "opened_at": boards.NOW}
    with database.writing() as connection:
        keys: list[int] = list(connection.execute(sa.select(jobs.c.key)).scalars())
        made = [
            connection.execute(
                incidents.insert()
                .values(**opened, last_at=boards.NOW + dt.timedelta(seconds=number))
                .returning(incidents.c.key)
            ).scalar_one()
            for number in range(len(sizes))
        ]
        of_each = [key for key, size in zip(made, sizes, strict=True) for _ in range(size)]
        random.Random(3).shuffle(of_each)
        pairs = zip(of_each, keys, strict=False)
        rows = [{"incident_key": of, "job_key": job} for of, job in pairs]
        connection.execute(incident_jobs.insert(), rows)
    return made


def read(database: Database, key: int) -> tuple[object, ...]:
    """Of one incident: how many jobs, their names, causes and hosts, from all of its jobs."""
    query = (
        sa.select(jobs.c.job, jobs.c.cause, jobs.c.host)
        .join(incident_jobs, incident_jobs.c.job_key == jobs.c.key)
        .where(incident_jobs.c.incident_key == key)
        .order_by(incident_jobs.c.key.desc())
    )
    with database.reading() as connection:
        rows = connection.execute(query).all()
    causes = Counter(row.cause for row in rows if row.cause).most_common(3)
    hosts = {row.host for row in rows if row.host}
    return len(rows), tuple(row.job for row in rows[:10]), tuple(causes), tuple(sorted(hosts))


def test_incidents_of_any_size_tell_what_their_jobs_are(database: Database) -> None:
    keys = belong(database, [60, 1, 9, 25, 0, 40])

    found = {one.key: one for one in common_causes.listed(database, 10)}
    assert [*found] == keys[::-1]
    for key, one in found.items():
        assert (one.jobs, one.names, one.causes, one.hosts) == read(database, key)
    assert common_causes.listed(database, 1, key=keys[0]) == [found[keys[0]]]


def test_what_a_large_incident_is_made_of_may_be_kept_but_not_its_count(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incident_members, "LARGE", 20)
    large, small = belong(database, [60, 19])
    kept: dict[str, Any] = {}

    def keep(name: str, ask: Callable[[], Any]) -> Any:
        return kept.setdefault(name, ask())

    before = {one.key: one for one in common_causes.listed(database, 10, keep=keep)}
    assert [*kept] == [f"incident {large}"]
    with database.writing() as connection:
        of_large = incident_jobs.c.incident_key == large
        keys = connection.execute(sa.select(incident_jobs.c.key).where(of_large)).scalars().all()
        connection.execute(incident_jobs.delete().where(incident_jobs.c.key.in_(keys[25:])))
    after = common_causes.listed(database, 10, key=large, keep=keep)[0]
    assert (after.jobs, after.names) == read(database, large)[:2]
    assert after.causes == before[large].causes
    assert before[small] == common_causes.listed(database, 10, key=small)[0]


def test_twenty_incidents_are_asked_for_as_one_is(database: Database) -> None:
    belong(database, [6] * 20)
    asked: list[str] = []
    sa.event.listen(
        database.engine, "before_cursor_execute", lambda *each: asked.append(str(each[2]))
    )

    assert len(common_causes.listed(database, 20)) == 20
    many = sum(text.startswith("SELECT") for text in asked)
    asked.clear()
    assert len(common_causes.listed(database, 1)) == 1
    assert many == sum(text.startswith("SELECT") for text in asked) < 6
