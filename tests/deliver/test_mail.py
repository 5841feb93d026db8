"""Mail to a real SMTP server: what arrives, and what becomes of what does not."""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from firstfault.app.links import Links
from firstfault.app.outlets import letters
from firstfault.deliver.mail import Mail, Server, message
from firstfault.deliver.outcome import Failed, Needless, Result, Sent
from firstfault.deliver.owners import OwnerError
from firstfault.model import verdict as v
from firstfault.model.jobs import Delivery, StoredVerdict
from firstfault.report.mail import Letter
from tests.fakes.mail import MailServer

NOW = dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC)
SENDER = "firstfault@hpc.example"
ALICE = "alice@example.org"


def delivery(
    title: str = "Rank 5 ran out of memory",
    *,
    job: str = "12",
    number: str = "d1e2f3",
    fingerprint: str | None = "1:abc",
    previous: v.Verdict | None = None,
) -> Delivery:
    verdict = v.Verdict(
        job=v.Job(id=job, user="alice"),
        cause=v.Cause("memory.cgroup-oom", title, "user", v.CONFIRMED),
        initiator=v.Initiator(rank=5, host="n3", confidence=v.CONFIRMED),
        fingerprint=fingerprint,
    )
    stored = StoredVerdict("c1", job, 1, 1 if previous is None else 2, NOW, verdict)
    return Delivery(1, number, "mail-owner", 1, stored, previous)


def mail(
    port: int,
    *,
    to: tuple[str, ...] = (ALICE,),
    tls: ssl.SSLContext | None = None,
    from_start: bool = False,
    login: tuple[str, str] = ("", ""),
    timeout_s: float = 10,
    host: str = "127.0.0.1",
    most: int = 200_000,
) -> Mail:
    secured = "tls" if from_start else "starttls"
    server = Server(host, port, secured if tls else "none", tls, *login, timeout_s)  # type: ignore[arg-type]
    return Mail(
        server, SENDER, lambda delivery: to, letters(Links("https://ff.example").page), most
    )


def reason(result: Result) -> str:
    assert isinstance(result, Failed)
    return result.reason


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl: makes a certificate")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    argv += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*argv, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


@pytest.fixture
def serving(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    return context


@pytest.fixture
def trusting(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate[0])


def test_a_report_arrives_as_text_and_html() -> None:
    with MailServer() as server:
        assert mail(server.port).send(delivery()) == Sent()

    (letter,) = server.letters
    assert (letter.sender, letter.receivers) == (SENDER, (ALICE,))
    assert letter.message["Subject"] == "Job 12: Rank 5 ran out of memory"
    assert letter.message["To"] == ALICE
    assert letter.message["From"] == f"firstfault <{SENDER}>"
    assert letter.message["Auto-Submitted"] == "auto-generated"
    plain = letter.message.get_body(("plain",))
    html = letter.message.get_body(("html",))
    assert plain is not None and html is not None
    assert "rank 5" in plain.get_content().lower()
    assert "https://ff.example/jobs/c1/12" in plain.get_content()
    assert 'href="https://ff.example/jobs/c1/12"' in html.get_content()


def test_a_double_is_seen_and_what_is_alike_is_one_conversation() -> None:
    with MailServer() as server:
        for one in (
            delivery(number="a1"),
            delivery(number="a1"),
            delivery(number="b2", job="13"),
            delivery(number="c3", fingerprint="1:other"),
        ):
            assert mail(server.port).send(one) == Sent()

    ids = [letter.message["Message-ID"] for letter in server.letters]
    threads = [letter.message["References"] for letter in server.letters]
    assert ids == [f"<{n}@hpc.example>" for n in ("a1", "a1", "b2", "c3")]
    assert threads[0] == threads[1] == threads[2] != threads[3]
    assert server.letters[0].message["In-Reply-To"] == threads[0]


def test_a_revision_says_what_changed() -> None:
    before = msgspec.structs.replace(
        delivery().current.verdict, cause=v.Cause("process.killed", "x", "either", v.LIKELY)
    )

    with MailServer() as server:
        assert mail(server.port).send(delivery(previous=before)) == Sent()

    (letter,) = server.letters
    plain = letter.message.get_body(("plain",))
    assert plain is not None
    assert letter.message["Subject"].startswith("Revised: Job 12")
    assert plain.get_content().startswith(
        "Revised: cause process.killed -> memory.cgroup-oom; confidence likely -> confirmed"
    )


@pytest.mark.parametrize(
    "title",
    [
        "x\r\nBcc: evil@example.org\r\n\r\n<script>alert(1)</script>",
        "x\nTo: evil@example.org",
        "\u2028Bcc: evil@example.org\x85\x0b\x0c\x00",
        "=?utf-8?q?Bcc=3A_evil?= " * 40,
        "ü\u202e" * 300,
        ".\r\n.\r\nMAIL FROM:<evil@example.org>\r\n",
    ],
)
def test_nothing_of_a_hostile_title_acts(title: str) -> None:
    with MailServer() as server:
        assert mail(server.port).send(delivery(title)) == Sent()

    (letter,) = server.letters
    assert letter.receivers == (ALICE,)
    assert letter.message["Bcc"] is None
    assert letter.message.get_all("To") == [ALICE]
    assert len(letter.message.get_all("Subject")) == 1
    assert letter.raw.isascii()
    assert max(map(len, letter.raw.split(b"\r\n"))) <= 998
    html = letter.message.get_body(("html",))
    assert html is not None
    assert "<script" not in html.get_content()


def test_what_is_too_large_goes_without_html_and_then_cut() -> None:
    letter = Letter("s", "ä" * 5000, "h" * 5000)

    sizes = [len(message(delivery(), letter, SENDER, (ALICE,), NOW, most)) for most in (1, 8000)]
    whole = message(delivery(), letter, SENDER, (ALICE,), NOW, 10**6)
    short = message(delivery(), letter, SENDER, (ALICE,), NOW, 8000)

    assert b"text/html" in whole
    assert b"text/html" not in short
    assert sizes[1] <= 8000
    assert sizes[0] < 1000


def test_who_has_no_address_is_no_failure() -> None:
    with MailServer() as server:
        result = mail(server.port, to=()).send(delivery())

    assert isinstance(result, Needless)
    assert "alice" in result.reason


def test_an_address_that_cannot_be_looked_up_is_tried_again() -> None:
    def failing(delivery: Delivery) -> tuple[str, ...]:
        raise OwnerError("owners.command: no end")

    channel = Mail(Server("h", 1, "none"), SENDER, failing, letters(Links().page), 1000)

    result = channel.send(delivery())

    assert result == Failed("owners.command: no end", alone=True)


@pytest.mark.parametrize(
    ("answer", "retry"), [("452 4.2.2 full", True), ("550 5.1.1 unknown user", False)]
)
def test_a_refused_receiver_is_tried_again_where_that_may_help(answer: str, retry: bool) -> None:
    with MailServer() as server:
        server.refused = {ALICE: answer}

        result = mail(server.port).send(delivery())

    assert isinstance(result, Failed)
    assert (result.retry, result.alone) == (retry, True)
    assert answer[4:] in result.reason
    assert server.letters == []


def test_who_has_the_message_does_not_get_it_again_for_who_was_refused() -> None:
    with MailServer() as server:
        server.refused = {ALICE: "452 4.2.2 full"}

        result = mail(server.port, to=("bob@example.org", ALICE)).send(delivery())

    assert isinstance(result, Failed)
    assert not result.retry
    assert "bob@example.org have it" in result.reason


@pytest.mark.parametrize(("answer", "retry"), [("451 later", True), ("552 too large", False)])
def test_a_refused_message_is_tried_again_where_that_may_help(answer: str, retry: bool) -> None:
    with MailServer() as server:
        server.answer = answer

        result = mail(server.port).send(delivery())

    assert isinstance(result, Failed)
    assert result.retry is retry
    assert answer[4:] in result.reason


def test_a_server_that_hangs_up_before_it_answers_is_asked_again_with_the_same_message_id() -> None:
    with MailServer() as server:
        server.hangs_up = True
        first = mail(server.port).send(delivery())
        server.hangs_up = False
        second = mail(server.port).send(delivery())

    assert isinstance(first, Failed)
    assert first.retry
    assert second == Sent()
    assert len({letter.message["Message-ID"] for letter in server.letters}) == 1


def test_a_slow_server_is_not_waited_for() -> None:
    with MailServer() as server:
        server.waits_s = 60

        result = mail(server.port, timeout_s=0.3).send(delivery())

    assert isinstance(result, Failed)
    assert result.retry


def test_a_server_that_answers_byte_by_byte_is_not_waited_for() -> None:
    with _trickling() as port:
        result = mail(port, timeout_s=0.4).send(delivery())

    assert isinstance(result, Failed)
    assert result.retry
    assert "within 0.8 s" in result.reason


def test_a_server_that_is_away_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

    result = mail(port).send(delivery())

    assert isinstance(result, Failed)
    assert result.retry


@pytest.mark.parametrize("login", [("", ""), ("ff", "correct horse")])
def test_mail_goes_over_verified_tls_and_with_a_password(
    serving: ssl.SSLContext, trusting: ssl.SSLContext, login: tuple[str, str]
) -> None:
    with MailServer(serving, login=login if login[0] else None) as server:
        channel = mail(server.port, tls=trusting, login=login, host="localhost")
        assert channel.send(delivery()) == Sent()

    assert len(server.letters) == 1


def test_mail_goes_over_tls_from_the_first_byte(
    serving: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    with MailServer(serving, from_start=True) as server:
        channel = mail(server.port, tls=trusting, from_start=True, host="localhost")
        assert channel.send(delivery()) == Sent()

    assert len(server.letters) == 1


@pytest.mark.parametrize("from_start", [True, False])
def test_a_certificate_that_does_not_fit_is_refused_before_anything_is_said(
    serving: ssl.SSLContext, trusting: ssl.SSLContext, from_start: bool
) -> None:
    stranger = ssl.create_default_context()
    with MailServer(serving, from_start=from_start) as server:
        untrusted = mail(server.port, tls=stranger, from_start=from_start, host="localhost")
        other_name = mail(server.port, tls=trusting, from_start=from_start, host="127.0.0.1")
        said = [reason(channel.send(delivery())) for channel in (untrusted, other_name)]

    assert all("Set mail.ca_file, or mail.server" in text for text in said)
    assert server.letters == []


def test_a_server_without_starttls_gets_no_mail(trusting: ssl.SSLContext) -> None:
    with MailServer() as server:
        result = mail(server.port, tls=trusting, host="localhost").send(delivery())

    assert "STARTTLS" in reason(result)
    assert server.letters == []


def test_a_wrong_password_is_told_and_not_quoted(
    serving: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    with MailServer(serving, login=("ff", "right")) as server:
        channel = mail(server.port, tls=trusting, login=("ff", "wrong-secret"), host="localhost")
        result = channel.send(delivery())

    assert isinstance(result, Failed)
    assert result.retry
    assert "535" in result.reason
    assert "wrong-secret" not in result.reason + repr(channel._server)


@contextlib.contextmanager
def _trickling() -> Iterator[int]:
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def trickle() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                while not ended.wait(0.05):
                    connection.sendall(b"220-still here\r\n")

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        ended.set()
        thread.join(5)
