"""The intake by HTTP in this process: a real listener, and a list in the store's place."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from firstfault.intake import listener, spool
from firstfault.intake.batch import Room, Writer
from firstfault.intake.munge import Decode
from firstfault.intake.questions import Answers, Question, Wanted
from firstfault.intake.record import Limits
from firstfault.intake.refused import Aside
from firstfault.intake.requests import Requests
from firstfault.intake.signing import Signatures
from firstfault.model.jobs import Incoming
from tests.intake import senders

LIMITS = Limits(file_bytes=100_000, record_bytes=1_000_000)
TIMES = listener.Times(head_s=0.5, body_s=0.7)


class Kept:
    """Keeps records as a store does; while ``fault`` is set it raises that."""

    def __init__(self) -> None:
        self.records: dict[str, Incoming] = {}
        self.batches: list[int] = []
        self.fault: Exception | None = None
        self.poison: str | None = None
        self.go = threading.Event()
        self.go.set()

    def __call__(self, records: Sequence[Incoming]) -> frozenset[str]:
        self.go.wait(20)
        if self.fault is not None:
            raise self.fault
        if any(record.record_id == self.poison for record in records):
            raise ValueError("a record that the store cannot take")
        new = [record for record in records if record.record_id not in self.records]
        self.records.update((record.record_id, record) for record in records)
        self.batches.append(len(records))
        return frozenset(record.record_id for record in new)


class Served:
    """Where it listens, what it kept, and what it told of its answers."""

    def __init__(self, folder: Path) -> None:
        self.kept = Kept()
        self.folder = folder
        self.port = 0
        self.tls: ssl.SSLContext | None = None
        self.told: list[tuple[str, int, str | None]] = []
        self.room = Room(0)
        self.wanted: Callable[[Question], Answers] = lambda question: Answers(
            {asked.id: Wanted("yes", ("/x",)) for asked in question.asked}, 30
        )

    def connect(self) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        return plain if self.tls is None else self.tls.wrap_socket(plain, server_hostname="n1")

    def post(
        self, body: bytes, signature: str | None = None, path: str = senders.RECORDS
    ) -> tuple[int, dict[str, Any], str | None]:
        """Status, answer and Retry-After of one request, signed by the key unless told otherwise."""
        if signature is None:
            signature = senders.by_key(senders.statement(body, path=path))
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.sock = self.connect()
        try:
            connection.request("POST", path, body, {"Authorization": signature})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read()), answer.getheader("Retry-After")
        finally:
            connection.close()

    def raw(self, data: bytes, *, end: bool = False) -> bytes:
        """What is answered to these bytes until the connection is closed."""
        with self.connect() as plain:
            plain.sendall(data)
            if end:
                plain.shutdown(socket.SHUT_WR)
            return everything(plain)


def everything(plain: socket.socket) -> bytes:
    said = b""
    with suppress(ConnectionResetError):
        while part := plain.recv(65536):
            said += part
    return said


@contextmanager
def serving(
    folder: Path,
    *,
    decode: Decode | None = None,
    room: int = 10_000_000,
    connections: int = 50,
    certificate: tuple[Path, Path] | None = None,
) -> Iterator[Served]:
    served = Served(folder)
    spool.prepare(folder)
    bell, stop = threading.Event(), threading.Event()
    writer = Writer(served.kept, bell.set)
    served.room = Room(room)

    def work() -> None:
        while not stop.is_set():
            bell.wait(1)
            bell.clear()
            try:
                while writer.write():
                    pass
            except (OSError, ValueError):
                time.sleep(0.05)

    sock = listener.listening("127.0.0.1", 0)
    served.port = sock.getsockname()[1]
    worker = threading.Thread(target=work)
    worker.start()
    with ThreadPoolExecutor(4) as pool:
        requests = Requests(
            signatures=Signatures(decode, senders.KEY, frozenset({0}), time.time),
            writer=writer,
            room=served.room,
            limits=LIMITS,
            aside=Aside(folder),
            wanted=lambda question: served.wanted(question),
            checking=pool,
            verifying=pool,
            asking=pool,
            seen=lambda each: served.told.append((each.path, each.status, each.reason)),
        )
        tls = listener.tls(*certificate) if certificate else None
        with listener.serving(listener.Listener(requests.handle, sock, tls, TIMES, connections)):
            yield served
    stop.set()
    bell.set()
    served.kept.go.set()
    worker.join()
    sock.close()
