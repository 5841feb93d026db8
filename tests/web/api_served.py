"""The API, served over a board of a few hundred failures, asked as a program asks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import requests
import sqlalchemy as sa
from starlette.requests import Request

from firstfault.app.board import StoredBoard
from firstfault.model import jobs as j
from firstfault.model.board import NOBODY, Board, Reader
from firstfault.model.explained import Explained, Explainer, Keeper, Upload
from firstfault.model.verdict import Cause, Job, Verdict
from firstfault.store import evidence, schema
from firstfault.store.database import open_store
from firstfault.web import api, server
from firstfault.web.access import Identity
from firstfault.web.application import application
from firstfault.web.guard import Entrance
from firstfault.web.limits import Pace
from tests.store.incoming import incoming
from tests.web import boards

READERS = {
    reader.name: reader
    for reader in (boards.ADMINISTRATOR, boards.ALICE, boards.BOB, boards.STRANGER)
}


class Named:
    """Who reads is who the request says: for tests."""

    note = ""

    async def identify(self, request: Request) -> Identity:
        name = request.headers.get("x-test-reader", boards.ADMINISTRATOR.name)
        return Identity(READERS.get(name, NOBODY), ambient=False)


class Quick:
    """Explains whatever it is sent as unknown, and keeps what it was asked."""

    max_bytes = 1 << 20

    def __init__(self) -> None:
        self.asked: list[tuple[dict[str, bytes], dict[str, str]]] = []

    def explain(self, uploads: Sequence[Upload], hosts: Mapping[str, str]) -> Explained:
        files = {}
        for upload in uploads:
            upload.file.seek(0)
            files[upload.name] = upload.file.read()
        self.asked.append((files, dict(hosts)))
        return Explained(Verdict(Job(), Cause("unknown", "Nothing is known", "either", "unknown")))


class Served:
    """A client of the API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(
        self, path: str, reader: Reader = boards.ADMINISTRATOR, held: str | None = None
    ) -> requests.Response:
        headers = {"x-test-reader": reader.name} | ({"if-none-match": held} if held else {})
        return requests.get(f"{self.url}/api/v1{path}", headers=headers, timeout=30)

    def post(
        self, path: str, body: object = None, reader: Reader = boards.ADMINISTRATOR
    ) -> requests.Response:
        headers = {"x-test-reader": reader.name}
        return requests.post(f"{self.url}/api/v1{path}", json=body, headers=headers, timeout=30)


@contextmanager
def served(
    board: Board, explainer: Explainer | None = None, keeper: Keeper | None = None
) -> Iterator[Served]:
    """The API over ``board``."""
    found = api.places(board, explainer, lambda: boards.NOW, keeper)
    app = application(found, lambda: Entrance(Named()))
    sock = server.listener("127.0.0.1", 0)
    with server.serving(app, sock):
        yield Served(server.address(sock))


@contextmanager
def stored(url: str) -> Iterator[StoredBoard]:
    """The board over a real store with failures, a record of the newest of cluster main, an
    incident that goes on, and messages that were given up."""
    boards.stored(url).close_store()
    database = open_store(url)
    at = boards.NOW - dt.timedelta(hours=1)
    newest = max(
        (end for end in boards.ENDS if end.facts.cluster == "main"), key=lambda end: end.at
    )
    record = incoming(
        newest.nodes[0], newest.facts.id, nodes=newest.nodes, ended_at=newest.at, cluster="main"
    )
    evidence.keep(database, [record], boards.NOW)
    with database.writing() as connection:
        connection.execute(
            schema.incidents.insert().values(
                cluster="main", kind=j.NODE, name="n07", opened_at=at, last_at=at
            )
        )
        keys = connection.execute(sa.select(schema.jobs.c.key).limit(20)).scalars().all()
        for key in keys:
            connection.execute(
                schema.deliveries.insert().values(
                    delivery_id=f"{key}-slack-1",
                    job_key=key,
                    revision=1,
                    channel="slack",
                    state=j.DEAD,
                    attempts=9,
                    created_at=at,
                    error=boards.HOSTILE,
                )
            )
    yield StoredBoard(database, clock=lambda: boards.NOW, channels=lambda: ("slack",))
    database.close()


@contextmanager
def open_api(
    board: Board, explainer: Explainer | None = None, keeper: Keeper | None = None
) -> Iterator[Served]:
    """The API as on a machine without access control: everyone is an administrator, and nobody
    is told to wait."""
    often = Pace(at_once=8, per_minute=1_000_000, all_per_minute=1_000_000)
    app = application(api.places(board, explainer, lambda: boards.NOW, keeper), pace=often)
    sock = server.listener("127.0.0.1", 0)
    with server.serving(app, sock):
        yield Served(server.address(sock))
