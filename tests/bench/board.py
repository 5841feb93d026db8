"""How long the dashboard's questions take over a million failures.

    python -m tests.bench.board [--failures 1000000] [--database sqlite|postgresql]
                                [--file FILE] [--url URL] [--rounds 5] [--only WORDS]

The store is that of `tests.bench.million`: ``--file`` keeps the SQLite file and uses it again,
``--url`` uses a store that was filled so.
Printed are, for each question, the median and the worst of all rounds in milliseconds, and the
processor's part of the median (of PostgreSQL's process, too), which says more where others use the
machine.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import sqlalchemy as sa

from firstfault.app.board import StoredBoard
from firstfault.model import board as b
from firstfault.store.database import Database
from tests.bench.million import NOW, add_store_options, filled

ADMINISTRATOR = b.Reader("root", administrator=True)
TOP = b.Reader("user000", user="user000")
USUAL = b.Reader("user100", user="user100")
COORDINATOR = b.Reader("user003", user="user003", accounts=("account00", "account01"))
READERS = {"all": ADMINISTRATOR, "top": TOP, "usual": USUAL, "coordinator": COORDINATOR}


def questions(board: StoredBoard) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every question, by a name."""
    day = dt.timedelta(days=1)
    until = NOW + day
    for who, reader in READERS.items():
        for days in (1, 7, 30, 90, 365):
            since = until - days * day
            yield f"overview {days} d, {who}", _fixed(board.overview, reader, since, until)
        yield f"causes 365 d, {who}", _fixed(board.causes, reader, until - 365 * day, until)
        yield f"fingerprints, {who}", _fixed(board.fingerprints, reader)
        yield f"newest, {who}", _fixed(board.newest_at, reader)
        yield f"failure, {who}", _fixed(board.failure, reader, "main", _job_of(board, reader))
    for days in (7, 30, 365):
        since = until - days * day
        yield f"nodes {days} d", _fixed(board.nodes, ADMINISTRATOR, since, until)
        yield f"node {days} d", _fixed(board.node, ADMINISTRATOR, "main", "n0700", since, until)
    yield "health", _fixed(board.health, ADMINISTRATOR)
    yield "deliveries", _fixed(board.deliveries, ADMINISTRATOR)
    yield "incidents", _fixed(board.incidents, ADMINISTRATOR)
    for who in ("all", "usual", "coordinator"):
        for sort in ("-ended", "-lost", "-nodes"):
            for which in _filters(sort):
                said = msgspec.json.encode(which).decode()
                yield f"{who} {said}", _fixed(board.failures, READERS[who], which)
    for which in (b.FailureFilter(), b.FailureFilter(cause="gpu."), b.FailureFilter(domain="user")):
        page = board.failures(ADMINISTRATOR, which)
        for _ in range(20):
            page = board.failures(ADMINISTRATOR, which, page.next)
        said = msgspec.json.encode(which).decode()
        yield f"page 21 {said}", _fixed(board.failures, ADMINISTRATOR, which, page.next)
        yield f"back 21 {said}", _fixed(board.failures, ADMINISTRATOR, which, page.previous)


def _job_of(board: StoredBoard, reader: b.Reader) -> str:
    which = b.FailureFilter(cluster="main")
    return board.failures(reader, which, limit=1).failures[0].job


def _filters(sort: str) -> Iterator[b.FailureFilter]:
    week, year = NOW - dt.timedelta(days=7), NOW - dt.timedelta(days=364)
    for given in (
        {},
        {"since": week},
        {"since": year},
        {"cluster": "small"},
        {"domain": "system"},
        {"domain": "user", "confidence": "unknown"},
        {"domain": "system", "confidence": "possible", "partition": "p3", "cluster": "small"},
        {"cause": "gpu.ecc"},
        {"cause": "gpu."},
        {"cause": "memory.", "since": week},
        {"user": "user000"},
        {"user": "user150"},
        {"user": "user000", "cause": "unknown", "domain": "user"},
        {"account": "account00"},
        {"account": "account00", "user": "user150"},
        {"partition": "p3"},
        {"node": "n0700"},
        {"node": "n0700", "user": "user150"},
        {"node": "n0700", "cause": "gpu.", "since": week},
        {"name": "train-0-run0"},
        {"name": "train-1-run4900"},
        {"text": "rank"},
        {"text": "rank trouble oom"},
        {"text": "n0700 ecc"},
        {"text": "user150 ecc rank"},
        {"text": "nothing of the kind"},
        {"text": "rank", "user": "user150", "domain": "user"},
        {"text": "ecc", "partition": "p3", "since": week},
    ):
        yield b.FailureFilter(**given, sort=sort)  # type: ignore[arg-type]


def _fixed(ask: Callable[..., object], *arguments: object) -> Callable[[], object]:
    return lambda: ask(*arguments)


def _busy_s(database: Database) -> Callable[[], float]:
    """Seconds of the processor that this process and its PostgreSQL backend have had."""
    if database.engine.dialect.name != "postgresql":
        return time.process_time
    with database.reading() as connection:
        pid = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
    backend = Path(f"/proc/{pid}/schedstat")
    return lambda: time.process_time() + int(backend.read_text().split()[0]) / 1e9


def measure(database: Database, rounds: int, only: str) -> None:
    """Prints how long each question takes."""
    now = [NOW]

    def clock() -> dt.datetime:
        now[0] += dt.timedelta(minutes=1)  # nothing is answered from before
        return now[0]

    board = StoredBoard(database, clock=clock)
    slow, medians = 0, []
    busy_s = _busy_s(database)
    for name, ask in questions(board):
        if only not in name:
            continue
        times, busy = [], []
        for _ in range(rounds):
            began, began_busy = time.perf_counter(), busy_s()
            ask()
            times.append((time.perf_counter() - began) * 1e3)
            busy.append((busy_s() - began_busy) * 1e3)
        median = statistics.median(times)
        medians.append(median)
        slow += median > 100
        mark = " <--" if median > 100 else ""
        print(
            f"{median:8.1f} {max(times):8.1f} {statistics.median(busy):8.1f}  {name}{mark}",
            flush=True,
        )
    print(
        f"{len(medians)} questions, median {statistics.median(medians):.1f} ms; {slow} over 100 ms"
    )


def main() -> None:
    """Fills a store where there is none, and asks."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", default="")
    add_store_options(options)
    given = options.parse_args()
    with filled(given) as (database, _url):
        print("  median    worst     busy  (ms)")
        measure(database, given.rounds, given.only)


if __name__ == "__main__":
    main()
