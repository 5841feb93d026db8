"""What a program of before judged is listed and counted afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from firstfault.store import filling
from firstfault.store.database import Database, open_store
from firstfault.store.failure_tables import fingerprint_notes
from firstfault.store.schema import jobs, metadata, verdicts
from tests.store import recount
from tests.store.fill import failed
from tests.web import boards

OURS = (*recount.TABLES, "failures", "failure_nodes", "failure_words", "names", "nodes")
ENDS = [(end.facts, len(end.nodes), end.verdict) for end in boards.ENDS[:60]]


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    failed(opened, ENDS)
    yield opened
    opened.close()


def passed(database: Database, limit: int) -> int:
    """How many failures one pass over all jobs has put in order."""
    put, step = 0, filling.fill(database, limit=limit)
    while True:
        put += step.put
        if step.below is None:
            return put
        step = filling.fill(database, step.below, limit)


def forget(database: Database) -> None:
    with database.writing() as connection:
        for name in OURS:
            connection.execute(metadata.tables[name].delete())


@pytest.mark.parametrize("limit", [7, 500])
def test_all_that_was_judged_before_is_listed_and_counted(database: Database, limit: int) -> None:
    wanted = recount.texts(database)
    forget(database)

    put = passed(database, limit)

    assert put == len(ENDS)
    assert recount.texts(database) == wanted
    assert recount.counted(database) == recount.recounted(database)


def test_where_nothing_is_missing_nothing_is_written(database: Database) -> None:
    assert passed(database, 9) == 0


def test_a_pass_that_is_killed_is_taken_up_by_the_next(database: Database) -> None:
    forget(database)
    filling.fill(database, limit=10)

    assert passed(database, 9) == len(ENDS) - 10
    assert recount.counted(database) == recount.recounted(database)


def test_jobs_that_a_program_of_before_removed_are_counted_no_more(database: Database) -> None:
    gone = random.Random(3).sample(range(1, len(ENDS)), 20)
    with database.writing() as connection:
        connection.execute(verdicts.delete().where(verdicts.c.job_key.in_(gone)))
        for name in ("node_incidents", "signs"):
            table = metadata.tables[name]
            connection.execute(table.delete().where(table.c.job_key.in_(gone)))
        connection.execute(jobs.delete().where(jobs.c.key.in_(gone)))

    assert passed(database, 11) == len(gone)
    assert recount.counted(database) == recount.recounted(database)


def test_a_verdict_that_cannot_be_read_holds_up_no_other(database: Database) -> None:
    forget(database)
    with database.writing() as connection:
        connection.execute(verdicts.update().where(verdicts.c.key == 5).values(body=b"{"))

    steps = [filling.fill(database)]
    while steps[-1].below is not None:
        steps.append(filling.fill(database, steps[-1].below))

    assert sum(step.put for step in steps) == len(ENDS) - 1
    assert sum(step.unreadable for step in steps) == 1
    assert max(step.put for step in steps) <= filling.AT_ONCE


def test_what_somebody_knows_of_a_fingerprint_stays(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(
            fingerprint_notes.insert().values(
                fingerprint="1:x", note="known", noted_by="root", noted_at=boards.NOW
            )
        )
    forget(database)
    passed(database, 500)

    with database.reading() as connection:
        assert connection.execute(sa.select(fingerprint_notes.c.note)).scalar() == "known"
