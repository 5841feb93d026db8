"""Every page over a real store, asked while failures arrive."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
import requests

from firstfault.app.board import StoredBoard
from firstfault.model.slurm import JobFacts
from firstfault.store.database import open_store
from firstfault.web import api
from tests.store.fill import failed
from tests.web import boards
from tests.web.board_served import PAGES, places, served

READ = (
    *PAGES,
    "/",
    "/?days=365",
    "/failures",
    "/failures?cause=gpu.&sort=-lost",
    "/failures?text=killed%20limit",
    "/jobs/main/1",
    "/jobs/main/1.json",
    "/api/v1/failures",
    "/api/v1/nodes",
    "/api/v1/causes",
)


@pytest.fixture
def url(store_url: str) -> Iterator[str]:
    boards.stored(store_url).close_store()
    yield store_url


def test_every_page_is_shown_from_a_store_while_failures_arrive(url: str) -> None:
    board, writer = StoredBoard(open_store(url), clock=lambda: boards.NOW), open_store(url)
    stop = threading.Event()
    arrived: list[str] = []

    def arrive() -> None:
        end = boards.ENDS[0]
        while not stop.wait(0.05):
            number = str(9_000_000 + len(arrived))
            facts: JobFacts = msgspec.structs.replace(end.facts, id=number)
            failed(writer, [(facts, len(end.nodes), end.verdict)])
            arrived.append(number)

    arriving = threading.Thread(target=arrive)
    with served([*places(board), *api.places(board, None)]) as base:
        arriving.start()
        with ThreadPoolExecutor(8) as readers:
            answers = list(
                readers.map(lambda path: requests.get(base + path, timeout=60), READ * 3)
            )
        stop.set()
        arriving.join()
        newest = requests.get(f"{base}/api/v1/failures?text=killed", timeout=60).text
    board.close_store()
    writer.close()

    assert [answer.status_code for answer in answers] == [200] * len(answers), [
        (answer.url, answer.status_code) for answer in answers if answer.status_code != 200
    ]
    assert arrived
    assert arrived[0] in newest or len(arrived) > 50
