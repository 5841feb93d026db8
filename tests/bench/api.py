"""How long the API takes over a million failures, and what an export of all of them costs.

    python -m tests.bench.api [--failures 1000000] [--file FILE] [--rounds 9]

The store is that of `tests.bench.million` (``--file`` keeps it and uses it again), served by a process
of its own. Printed are, for each address, the median and the worst of all rounds in milliseconds;
then the export's lines, bytes, seconds and the memory that the server took for it.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import requests

from firstfault.store.database import open_store
from tests.bench import million

HOURS = 365 * 24
ADDRESSES = (
    "/failures",
    "/failures?limit=500",
    "/failures?user=user007",
    "/failures?cause=gpu.&domain=system",
    "/failures?text=memory",
    "/failures?node=n0700",
    "/failures?sort=-lost",
    "/failures?sort=-nodes&since=2026-06-01",
    "/overview?hours=24",
    f"/overview?hours={HOURS}",
    f"/causes?hours={HOURS}",
    "/nodes?hours=720",
    "/nodes/main/n0700?hours=720",
    "/fingerprints",
    "/health",
    "/openapi.json",
)
_SERVE = """
import sys, time
from firstfault.app.board import StoredBoard
from firstfault.store.database import open_store
from firstfault.web import api, server
from firstfault.web.application import application
from tests.bench.million import NOW

board = StoredBoard(open_store(sys.argv[1]), clock=lambda: NOW)
sock = server.listener("127.0.0.1", 0)
with server.serving(application(api.places(board, None, lambda: NOW)), sock):
    print(server.address(sock), flush=True)
    sys.stdin.read()
"""


@contextmanager
def served(url: str) -> Iterator[tuple[str, psutil.Process]]:
    """The API over a store, and the process that serves it."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip() + "/api/v1", psutil.Process(process.pid)
    finally:
        process.communicate()


def timed(session: requests.Session, address: str) -> float:
    """Seconds for one answer."""
    began = time.perf_counter()
    answer = session.get(address, timeout=120)
    taken = time.perf_counter() - began
    assert answer.status_code == 200, answer.text
    return taken


def export(session: requests.Session, address: str, process: psutil.Process) -> None:
    """Reads all failures as CSV, and prints what that took."""
    before = peak = process.memory_info().rss
    began, lines, size, looked_at = time.perf_counter(), 0, 0, 0.0
    with session.get(address, stream=True, timeout=120) as answer:
        for chunk in answer.iter_content(1 << 20):
            lines, size = lines + chunk.count(b"\n"), size + len(chunk)
            if time.perf_counter() > looked_at + 0.5:
                looked_at = time.perf_counter()
                peak = max(peak, process.memory_info().rss)
    print(
        f"export: {lines} lines, {size >> 20} MiB in {time.perf_counter() - began:.1f} s, "
        f"{(peak - before) / 2**20:.1f} MiB more memory than before ({before >> 20} MiB)"
    )


def main() -> None:
    """Fills a store where there is none, and asks."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--failures", type=int, default=1_000_000)
    options.add_argument("--file", type=Path)
    options.add_argument("--rounds", type=int, default=9)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = given.file or Path(folder) / "board.db"
        if not file.exists():
            database = open_store(f"sqlite:///{file}")
            million.fill(database, given.failures)
            database.close()
        with served(f"sqlite:///{file}") as (url, process), requests.Session() as session:
            print("  median    worst  (ms)")
            for address in ADDRESSES:
                taken = [1000 * timed(session, url + address) for _ in range(given.rounds)]
                print(f"{statistics.median(taken):8.1f} {max(taken):8.1f}  {address}")
            export(session, f"{url}/failures.csv", process)


if __name__ == "__main__":
    main()
