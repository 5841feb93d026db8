"""Requests to the daemon: whom they trust, and what a hostile answer can do (nothing)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from firstfault_epilog import address, sending
from firstfault_epilog.address import Address
from firstfault_epilog.settings import Settings
from tests.epilog.receiver import Certificate, Receiver, Reply, certificate


@pytest.fixture(scope="module")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("tls"))


def signed(tmp_path: Path, **more: str) -> Settings:
    """Settings with a key."""
    key = tmp_path / "key"
    key.touch(0o600)
    key.write_bytes(b"k" * 32)
    return Settings(key_file=str(key))._replace(**more)


def posted(settings: Settings) -> sending.Answer:
    return sending.post(settings, sending.RECORDS, "n3", b"not read here")


def test_over_tls_the_daemon_is_known_by_the_authority_that_is_configured(
    tmp_path: Path, localhost: Certificate
) -> None:
    with Receiver(localhost) as daemon:
        daemon.answer = lambda _: Reply(202)
        settings = signed(tmp_path, daemon=daemon.url, ca_file=str(localhost.certificate))

        answer = posted(settings)

    assert answer.status == 202
    assert daemon.requests[0].body == b"not read here"
    assert daemon.requests[0].headers["Authorization"].startswith("Firstfault-Key ")


def test_an_authority_that_is_not_configured_is_not_trusted(
    tmp_path: Path, localhost: Certificate
) -> None:
    (tmp_path / "other").mkdir()
    other = certificate(tmp_path / "other")
    with Receiver(localhost) as daemon:
        system = posted(signed(tmp_path, daemon=daemon.url))
        wrong = posted(signed(tmp_path, daemon=daemon.url, ca_file=str(other.certificate)))

    for answer in (system, wrong):
        assert answer.status is None
        assert "TLS: " in str(answer.fault) and "FIRSTFAULT_CA_FILE" in str(answer.fault)
    assert daemon.requests == []


def test_a_certificate_for_another_host_is_not_trusted(tmp_path: Path) -> None:
    other = certificate(tmp_path, "elsewhere.example")
    with Receiver(other) as daemon:
        answer = posted(signed(tmp_path, daemon=daemon.url, ca_file=str(other.certificate)))

    assert answer.status is None
    assert "TLS: " in str(answer.fault) and "localhost" in str(answer.fault)
    assert daemon.requests == []


@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN CERTIFICATE-----\nx\n"])
def test_an_authority_that_cannot_be_read_is_said(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)

    answer = posted(signed(tmp_path, daemon="https://localhost:9", ca_file=str(file)))

    assert answer.status is None
    assert str(file) in str(answer.fault)


def test_a_daemon_that_speaks_no_tls_is_sent_nothing(tmp_path: Path) -> None:
    with Receiver() as daemon:
        answer = posted(signed(tmp_path, daemon=daemon.url.replace("http://", "https://")))

    assert answer.status is None
    assert "TLS" in str(answer.fault)
    assert daemon.requests == []


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://daemon", Address("https", "daemon", 8766)),
        ("https://daemon.example.org:443/", Address("https", "daemon.example.org", 443)),
        ("https://[fd00::1]:8766", Address("https", "fd00::1", 8766)),
        ("http://127.0.0.1:1", Address("http", "127.0.0.1", 1)),
        ("http://[::1]:1", Address("http", "::1", 1)),
        ("http://localhost", Address("http", "localhost", 8766)),
    ],
)
def test_addresses(url: str, place: Address) -> None:
    assert address.parse(url) == place


@pytest.mark.parametrize(
    "url",
    [
        "daemon:8766",
        "ftp://daemon",
        "https://",
        "https://user:password@daemon",
        "https://daemon:0",
        "https://daemon:65536",
        "https://daemon:8766/v1",
        "https://daemon?x",
        "https://dae mon",
        "https://daemon\r\nX: y",
        "http://daemon:8766",
        "http://127.0.0.1.example.org",
        "http://10.0.0.1",
        "http://localhost.example.org",
    ],
)
def test_addresses_to_which_nothing_is_sent(url: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        address.parse(url)


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[Settings]:
    """A listener that reads a request's head and then does as ``answer`` says."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                while b"\r\n\r\n" not in connection.recv(1 << 16):
                    pass
                with suppress(OSError):
                    answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Settings(daemon=f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\xff" * 100,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 " + b"x" * 100_000,
        HEAD + b"X: y\r\n" * 1000 + b"\r\n",
        HEAD + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n",
    ],
    ids=range(10),
)
def test_an_answer_that_is_no_http_is_none(data: bytes) -> None:
    with answering(lambda connection: connection.sendall(data)) as settings:
        answer = sending.get(settings, "/healthz")

    assert answer.document == {}
    assert answer.status in (None, 200)
    assert (answer.fault is None) == (answer.status == 200)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b'{"n": ' + b"9" * 1_000_000 + b"}",
        b'"text"',
        b"\xff\xfe",
        b"null",
        b"{",
    ],
    ids=range(7),
)
def test_a_body_that_is_no_object_is_empty(body: bytes) -> None:
    head = HEAD + b"Content-Length: %d\r\n\r\n" % len(body)
    with answering(lambda connection: connection.sendall(head + body)) as settings:
        answer = sending.get(settings, "/healthz")

    assert answer == sending.Answer(200, {}, None, None)


@pytest.mark.parametrize("length", [b"99999999999999999999", b"-1", b"10000000000", b"x"])
def test_a_length_that_is_a_lie_costs_no_memory(length: bytes) -> None:
    head = HEAD + b"Content-Length: " + length + b"\r\n\r\n"
    with answering(lambda connection: connection.sendall(head + b"{}")) as settings:
        answer = sending.get(settings, "/healthz")

    assert answer.status in (None, 200)


@pytest.mark.parametrize("ends", [b"", b"Connection: close\r\n", b"Connection: keep-alive\r\n"])
def test_an_answer_may_come_in_pieces(ends: bytes) -> None:
    def in_pieces(connection: socket.socket) -> None:
        for piece in (HEAD, ends, b"Content-Length: 20\r\n", b"\r\n", b'{"result":', b' "stored"}'):
            connection.sendall(piece)
            time.sleep(0.05)

    with answering(in_pieces) as settings:
        answer = sending.get(settings, "/healthz")

    assert answer == sending.Answer(200, {"result": "stored"}, None, None)


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "ANSWER_BYTES_MAX", 1 << 20)

    def flood(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * (1 << 16))

    with answering(flood) as settings:
        answer = sending.get(settings, "/healthz")

    assert answer.document == {}


@pytest.mark.parametrize("drop", [b"H", b"", b"X: y\r\n"], ids=["letters", "nothing", "headers"])
def test_an_answer_that_takes_too_long_is_given_up(
    monkeypatch: pytest.MonkeyPatch, drop: bytes
) -> None:
    monkeypatch.setattr(sending, "DEADLINE_S", 0.5)
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(HEAD if drop != b"H" else b"")
        while not ended.wait(0.02):
            connection.sendall(drop)

    with answering(drip) as settings:
        begun_at = time.monotonic()
        answer = sending.get(settings, "/healthz")
        took_s = time.monotonic() - begun_at
        ended.set()

    assert answer.status is None
    assert "no answer in time" in str(answer.fault)
    assert took_s < 10


def test_a_daemon_that_takes_no_byte_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sending, "DEADLINE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        answer = sending.post(signed(tmp_path, daemon=url), "/v1/records", "n3", b"x" * (32 << 20))

    assert answer.status is None


def test_what_the_daemon_says_cannot_steer_a_terminal() -> None:
    body = b'{"error": "\\u001b[2J\\nforged line ' + b"x" * 5000 + b'"}'
    head = b"HTTP/1.1 418 No\r\nContent-Length: %d\r\nRetry-After: 7\r\n\r\n" % len(body)
    with answering(lambda connection: connection.sendall(head + body)) as settings:
        answer = sending.get(settings, "/healthz")

    assert (answer.status, answer.retry_after_s) == (418, 7.0)
    assert str(answer.fault).isprintable()
    assert len(str(answer.fault)) < 400
