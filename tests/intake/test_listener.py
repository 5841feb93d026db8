"""The listener keeps its time, its memory and its places, whoever connects."""

from __future__ import annotations

import random
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.intake import senders
from tests.intake.records import fields
from tests.intake.senders import packed
from tests.intake.served import Served, everything, serving

HEAD = b"POST /v1/records HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\n"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "spool") as own:
        yield own


def signed_head(body: bytes) -> bytes:
    return HEAD % senders.by_key(senders.statement(body)).encode()


def still_serves(served: Served) -> bool:
    return served.post(packed(fields("n1")))[0] == 200


def test_several_requests_go_over_one_connection(served: Served) -> None:
    with served.connect() as plain:
        for number in range(3):
            body = packed(fields("n1", f"{number}"))
            plain.sendall(signed_head(body) + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert plain.recv(65536).startswith(b"HTTP/1.1 200 ")

    assert len(served.kept.records) == 3


def test_a_body_in_chunks_and_one_after_100_continue_are_taken(served: Served) -> None:
    body = packed(fields("n1"))
    chunked = signed_head(body) + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in (body[:9], body[9:])) + b"0\r\n\r\n"

    assert served.raw(chunked + chunks).startswith(b"HTTP/1.1 200 ")
    with served.connect() as plain:
        head = signed_head(body) + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n"
        plain.sendall(head % len(body))
        assert plain.recv(65536).startswith(b"HTTP/1.1 100 ")
        plain.sendall(body)
        assert plain.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_who_sends_its_head_byte_by_byte_is_cut_off(served: Served) -> None:
    with served.connect() as plain:
        begun = time.monotonic()
        said = b"-"
        try:
            for byte in b"POST /v1/records HTTP/1.1\r\n" * 100:
                plain.sendall(bytes([byte]))
                time.sleep(0.02)
        except (BrokenPipeError, ConnectionResetError):
            said = b""

    assert said == b""
    assert time.monotonic() - begun < 15
    assert still_serves(served)


def test_who_says_nothing_and_who_stops_in_the_body_are_cut_off(served: Served) -> None:
    with served.connect() as silent, served.connect() as half:
        half.sendall(signed_head(b"x") + b"Content-Length: 1000\r\n\r\nhalf")

        assert everything(silent) == b""
        assert everything(half) == b""
    assert served.room.taken == 0
    assert still_serves(served)


def test_who_goes_away_in_the_body_leaves_nothing_behind(served: Served) -> None:
    for _ in range(20):
        with served.connect() as plain:
            plain.sendall(signed_head(b"x") + b"Content-Length: 1000\r\n\r\nhalf")
    assert served.raw(signed_head(b"x") + b"Content-Length: 9\r\n\r\nhalf", end=True) is not None

    assert still_serves(served)
    assert served.room.taken == 0
    assert len(served.kept.records) == 1


def test_idle_senders_hold_a_place_for_a_moment_only(tmp_path: Path) -> None:
    with serving(tmp_path / "spool", connections=4) as served:
        idle = [served.connect() for _ in range(12)]
        try:
            assert still_serves(served)
        finally:
            for plain in idle:
                plain.close()


def test_where_all_places_are_taken_an_answer_ends_the_connection(tmp_path: Path) -> None:
    with serving(tmp_path / "spool", connections=1) as served, served.connect() as plain:
        body = packed(fields("n1"))
        plain.sendall(signed_head(body) + b"Content-Length: %d\r\n\r\n" % len(body) + body)

        assert b"connection: close" in everything(plain).lower()


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n" * 50_000,
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000,
        b"GET /" + b"x" * 200_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"POST /v1/records HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/records HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /v1/records HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\xff\xfe\x00" * 1000,
    ],
    ids=str,
)
def test_what_is_no_request_is_answered_with_an_error_or_nothing(
    served: Served, data: bytes
) -> None:
    with served.connect() as plain:
        with suppress(BrokenPipeError, ConnectionResetError):
            plain.sendall(data)
        said = everything(plain)

    assert not said or said.startswith((b"HTTP/1.1 4", b"HTTP/1.1 501")) or b"/healthz" in data
    assert still_serves(served)


def _random_bodies(served: Served, count: int, seed: int) -> set[int]:
    chance = random.Random(seed)
    whole = packed(fields("n1"))
    statuses = set()
    with served.connect() as first:
        plain: socket.socket = first
        for _ in range(count):
            kind = chance.randrange(4)
            if kind == 0:
                body = chance.randbytes(chance.randrange(300))
            elif kind == 1:
                body = b"\x1f\x8b\x08\x00" + chance.randbytes(chance.randrange(300))
            elif kind == 2:
                place = chance.randrange(len(whole))
                body = whole[:place] + chance.randbytes(1) + whole[place + 1 :]
            else:
                text = bytearray(b'{"schema": "firstfault.evidence/1", "id": "x", "job": "1"}')
                text[chance.randrange(len(text))] = chance.randrange(256)
                body = bytes(text)
            plain.sendall(signed_head(body) + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            said = plain.recv(65536)
            statuses.add(int(said.split()[1]))
    return statuses


def test_random_bodies_are_refused_each_with_its_answer(served: Served) -> None:
    assert _random_bodies(served, 500, 20261201) <= {200, 401, 422}
    assert still_serves(served)
    assert served.room.taken == 0


@pytest.mark.soak
def test_ten_thousand_random_bodies_are_refused_each_with_its_answer(served: Served) -> None:
    assert _random_bodies(served, 10_000, 1) <= {200, 401, 422}
    assert still_serves(served)
    assert len(list((served.folder / "quarantine").iterdir())) <= 2000


def test_random_streams_end_in_an_error_or_nothing(served: Served) -> None:
    chance = random.Random(7)
    request = signed_head(b"x") + b"Content-Length: 1\r\n\r\nx"
    for _ in range(100):
        data = bytearray(request)
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        said = served.raw(bytes(data), end=True)

        assert not said or said.startswith((b"HTTP/1.1 4", b"HTTP/1.1 1"))
    assert still_serves(served)


def test_over_tls_records_are_taken_and_plain_http_is_not(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=n1", "-addext",
         "subjectAltName=DNS:n1", "-days", "2", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    with serving(tmp_path / "spool", certificate=(certificate, key)) as served:
        assert served.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")[:4] != b"HTTP"
        served.tls = ssl.create_default_context(cafile=str(certificate))

        assert still_serves(served)
        assert served.post(b"x" * 300_000)[0] == 413
        with served.connect() as half:
            half.sendall(signed_head(b"x"))
            assert everything(half) == b""


def test_many_senders_at_once_are_all_served(served: Served) -> None:
    done: list[int] = []

    def send(number: int) -> None:
        body = packed(fields("n1", f"{number}"))
        done.append(served.post(body)[0])

    threads = [threading.Thread(target=send, args=(number,)) for number in range(120)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert done == [200] * 120
    assert len(served.kept.records) == 120
