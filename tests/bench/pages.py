"""How long each page of the dashboard takes over a million failures, asked as a browser does.

    python -m tests.bench.pages [--failures 1000000] [--database sqlite|postgresql]
                                [--file FILE] [--url URL] [--rounds 9] [--only WORDS]

The store is that of `tests.bench.million`, served by a process of its own. Each page is asked for as an
administrator, some also as a user with few failures and as a coordinator of a quarter of all.
Printed are, in milliseconds, the first answer, the median and the worst of the rounds that follow,
and the processor's time for the first and for one of the others (the server's and its PostgreSQL
backends'), which says more where others use the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import requests
import sqlalchemy as sa
from starlette.requests import Request

from firstfault.app.board import StoredBoard
from firstfault.model.board import FailureFilter
from firstfault.store.database import Database, open_store
from firstfault.web import board as pages
from firstfault.web import files, server
from firstfault.web.access import Identity
from firstfault.web.application import application
from firstfault.web.guard import Entrance
from tests.bench import board, million

ANYBODYS = (
    "/",
    "/?span=7d",
    "/?span=30d",
    "/?span=1y",
    "/failures",
    "/failures?domain=system",
    "/failures?cause=gpu.",
    "/failures?cause=gpu.ecc&confidence=likely",
    "/failures?partition=p3",
    "/failures?cluster=small",
    "/failures?since=2026-11-23&until=2026-11-25",
    "/failures?name=train-0-run0",
    "/failures?text=rank+trouble+oom",
    "/failures?sort=ended",
    "/failures?sort=-lost",
    "/failures?sort=-lost&since=2026-11-01",
    "/failures?sort=-nodes",
    "/causes",
    "/causes/gpu.ecc",
    "/fingerprints",
)
ADMINISTRATORS = (
    "/failures?user=user000",
    "/failures?account=account00",
    "/failures?node=n0700",
    "/failures?node=n0700&sort=-lost&cause=gpu.",
    "/nodes",
    "/nodes/main/n0700",
    "/incidents",
    "/deliveries",
    "/deliveries?state=dead",
    "/health",
)


class Named:
    """Who reads is whom the request names, of `board.READERS`."""

    note = ""

    async def identify(self, request: Request) -> Identity:
        """See `firstfault.web.access.Access`."""
        return Identity(board.READERS[request.headers["x-reader"]])


def serve(url: str) -> None:
    """Serves the pages over a store until standard input ends."""
    stored = StoredBoard(open_store(url))
    found = [*files.places(), *pages.places(stored, None, lambda: million.NOW)]
    sock = server.listener("127.0.0.1", 0)
    with server.serving(application(found, lambda: Entrance(Named())), sock):
        print(server.address(sock), flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def served(url: str) -> Iterator[tuple[str, int]]:
    """The address of the pages over a store, and the process that serves them."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.pages", "--serve", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.communicate()


def addresses(database: Database) -> Iterator[tuple[str, str]]:
    """Who asks, and for which page."""
    stored = StoredBoard(database, clock=lambda: million.NOW)
    for who in ("all", "usual", "coordinator"):
        reader = board.READERS[who]
        page = stored.failures(reader, FailureFilter(cluster="main"))
        second = stored.failures(reader, FailureFilter()).next
        fingerprint = stored.fingerprints(reader).fingerprints[0].fingerprint
        yield from ((who, address) for address in ANYBODYS)
        yield who, f"/failures?page={second}"
        yield who, f"/jobs/main/{page.failures[0].job}"
        yield who, f"/fingerprints/{fingerprint}"
    yield from (("all", address) for address in ADMINISTRATORS)


def busy_s(database: Database, server_pid: int) -> Callable[[], float]:
    """Seconds of the processor that the server and its PostgreSQL backends have had."""
    pids = [server_pid]
    if database.engine.dialect.name == "postgresql":
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        with database.reading() as connection:
            pids += connection.execute(sa.text(query)).scalars()
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return lambda: sum(
        int((task / "schedstat").read_text().split()[0]) / 1e9 for task in tasks if task.exists()
    )


def measure(database: Database, url: str, rounds: int, only: str) -> None:
    """Prints how long each page takes."""
    asked = [(who, each) for who, each in addresses(database) if only in f"{who} {each}"]
    medians = []
    with served(url) as (base, pid), requests.Session() as session:
        print("   first   median    worst | busy: first    later  (ms)")
        for who, address in asked:
            taken, busy = [], []
            for _ in range(1 + rounds):
                spent = busy_s(database, pid)
                before, began = spent(), time.perf_counter()
                answer = session.get(base + address, headers={"x-reader": who}, timeout=120)
                taken.append((time.perf_counter() - began) * 1e3)
                busy.append((spent() - before) * 1e3)
                assert answer.status_code == 200, answer.text
            medians.append(statistics.median(taken[1:]))
            print(
                f"{taken[0]:8.1f} {medians[-1]:8.1f} {max(taken[1:]):8.1f} | "
                f"{busy[0]:11.1f} {statistics.median(busy[1:]):8.1f}  {who} {address[:60]}",
                flush=True,
            )
    slow = sum(median > 100 for median in medians)
    print(
        f"{len(medians)} pages, median {statistics.median(medians):.1f} ms; {slow} over 100 ms, "
        f"the slowest {max(medians):.1f} ms"
    )


def main() -> None:
    """Fills a store where there is none, and asks for its pages."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--serve", help=argparse.SUPPRESS)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--only", default="")
    million.add_store_options(options)
    given = options.parse_args()
    if given.serve is not None:
        serve(given.serve)
        return
    with million.filled(given) as (database, url):
        measure(database, url, given.rounds, given.only)


if __name__ == "__main__":
    main()
