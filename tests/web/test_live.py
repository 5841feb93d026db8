"""Server-sent events: what changed, to whom, and how the streams end."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from queue import Queue
from urllib.parse import urlsplit

import pytest
import requests
from starlette.types import Message, Receive, Scope, Send

from firstfault.model import board as b
from firstfault.web import board as pages
from firstfault.web import files, server
from firstfault.web.application import application
from firstfault.web.board import live
from firstfault.web.guard import Entrance
from tests.web.boards import ALICE, ENDS, NOW, Remembered
from tests.web.test_failures_pages import Named

WAIT_S = 20.0


class Growing(Remembered):
    """A board to which failures come; counts what it is asked, and may fail."""

    def __init__(self) -> None:
        super().__init__(ENDS[10:])
        self.asked: list[tuple[str, b.Reader]] = []
        self.error: Exception | None = None

    def add(self, count: int) -> None:
        self._ends = [*ENDS[:count], *self._ends]

    def newest_at(self, reader: b.Reader) -> tuple[int, object]:  # type: ignore[override]
        self.asked.append(("newest_at", reader))
        if self.error is not None:
            raise self.error
        return super().newest_at(reader)


@pytest.fixture
def board() -> Growing:
    return Growing()


@pytest.fixture
def url(board: Growing) -> Iterator[str]:
    found = [*files.places(), *pages.places(board, None, lambda: NOW)]
    sock = server.listener("127.0.0.1", 0)
    with server.serving(application(found, lambda: Entrance(Named())), sock):
        yield server.address(sock)


class Heard:
    """The events of a stream, as they come; None at its end."""

    def __init__(self, url: str, **headers: str) -> None:
        self.events: Queue[dict[str, str] | None] = Queue()
        parts = urlsplit(url)
        self._sock = socket.create_connection((parts.hostname, parts.port), WAIT_S)
        # By HTTP/1.0 the body comes as it is, until the connection ends.
        lines = [f"GET {parts.path}?{parts.query} HTTP/1.0", f"host: {parts.netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._sock.sendall("\r\n".join([*lines, "", ""]).encode())
        self._file = self._sock.makefile("r", encoding="utf-8", newline="\n")
        self.status = int(self._file.readline().split()[1])
        self.headers = "".join(iter(self._file.readline, "\r\n")).lower()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        event: dict[str, str] = {}
        with suppress(OSError):
            for line in self._file:
                name, _, text = line.rstrip("\n").partition(":")
                if name:
                    event[name] = text.strip()
                elif line == "\n" and "data" in event:
                    self.events.put(event)
                    event = {}
        self.events.put(None)

    def next(self) -> dict[str, str] | None:
        return self.events.get(timeout=WAIT_S)

    def close(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(WAIT_S)
        self._file.close()
        self._sock.close()


def keys(event: dict[str, str] | None) -> list[str]:
    assert event is not None
    found = json.loads(event["data"])
    assert isinstance(found, list)
    return found


def test_a_page_hears_what_stands_first_and_what_is_new(url: str, board: Growing) -> None:
    heard = Heard(f"{url}/live")
    before = keys(heard.next())
    board.add(2)
    after = keys(heard.next())

    assert "content-type: text/event-stream" in heard.headers
    assert len(before) == live.FIRST
    assert after[0] == "/jobs/main/1?incarnation=1"
    assert [key for key in after if key not in before] == [
        "/jobs/main/1?incarnation=1",
        "/jobs/main/2?incarnation=1",
    ]
    heard.close()


def test_a_reader_hears_of_their_own_jobs_only(url: str, board: Growing) -> None:
    alice = Heard(f"{url}/live", **{"x-test-reader": "alice"})
    stranger = Heard(f"{url}/live", **{"x-test-reader": "mallory"})
    mine = {f"/jobs/{each.cluster}/{each.job}?incarnation=1" for each in
            board.failures(ALICE, b.FailureFilter(), limit=10_000).failures}  # fmt: skip

    assert set(keys(alice.next())) <= mine
    assert keys(stranger.next()) == []
    board.add(1)
    assert keys(alice.next())[0] == "/jobs/main/1?incarnation=1"
    assert stranger.events.empty()
    alice.close()
    stranger.close()


def test_the_filter_of_the_page_counts_for_its_events(url: str, board: Growing) -> None:
    heard = Heard(f"{url}/live?domain=system&cluster=main")
    which = b.FailureFilter(domain="system", cluster="main")
    wanted = board.failures(b.Reader(administrator=True), which, limit=live.FIRST).failures

    assert keys(heard.next()) == [f"/jobs/main/{each.job}?incarnation=1" for each in wanted]
    heard.close()


def test_who_comes_again_is_not_told_what_they_know(url: str, board: Growing) -> None:
    first = Heard(f"{url}/live")
    event = first.next()
    first.close()
    assert event is not None
    again = Heard(f"{url}/live", **{"last-event-id": event["id"]})
    board.add(1)

    assert keys(again.next())[0] == "/jobs/main/1?incarnation=1"
    again.close()


def test_a_filter_that_is_wrong_is_refused(url: str) -> None:
    assert requests.get(f"{url}/live?since=x", timeout=WAIT_S).status_code == 400


def test_a_head_of_the_stream_ends(url: str) -> None:
    assert requests.head(f"{url}/live", timeout=WAIT_S).status_code == 200


def test_a_reader_holds_only_so_many_streams(url: str) -> None:
    open_ = [Heard(f"{url}/live") for _ in range(20)]
    refused = Heard(f"{url}/live")

    assert {each.status for each in open_} == {200}
    assert refused.status in (429, 503)
    for each in [*open_, refused]:
        each.close()


def test_however_many_listen_the_board_is_asked_for_each_right_alone() -> None:
    async def listen() -> list[int | None]:
        memory = live.Memory(keep_s=60.0)
        asked: list[int] = []

        def ask() -> int:
            asked.append(1)
            return 7

        found = await asyncio.gather(*(memory.answer("all", ask) for _ in range(100)))
        found.append(await memory.answer("all", ask))
        assert len(asked) == 1
        return found

    assert set(asyncio.run(listen())) == {7}


def test_one_that_leaves_takes_the_answer_from_nobody() -> None:
    async def listen() -> int | None:
        memory = live.Memory()
        free = threading.Event()

        def ask() -> int:
            free.wait(WAIT_S)
            return 7

        leaving = asyncio.create_task(memory.answer("all", ask))
        staying = asyncio.create_task(memory.answer("all", ask))
        await asyncio.sleep(0)
        leaving.cancel()
        free.set()
        return await staying

    assert asyncio.run(listen()) == 7


def test_what_nobody_asks_any_more_is_forgotten() -> None:
    async def listen() -> int:
        now = [0.0]
        memory = live.Memory(1.0, lambda: now[0])
        for number in range(100):
            await memory.answer(number, lambda: 1)
        now[0] = 100.0
        await memory.answer("now", lambda: 1)
        return len(memory._known)

    assert asyncio.run(listen()) == 1


def test_however_many_filters_are_tried_few_answers_are_kept() -> None:
    async def listen() -> int:
        memory = live.Memory(60.0)
        for number in range(live.MOST_ANSWERS + 100):
            await memory.answer(number, lambda: 1)
        return len(memory._known)

    assert asyncio.run(listen()) <= live.MOST_ANSWERS + 1


def test_streams_outlive_a_store_that_is_away_and_it_is_logged_once(
    url: str, board: Growing, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard(f"{url}/live")
    heard.next()
    board.error = OSError("secret words")
    asked = len(board.asked)
    until = time.monotonic() + WAIT_S
    while len(board.asked) < asked + 3 and time.monotonic() < until:
        time.sleep(0.05)
    board.error = None
    board.add(1)

    assert keys(heard.next())[0] == "/jobs/main/1?incarnation=1"
    assert [each.message for each in caplog.records if each.message == "live-waits"] == [
        "live-waits"
    ]
    assert "secret words" not in caplog.text
    heard.close()


def test_the_streams_end_when_the_server_does(
    board: Growing, caplog: pytest.LogCaptureFixture
) -> None:
    sock = server.listener("127.0.0.1", 0)
    found = pages.places(board, None, lambda: NOW)
    with server.serving(application(found), sock):
        heard = [Heard(f"{server.address(sock)}/live") for _ in range(10)]
        for each in heard:
            each.next()

    ends = [each.next() for each in heard]
    for each in heard:
        each.close()

    assert ends == [None] * 10
    # Cut off, they would be told by uvicorn as tasks that were cancelled.
    assert not [each for each in caplog.records if each.levelname in ("ERROR", "CRITICAL")]
    assert not [each.name for each in threading.enumerate() if each.name == "web"]


def test_a_reader_that_takes_nothing_is_left() -> None:
    async def listen() -> None:
        async def never(message: Message) -> None:
            if message["type"] == "http.response.body":
                await asyncio.sleep(3600)

        async def receive() -> Message:
            await asyncio.sleep(3600)
            raise AssertionError

        async def events() -> object:
            yield "x"

        scope: Scope = {"type": "http", "method": "GET"}
        receive_: Receive = receive
        send: Send = never
        await live.Stream(events(), send_timeout=0.05)(scope, receive_, send)

    asyncio.run(asyncio.wait_for(listen(), WAIT_S))


def test_the_newest_are_a_part_of_a_page(url: str, board: Growing) -> None:
    board.add(1)
    text = requests.get(f"{url}/live/newest", timeout=WAIT_S).text

    assert text.count("data-key=") == live.SHOWN
    assert "<html" not in text and 'data-key="/jobs/main/1?incarnation=1"' in text
