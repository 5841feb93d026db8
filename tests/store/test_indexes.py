"""Every query that the daemon runs finds its rows by an index: a store of years is as fast as a new
one."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from firstfault.app.board import StoredBoard
from firstfault.model import board as b
from firstfault.model import jobs as j
from firstfault.store import (
    backlog,
    deliveries,
    ends,
    filling,
    incidents,
    listing,
    retention,
    sweeps,
)
from firstfault.store.database import Database, open_store
from tests.store.fill import failed
from tests.store.recording import NOW, life_of_a_job
from tests.web import boards

# What counts or adds up a whole table reads an index from end to end instead.
_WHOLE = re.compile(r"count\(|sum\(", re.IGNORECASE)
# There are as many rows as the clusters have nodes.
_FEW = "nodes"
SORTS: tuple[b.Sort, ...] = ("-lost", "-ended", "ended", "-nodes")
_READS = re.compile(r"(SELECT|UPDATE|DELETE)\b")


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def everything(database: Database) -> None:
    """All that the daemon, its pages and its commands ask the store."""
    life_of_a_job(database)
    long_ago, far = NOW - dt.timedelta(days=1), NOW + dt.timedelta(days=999)
    backlog.backlog(database, ["slack"], NOW)
    backlog.last_record_at(database, 1)
    backlog.unjudged_since(database)
    deliveries.listed(database, 10, [j.DEAD])
    ends.ends_of(database, ["12"])
    ends.have_reported(database, 1, ["n1"])
    ends.stored_ids(database, ["x"])
    incidents.newest(database, long_ago)
    incidents.newest(database, long_ago, "n1")
    listing.current_verdicts(database, "12", any_cluster=True)
    sweeps.position(database, "ended")
    retention.evidence_size(database)
    retention.remove_oldest_evidence(database, NOW)
    retention.remove_evidence(database, far, NOW)
    for job in retention.expired(database, far, 10):
        retention.remove_job(database, job)


def the_boards(database: Database) -> None:
    """All that the dashboard, the API and their commands ask the store."""
    failed(database, [(end.facts, len(end.nodes), end.verdict) for end in boards.ENDS[:40]])
    board = StoredBoard(database, clock=lambda: boards.NOW)
    day, until = dt.timedelta(days=1), boards.NOW
    readers = (boards.ADMINISTRATOR, boards.BOB)
    for reader, days, cluster in itertools.product(readers, (1, 30, 365), (None, "main")):
        board.overview(reader, until - days * day, until, cluster)
    for reader in readers:
        shown = board.failures(reader, b.FailureFilter(), limit=1).failures[0]
        board.failure(reader, shown.cluster, shown.job)
        board.ends(reader, shown.job)
        page = board.fingerprints(reader, limit=1)
        board.fingerprints(reader, page.next, limit=1)
        board.fingerprint(reader, page.fingerprints[0].fingerprint)
        board.newest_at(reader)
        for which in filters(shown):
            first = board.failures(reader, which, limit=1)
            if first.next is None:
                continue
            second = board.failures(reader, which, first.next, limit=1)
            board.failures(reader, which, second.previous, limit=1)
    board.node(boards.ADMINISTRATOR, "main", "n07", until - 90 * day, until)
    board.note(boards.ADMINISTRATOR, page.fingerprints[0].fingerprint, "known")
    board.evidence(boards.ADMINISTRATOR, shown.cluster, shown.job, 1, "n1")
    board.health(boards.ADMINISTRATOR)
    board.incidents(boards.ADMINISTRATOR)
    filling.fill(database)


def filters(shown: b.Failure) -> Iterator[b.FailureFilter]:
    """Every field alone and with each other one, in every order of the rows."""
    since, until = shown.ended_at - dt.timedelta(days=9), boards.NOW
    fields: dict[str, Any] = {
        name: getattr(shown, name)
        for name in ("cluster", "domain", "confidence", "user", "account", "partition", "name")
    }
    fields |= {"fingerprint": shown.fingerprint, "node": "n07", "since": since, "until": until}
    fields |= {"text": "rank job memory", "cause": "memory."}
    several = itertools.combinations(fields, 2)
    for names in ((), *((name,) for name in fields), *several, tuple(fields)):
        # Two together are read by the index of one: which, is the same in every order.
        for sort in SORTS[:1] if len(names) == 2 else SORTS:
            given = {name: fields[name] for name in names}
            yield b.FailureFilter(**given, sort=sort)


def asked(database: Database, everything: Callable[[Database], None]) -> list[tuple[str, Any]]:
    """The statements of ``everything``, each once, with the parameters of one of its runs."""
    seen: dict[str, Any] = {}

    @sa.event.listens_for(database.engine, "before_cursor_execute")
    def keep(
        _connection: object, _cursor: object, statement: str, parameters: Any, *_more: object
    ) -> None:
        if _READS.match(statement) and re.search(r"\b(FROM|UPDATE)\b", statement):
            seen.setdefault(statement, parameters)

    everything(database)
    sa.event.remove(database.engine, "before_cursor_execute", keep)
    return list(seen.items())


def full_scans(database: Database, statement: str, parameters: Any) -> list[str]:
    """The plan's steps that read a whole table."""
    postgresql = database.engine.dialect.name == "postgresql"
    with database.reading() as connection:
        if postgresql:
            # A table of a few rows is read whole, whatever its indexes.
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        explain = "EXPLAIN" if postgresql else "EXPLAIN QUERY PLAN"
        plan = connection.exec_driver_sql(f"{explain} {statement}", parameters).all()
    steps = [str(row[-1]) for row in plan]
    if postgresql:
        # An index of other columns, read from end to end, is a whole table too, but for its order.
        filtered = [
            step
            for step, below in itertools.pairwise(steps)
            if "Index Scan" in step and "Filter:" in below and "ORDER BY" not in statement
        ]
        return [s for s in steps if re.search(f"Seq Scan on (?!{_FEW} )", s)] + filtered
    # What the statement itself has put together is read whole.
    steps = [step for step in steps if not re.match(f"SCAN ({_FEW}$|anon_|list-subquery)", step)]
    whole = "COVERING INDEX" if _WHOLE.search(statement) else "INDEX"
    return [step for step in steps if step.startswith("SCAN") and whole not in step]


@pytest.mark.parametrize("everything", [everything, the_boards])
def test_no_query_reads_a_whole_table(
    database: Database, everything: Callable[[Database], None]
) -> None:
    statements = asked(database, everything)

    found = {
        statement: scans
        for statement, parameters in statements
        if (scans := full_scans(database, statement, parameters))
    }

    assert len(statements) > 40
    assert found == {}


@pytest.mark.parametrize("column", ["title", "posted"])
def test_a_query_without_an_index_is_found(database: Database, column: str) -> None:
    assert full_scans(database, f"SELECT key, posted FROM jobs WHERE {column} IS NULL", ())
