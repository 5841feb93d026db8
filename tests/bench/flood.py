"""Every node of a very large job reports at once: what the daemon takes in, and how it judges it.

    python -m tests.bench.flood [--nodes 16384] [--way keep-alive|one-each|spool] [--noise-kib 0]
                                [--clients 2] [--connections 64] [--folder DIR]

A real daemon on SQLite, a real munged of its own; records are packed and signed before the clock
starts, as the nodes do that on processors of their own. Printed are the seconds until the last
record was acknowledged (or, for the spool, taken in), those until the verdict, what the answers
were, the most memory that the daemon held, and the verdict. The clients share the machine with the
daemon. Ends with 1 where a record is lost, or the verdict is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import ctypes
import datetime as dt
import hashlib
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from firstfault.store import listing
from firstfault.store.database import connect
from firstfault.store.schema import evidence
from tests.app.processes import Daemon, configure
from tests.bench import large_job
from tests.bench.large_job import Job
from tests.intake import munged

PATH = "/v1/records"


def sign(socket: str) -> Callable[[bytes], str]:
    """Makes credentials by libmunge; the command costs a process for each."""
    library = ctypes.CDLL("libmunge.so.2")
    library.munge_ctx_create.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.munge_ctx_create())
    library.munge_ctx_set(context, 8, socket.encode())

    def credential(payload: bytes) -> str:
        made = ctypes.c_char_p()
        error = library.munge_encode(ctypes.byref(made), context, payload, len(payload))
        assert error == 0 and made.value is not None, error
        return made.value.decode()

    return credential


def request(job: Job, number: int, credential: Callable[[bytes], str], close: bool) -> bytes:
    body = large_job.body(job, number)
    signed = (
        f"firstfault.statement/1\n{PATH}\nn{number}\n{hashlib.sha256(body).hexdigest()}\n"
        f"{int(time.time())}\n{os.urandom(16).hex()}\nfirstfault.end\n"
    )
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: intake\r\nContent-Length: {len(body)}\r\n"
        f"Authorization: Firstfault-Munge {credential(signed.encode())}\r\n"
        f"{'Connection: close' + chr(13) + chr(10) if close else ''}\r\n"
    )
    return head.encode() + body


class Client:
    """Sends ``requests`` to ``port`` over so many connections; what is not taken is sent again."""

    def __init__(self, port: int, requests: Sequence[bytes], close: bool) -> None:
        self._port = port
        self._left = collections.deque(requests)
        self._close = close
        self.statuses: collections.Counter[str] = collections.Counter()

    async def run(self, connections: int) -> None:
        await asyncio.gather(*(self._send() for _ in range(connections)))

    async def _send(self) -> None:
        writer = None
        while self._left:
            data = self._left.popleft()
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                writer.write(data)
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head)
                assert length is not None
                await reader.readexactly(int(length[1]))
            except (OSError, asyncio.IncompleteReadError) as error:
                self.statuses[type(error).__name__] += 1
                self._left.append(data)
                head = b"connection: close"
            else:
                status = head.split()[1].decode()
                self.statuses[status] += 1
                if status != "200":
                    after = re.search(rb"retry-after: (\d+)", head)
                    assert after is not None, head
                    # A credential is good once: a node would sign anew. Refused before it was
                    # decoded it is good still, and 429 comes before.
                    await asyncio.sleep(float(after[1]))
                    self._left.append(data)
            if writer is not None and (self._close or b"connection: close" in head):
                writer.close()
                writer = None
        if writer is not None:
            writer.close()


def client(
    port: int, socket: str, job: Job, numbers: range, connections: int, close: bool,
    ready: Any, begin: Any, results: Any,
) -> None:  # fmt: skip
    """A process of its own."""
    credential = sign(socket)
    own = Client(port, [request(job, number, credential, close) for number in numbers], close)
    ready.release()
    begin.wait()
    asyncio.run(own.run(connections))
    results.put((time.time(), dict(own.statuses)))


def by_http(given: argparse.Namespace, job: Job, port: int, socket: str) -> tuple[float, float]:
    """When it began and when the last record was acknowledged."""
    context = multiprocessing.get_context("spawn")
    ready, begin, results = context.Semaphore(0), context.Event(), context.Queue()
    processes = [
        context.Process(
            target=client,
            args=(port, socket, job, range(first, job.nodes + 1, given.clients),
                  given.connections, given.way == "one-each", ready, begin, results),
        )
        for first in range(1, given.clients + 1)
    ]  # fmt: skip
    for process in processes:
        process.start()
    for _ in processes:
        ready.acquire()
    begun = time.time()
    begin.set()
    ends, statuses = [], collections.Counter[str]()
    for _ in processes:
        ended, own = results.get()
        ends.append(ended)
        statuses.update(own)
    for process in processes:
        process.join()
    print(f"answers            {dict(statuses)}")
    return begun, max(ends)


def fill(spool: Path, job: Job) -> None:
    for number in range(1, job.nodes + 1):
        (spool / f"c1-n{number}.json.gz").write_bytes(large_job.body(job, number))


def emptied(spool: Path) -> float:
    """When the last file had left the spool."""
    while any(path.suffix == ".gz" for path in spool.iterdir()):
        time.sleep(0.2)
    return time.time()


def processor_s(pid: int) -> float:
    """With that of the processes that it had and waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(each) for each in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    match = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def all_stored(folder: Path, job: Job) -> bool:
    with (
        closing(connect(f"sqlite:///{folder}/ff.db")) as database,
        database.reading() as connection,
    ):
        kept = connection.execute(sa.select(sa.func.count()).select_from(evidence)).scalar()
    print(f"records stored     {kept} of {job.nodes}")
    return kept == job.nodes


def is_right(folder: Path, job: Job) -> bool:
    with closing(connect(f"sqlite:///{folder}/ff.db")) as database:
        (stored,) = listing.current_verdicts(database, job.job, "c1")
    verdict = stored.verdict
    print(
        f"verdict            {verdict.cause.id} {verdict.cause.confidence}, rank "
        f"{verdict.initiator.rank} on {verdict.initiator.host}: {verdict.cause.title}"
    )
    host = f"n{job.culprit // large_job.RANKS + 1}"
    found = (verdict.cause.id, verdict.initiator.rank, verdict.initiator.host)
    return found == ("python.exception", job.culprit, host)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=16_384)
    parser.add_argument("--way", choices=("keep-alive", "one-each", "spool"), default="keep-alive")
    parser.add_argument("--noise-kib", type=int, default=0)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--connections", type=int, default=64, help="of each client at once")
    parser.add_argument("--taking-only", action="store_true", help="do not wait for the verdict")
    parser.add_argument("--folder", type=Path, help="where the daemon's files are; default: /tmp")
    given = parser.parse_args(arguments)
    job = Job(given.nodes, dt.datetime.now(dt.UTC), noise_kib=given.noise_kib)
    with (
        tempfile.TemporaryDirectory(dir=given.folder, prefix="firstfault-bench-") as name,
        munged.running() as own,
    ):
        folder = Path(name)
        config = configure(
            folder,
            intake={"enabled": True, "port": 0, "munge_socket": str(own.socket)},
            judge={"settle_s": 600.0},
        )
        if given.way == "spool":
            fill(folder / "spool", job)
        begun = time.time()
        with Daemon(config) as daemon:
            pid = daemon.process.pid
            port = int(daemon.wait_for(r"event=intake url=\S+:(\d+)")[1])
            if given.way == "spool":
                ended = emptied(folder / "spool")
            else:
                begun, ended = by_http(given, job, port, str(own.socket))
            print(f"{given.way:<18} {ended - begun:.1f} s for {job.nodes} records")
            print(
                f"processor          {processor_s(pid):.1f} s of the daemon's, its start included"
            )
            print(f"memory             {peak_mib(pid):.0f} MiB at most, taking in")
            if given.taking_only:
                return 0 if all_stored(folder, job) else 1
            daemon.wait_for("event=judged .*cause=", 3600)
            print(f"judged             {time.time() - ended:.1f} s later")
            print(f"processor          {processor_s(pid):.1f} s of the daemon's in all")
            print(f"memory             {peak_mib(pid):.0f} MiB at most")
            return 0 if all_stored(folder, job) and is_right(folder, job) else 1


if __name__ == "__main__":
    sys.exit(main())
