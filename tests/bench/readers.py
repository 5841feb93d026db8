"""Whether the pages stay quick while failures come in and many read.

    python -m tests.bench.readers [--readers 50] [--rate 200] [--seconds 60] [--url STORE]

So many readers each hold a stream of events and load a page every three seconds or so, the
overview and lists most; meanwhile failures are stored, ``--rate`` a minute, as the daemon stores
them. The pages are served by a process of their own over a real store, which is made with some
failures in it unless ``--url`` names one (of `tests.bench.million`). Printed are, for each page, how
often it was asked for, the median, the 95th percentile and the worst in milliseconds, how long
after a failure was stored its readers heard of it, and what went wrong.
"""

from __future__ import annotations

import argparse
import datetime as dt
import http.client
import json
import multiprocessing
import random
import socket
import statistics
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
from starlette.requests import Request

from firstfault.app.board import StoredBoard
from firstfault.model.board import Reader
from firstfault.model.verdict import Job
from firstfault.store.database import open_store
from firstfault.web import board as pages
from firstfault.web import files, server
from firstfault.web.access import Identity
from firstfault.web.application import application
from firstfault.web.guard import Entrance
from tests.store.fill import failed
from tests.web.boards import ENDS, ends

WAIT_S = 60.0
ADMINISTRATORS = 10
PATHS = (
    "/",
    "/",
    "/?span=7d",
    "/?span=30d",
    "/failures",
    "/failures",
    "/failures?domain=system",
    "/failures?cause=gpu.",
    "/failures?sort=-lost",
    "/live/newest",
)


class Named:
    """Readers by a header: some administrators, the others users."""

    note = ""

    async def identify(self, request: Request) -> Identity:
        """See `firstfault.web.access.Access`."""
        number = int(request.headers["x-reader"])
        users = ("alice", "bob", "carol", "dave", "erin")
        if number < ADMINISTRATORS:
            return Identity(Reader(f"admin{number}", administrator=True))
        return Identity(Reader(f"reader{number}", user=users[number % len(users)]))


def serve(url: str, pipe: Connection) -> None:
    """Serves the pages until the other end of ``pipe`` is closed."""
    board = StoredBoard(open_store(url))
    found = [*files.places(), *pages.places(board, None)]
    sock = server.listener("127.0.0.1", 0)
    with server.serving(application(found, lambda: Entrance(Named())), sock):
        pipe.send(sock.getsockname()[1])
        with suppress(EOFError):
            pipe.recv()


class Seen:
    """What the readers met, from all threads."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.times: dict[str, list[float]] = defaultdict(list)
        self.wrong: Counter[str] = Counter()
        self.stored_at: dict[str, float] = {}
        self.heard_s: list[float] = []


def read(seen: Seen, port: int, number: int) -> None:
    """Loads a page now and then."""
    of = random.Random(number)
    while not seen.ended.wait(of.uniform(1.0, 5.0)):
        path = of.choice(PATHS)
        began = time.perf_counter()
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
            connection.request("GET", path, headers={"x-reader": str(number)})
            answer = connection.getresponse()
            answer.read()
            connection.close()
        except OSError as error:
            seen.wrong[f"{path}: {type(error).__name__}"] += 1
            continue
        if answer.status != 200:
            seen.wrong[f"{path}: {answer.status}"] += 1
        seen.times[path].append((time.perf_counter() - began) * 1e3)


def listen(seen: Seen, port: int, number: int) -> None:
    """Holds a stream of events."""
    known: set[str] = set()
    with suppress(OSError):
        sock = socket.create_connection(("127.0.0.1", port), WAIT_S)
        sock.sendall(
            f"GET /live HTTP/1.0\r\nhost: 127.0.0.1\r\nx-reader: {number}\r\n\r\n".encode()
        )
        for line in sock.makefile("r", encoding="utf-8"):
            if seen.ended.is_set():
                return
            if line.startswith("data: "):
                keys = set(json.loads(line[6:]))
                at = time.monotonic()
                new = [seen.stored_at[key] for key in keys - known if key in seen.stored_at]
                seen.heard_s.extend(at - stored for stored in new)
                known |= keys
    if not seen.ended.is_set():
        seen.wrong["/live: ended"] += 1


def write(seen: Seen, url: str, rate: float) -> int:
    """Stores failures until the end; how many."""
    database = open_store(url)
    count = 0
    began = time.monotonic()
    while not seen.ended.wait(max(0.0, began + count * 60 / rate - time.monotonic())):
        end = ENDS[20 + count % 300]
        now = dt.datetime.now(dt.UTC)
        job = f"9{int(began) % 1000:03d}{count:05d}"
        facts = msgspec.structs.replace(end.facts, id=job, ended_at=now)
        named = Job("main", job, None, facts.name, facts.user, "FAILED", len(end.nodes), None)
        facts = msgspec.structs.replace(facts, cluster="main")
        verdict = msgspec.structs.replace(end.verdict, job=named)
        failed(database, [(facts, len(end.nodes), verdict)])
        seen.stored_at[f"/jobs/main/{job}?incarnation=1"] = time.monotonic()
        count += 1
    database.close()
    return count


def main() -> None:
    """Measures, and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--failures", type=int, default=2000)
    parser.add_argument("--url")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = asked.url or f"sqlite:///{Path(folder) / 'ff.db'}"
        if asked.url is None:
            database = open_store(url)
            made = ends(asked.failures)
            failed(database, [(end.facts, len(end.nodes), end.verdict) for end in made])
            database.close()
        report(*measured(url, asked))


def measured(url: str, asked: argparse.Namespace) -> tuple[Seen, int]:
    """What was seen, and how many failures were stored meanwhile."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(url, there))
    process.start()
    there.close()
    port = here.recv()
    seen = Seen()
    threads = [
        threading.Thread(target=each, args=(seen, port, number), daemon=True)
        for number in range(asked.readers)
        for each in (read, listen)
    ]
    for thread in threads:
        thread.start()
    threading.Timer(asked.seconds, seen.ended.set).start()
    count = write(seen, url, asked.rate)
    here.close()
    process.join(10)
    if process.is_alive():
        seen.wrong["the server did not end"] += 1
        process.kill()
    return seen, count


def report(seen: Seen, stored: int) -> None:
    """Prints what was seen."""
    print(f"{'page':32} {'asked':>6} {'median':>7} {'95 %':>7} {'worst':>7}  ms")
    for path, times in sorted(seen.times.items()):
        times.sort()
        late = times[int(len(times) * 0.95)]
        middle = statistics.median(times)
        print(f"{path:32} {len(times):6} {middle:7.0f} {late:7.0f} {times[-1]:7.0f}")
    print(f"{stored} failures were stored meanwhile; heard of {len(seen.heard_s)} times", end="")
    if seen.heard_s:
        seen.heard_s.sort()
        print(
            f", {statistics.median(seen.heard_s):.1f} s after (worst {seen.heard_s[-1]:.1f})",
            end="",
        )
    print(f"\nwrong: {dict(seen.wrong) or 'nothing'}")


if __name__ == "__main__":
    main()
