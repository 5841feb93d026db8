"""Who sends slowly, takes nothing, or opens many connections: cut, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from firstfault.model.board import Reader
from firstfault.web import server
from firstfault.web.application import application
from firstfault.web.connection import HEAD_BYTES, Connection
from firstfault.web.places import Place
from tests.web.asking import Client, asked


async def small(_request: Request, _reader: Reader) -> Response:
    return PlainTextResponse("here")


async def large(_request: Request, _reader: Reader) -> Response:
    return PlainTextResponse("x" * 50_000_000)


async def taken(request: Request, _reader: Reader) -> Response:
    return PlainTextResponse(str(len(await request.body())))


PLACES = [
    Place("/", small, "anyone"),
    Place("/large", large, "anyone"),
    Place("/slow", taken, "reader", ("POST",), body_s=0.3, form=False),
]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(Connection, "head_s", 0.3)
    monkeypatch.setattr(Connection, "stall_s", 0.3)
    with asked(application(PLACES)) as client:
        yield client


def connected(client: Client, stack: ExitStack) -> socket.socket:
    parts = urlsplit(client.base)
    return stack.enter_context(socket.create_connection((parts.hostname, parts.port), 10))


def is_cut(sock: socket.socket) -> bool:
    """True once the server has ended the connection; what it sent before is read."""
    try:
        while sock.recv(1 << 20):
            pass
    except ConnectionResetError:
        pass
    return True


def test_the_parts_of_an_answer_do_not_wait_for_one_another() -> None:
    class Told(Connection):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
            sock = transport.get_extra_info("socket")
            nodelay.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            super().connection_made(transport)

    nodelay: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "Connection", Told)
        with asked(application(PLACES)) as client:
            client.get("/")

    assert nodelay and all(nodelay)


HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET", HEAD, HEAD + b"X-A: "])
def test_who_sends_no_whole_head_is_cut(client: Client, sent: bytes) -> None:
    with ExitStack() as stack:
        sock = connected(client, stack)
        sock.sendall(sent)

        assert is_cut(sock)
        assert client.get("/").text == "here"


def test_who_begins_a_second_head_is_cut_too(client: Client) -> None:
    with ExitStack() as stack:
        sock = connected(client, stack)
        sock.sendall(HEAD + b"\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        sock.sendall(b"GET / HT")

        assert is_cut(sock)


def test_who_takes_nothing_of_a_large_answer_is_cut(client: Client) -> None:
    with ExitStack() as stack:
        sock = connected(client, stack)
        sock.sendall(HEAD.replace(b"GET / ", b"GET /large ") + b"\r\n")
        begin = sock.recv(10)
        rest = 0
        sock.settimeout(10)
        # It is cut while nothing is read: what is read afterwards is what the kernel held.
        time.sleep(1.5)
        try:
            while data := sock.recv(1 << 20):
                rest += len(data)
        except ConnectionResetError:
            pass

        assert begin.startswith(b"HTTP/1.1")
        assert rest < 50_000_000


def test_who_takes_a_large_answer_slowly_gets_all_of_it(client: Client) -> None:
    with ExitStack() as stack:
        sock = connected(client, stack)
        sock.sendall(HEAD.replace(b"GET / ", b"GET /large ") + b"Connection: close\r\n\r\n")
        size = 0
        while data := sock.recv(4 << 20):
            size += len(data)
            time.sleep(0.05)  # longer in all than one that takes nothing may

    assert size > 50_000_000


def test_a_body_that_comes_too_slowly_is_refused(client: Client) -> None:
    with ExitStack() as stack:
        sock = connected(client, stack)
        head = b"POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nx"
        sock.sendall(head)

        assert sock.recv(4096).startswith(b"HTTP/1.1 408")
        assert is_cut(sock)


def test_a_head_that_is_too_large_is_refused(client: Client) -> None:
    with ExitStack() as stack:
        sock = connected(client, stack)
        sock.sendall(HEAD + b"X-A: " + b"a" * HEAD_BYTES * 2)

        assert is_cut(sock)


def test_many_idle_connections_keep_nobody_out_for_long(client: Client) -> None:
    with ExitStack() as stack:
        idle = [connected(client, stack) for _ in range(450)]
        assert all(is_cut(sock) for sock in idle)

        assert client.get("/").text == "here"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked"
        b"\r\n\r\n0\r\n\r\nGET /large HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA\x00: b\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_no_sound_request_is_refused(client: Client, sent: bytes) -> None:
    with ExitStack() as stack:
        sock = connected(client, stack)
        sock.sendall(sent)
        answer = sock.recv(4096)

        assert answer == b"" or answer.split()[1] in (b"400", b"404", b"405", b"421")
        assert answer.count(b"HTTP/1.1 200") == 0
        assert client.get("/").text == "here"
