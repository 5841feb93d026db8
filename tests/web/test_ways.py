"""Who reads: a proxy's word, tokens, MUNGE; and every way to be taken for somebody else."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from firstfault.intake import munge
from firstfault.model.board import Reader
from firstfault.web import access, signed, tokens
from firstfault.web.access import Ways
from firstfault.web.application import application
from firstfault.web.guard import Entrance
from firstfault.web.places import Place
from firstfault.web.proxy import Proxy
from tests.intake.munged import Munged, munged
from tests.web.asking import Client, asked

__all__ = ["munged"]

SECRET = "s" * 40
PROOF = ("X-Firstfault-Proxy", SECRET)
HOST = ("Host", "localhost")


async def who(_request: Request, reader: Reader) -> Response:
    rights = "administrator" if reader.administrator else ",".join(reader.accounts)
    return PlainTextResponse(f"{reader.name} {reader.user} {rights}")


PLACES = [Place("/", who, "reader"), Place("/", who, "reader", ("POST",))]


def rights(user: str) -> Reader:
    return Reader(user, user, administrator=user == "ops")


@contextmanager
def served(*ways: access.Way) -> Iterator[Client]:
    with asked(application(PLACES, lambda: Entrance(Ways(ways)))) as client:
        yield client


@pytest.fixture
def proxied() -> Iterator[Client]:
    with served(Proxy("X-Remote-User", SECRET, ["127.0.0.1/32"], rights)) as client:
        yield client


def test_a_trusted_proxy_tells_who_reads(proxied: Client) -> None:
    answer = proxied.get("/", headers={"x-remote-user": "alice", "x-firstfault-proxy": SECRET})

    assert answer.text == "alice alice "


def test_what_the_proxy_lets_through_without_a_login_is_nobodys(proxied: Client) -> None:
    assert proxied.raw("/", [HOST, PROOF]) == 401
    assert proxied.raw("/", [HOST, PROOF, ("X-Remote-User", "")]) == 401


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Remote-User", "ops")],
        [("X-Remote-User", "ops"), ("X-Firstfault-Proxy", "s" * 39)],
        [("X-Remote-User", "ops"), ("X-Firstfault-Proxy", "")],
        [("X-Remote-User", "ops"), PROOF, PROOF],
        [("X-Remote-User", "ops"), ("X-Remote-User", "ops"), PROOF],
        [("X-Remote-User", "alice"), ("x-remote-user", "ops"), PROOF],
        [("X-Remote-User", "alice, ops"), PROOF],
        [("X-Remote-User", "ops;"), PROOF],
        [("X-Remote-User", "-ops"), PROOF],
        [("X-Remote-User", "o" * 400), PROOF],
        [("X-Remote-User", "\xe4ops"), PROOF],
        [("X_Remote_User", "ops"), PROOF],
    ],
)
def test_who_is_no_proxy_names_nobody(proxied: Client, headers: list[tuple[str, str]]) -> None:
    assert proxied.raw("/", [HOST, *headers]) == 401


def test_a_refused_proof_is_in_the_log_once_a_minute(
    proxied: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        proxied.raw("/", [HOST, ("X-Remote-User", "ops"), ("X-Firstfault-Proxy", "x")])
        proxied.raw("/", [HOST])

    told = [each.values for each in caplog.records if each.message == "access-refused"]  # type: ignore[attr-defined]  # the journal's
    assert [each["reason"] for each in told] == [
        "the proxy did not prove itself by X-Firstfault-Proxy"
    ]
    assert told[0]["peer"] == "127.0.0.1"


def test_the_header_of_another_address_counts_for_nothing() -> None:
    with served(Proxy("X-Remote-User", SECRET, ["192.0.2.1/32"], rights)) as client:
        assert client.raw("/", [HOST, ("X-Remote-User", "ops"), PROOF]) == 401


def test_a_rights_service_that_is_away_is_no_access_and_no_fault() -> None:
    def away(_user: str) -> Reader:
        raise access.Unasked("the directory does not answer")

    with served(Proxy("X-Remote-User", SECRET, ["127.0.0.1/32"], away)) as client:
        assert client.raw("/", [HOST, ("X-Remote-User", "alice"), PROOF]) == 503


TODAY = dt.date(2026, 12, 1)


def token_client(line: str) -> AbstractContextManager[Client]:
    return served(tokens.Tokens(lambda: tokens.parse(line), lambda: TODAY))


@pytest.mark.parametrize(
    ("granted", "seen"),
    [
        ("administrator", "token grafana None administrator"),
        ("user=alice", "token grafana alice "),
        ("account=physics,chem", "token grafana None physics,chem"),
        ("user=alice account=physics", "token grafana alice physics"),
    ],
)
def test_a_token_has_the_rights_of_its_line(granted: str, seen: str) -> None:
    token, line = tokens.new("grafana", granted)
    with token_client(line) as client:
        headers = {"authorization": f"Bearer {token}"}

        assert client.get("/", headers=headers).text == seen
        # No form's token is asked for: no browser sends it by itself.
        assert client.post("/", headers=headers).text == seen


def test_a_token_that_is_not_in_the_file_is_nobodys() -> None:
    token, line = tokens.new("grafana", "administrator")
    other, _ = tokens.new("other", "administrator")
    with token_client(line) as client:
        for given in (other, token[:-1], token + "A", token.upper(), tokens.hashed(token)):
            assert client.get("/", headers={"authorization": f"Bearer {given}"}).status_code == 401
        hashed = f"firstfault_{tokens.hashed(token)}"
        assert client.get("/", headers={"authorization": f"Bearer {hashed}"}).status_code == 401
        assert client.get("/", headers={"authorization": f"Basic {token}"}).status_code == 401
        assert client.get(f"/?token={token}").status_code == 401
        twice = [HOST, ("Authorization", f"Bearer {token}"), ("Authorization", "Bearer x")]
        assert client.raw("/", twice) == 401


def test_a_token_ends_with_its_last_day() -> None:
    for until, status in ((TODAY, 200), (TODAY - dt.timedelta(days=1), 401)):
        token, line = tokens.new("grafana", "administrator", until)
        with token_client(line) as client:
            headers = {"authorization": f"Bearer {token}"}

            assert client.get("/", headers=headers).status_code == status


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("grafana", "must be NAME sha256:HEX RIGHTS"),
        ("grafana sha256:00 administrator", "must be NAME sha256:HEX RIGHTS"),
        (f"grafana sha256:{'0' * 64} root", "'root' is not known here"),
        (f"grafana sha256:{'0' * 64} user=", "'user=' is not known here"),
        (f"grafana sha256:{'0' * 64} user=a user=b", "'user=b' is not known here"),
        (f"grafana sha256:{'0' * 64} until=2027-01-01", "gives no rights"),
        (f"grafana sha256:{'0' * 64} administrator until=soon", "is no day"),
        (f"grafana sha256:{'0' * 64} administrator user=alice", "name no user"),
        (f"<b> sha256:{'0' * 64} administrator", "must begin with a name"),
        (f"a sha256:{'0' * 64} administrator\n" * 2, "line 2: 'a' is named twice"),
    ],
)
def test_a_mistake_in_the_file_of_tokens_is_told_by_its_line(line: str, said: str) -> None:
    with pytest.raises(tokens.TokenError) as error:
        tokens.parse(f"# tokens\n\n{line}" if "twice" not in said else line)

    assert said in str(error.value)
    assert "0" * 64 not in str(error.value)


def test_a_proxys_own_bearer_or_basic_login_is_not_taken_for_a_token() -> None:
    _, line = tokens.new("grafana", "administrator")
    both = (
        tokens.Tokens(lambda: tokens.parse(line), lambda: TODAY),
        Proxy("X-Remote-User", SECRET, ["127.0.0.1/32"], rights),
    )
    with served(*both) as client:
        for given in ("Basic YWxpY2U6eA==", "Bearer eyJhbGciOi.x.y", "Negotiate YII"):
            answer = client.get(
                "/",
                headers={
                    "authorization": given,
                    "x-remote-user": "alice",
                    "x-firstfault-proxy": SECRET,
                },
            )

            assert answer.text == "alice alice "


def test_who_brings_a_proof_that_nobody_checks_is_told_so(proxied: Client) -> None:
    for given, said in (
        ("Firstfault-Munge MUNGE:x:", "MUNGE is not turned on here"),
        ("Bearer firstfault_x", "tokens are not turned on here"),
    ):
        assert said in proxied.get("/", headers={"authorization": given}).text


UIDS = {0: Reader("root", "root", administrator=True), 1234: Reader("alice", "alice")}


@pytest.fixture
def signing(munged: Munged) -> Iterator[Client]:
    library = munge.decoder(str(munged.socket))

    def decode(credential: str) -> signed.Signed:
        try:
            made = library(credential)
        except munge.Unacceptable as error:
            raise signed.Unacceptable(str(error)) from error
        except munge.MungeAway as error:
            raise access.Unasked(str(error)) from error
        return signed.Signed(made.uid, made.payload)

    with served(signed.Signatures(decode, UIDS.get, time.time)) as client:
        yield client


def statement(
    client: Client,
    method: str = "GET",
    target: str = "/?a=b",
    body: bytes = b"",
    *,
    host: str = "",
    at_s: float | None = None,
) -> bytes:
    host = host or client.base.partition("//")[2]
    return signed.statement(method, target, host, body, time.time() if at_s is None else at_s)


def test_munge_tells_which_user_asks(signing: Client, munged: Munged) -> None:
    for uid, seen in ((0, "root root administrator"), (1234, "alice alice ")):
        credential = munged.credential(statement(signing), uid=uid)
        answer = signing.get("/?a=b", headers={"authorization": f"Firstfault-Munge {credential}"})

        assert answer.text == seen


def test_a_user_whom_this_host_does_not_know_is_nobody(signing: Client, munged: Munged) -> None:
    credential = munged.credential(statement(signing), uid=4321)
    headers = {"authorization": f"Firstfault-Munge {credential}"}

    assert signing.get("/?a=b", headers=headers).status_code == 401


def test_a_signed_request_cannot_be_sent_twice(signing: Client, munged: Munged) -> None:
    headers = {"authorization": f"Firstfault-Munge {munged.credential(statement(signing))}"}

    assert signing.get("/?a=b", headers=headers).status_code == 200
    assert signing.get("/?a=b", headers=headers).status_code == 401


@pytest.mark.parametrize(
    "changed",
    [
        {"method": "POST"},
        {"target": "/"},
        {"target": "/?a=c"},
        {"host": "other.example.org"},
        {"body": b"x"},
        {"at_s": time.time() - 3600},
        {"at_s": time.time() + 3600},
    ],
)
def test_a_signature_is_good_for_one_request_alone(
    signing: Client, munged: Munged, changed: dict[str, Any]
) -> None:
    made = statement(signing, **changed)
    headers = {"authorization": f"Firstfault-Munge {munged.credential(made)}"}

    assert signing.get("/?a=b", headers=headers).status_code == 401


@pytest.mark.parametrize(("sent", "status"), [(b"body", 200), (b"bodx", 401), (b"", 401)])
def test_the_body_is_signed_too(signing: Client, munged: Munged, sent: bytes, status: int) -> None:
    made = statement(signing, "POST", "/", b"body")
    headers = {"authorization": f"Firstfault-Munge {munged.credential(made)}"}

    assert signing.post("/", headers=headers, data=sent).status_code == status


def test_what_is_signed_for_others_is_not_accepted(signing: Client, munged: Munged) -> None:
    for payload in (b"", b"slurm", b"firstfault.statement/1\n/\nn1\n", b"x" * 5000):
        headers = {"authorization": f"Firstfault-Munge {munged.credential(payload)}"}

        assert signing.get("/?a=b", headers=headers).status_code == 401
    for credential in ("MUNGE:x:", "x", "x" * 20000):
        headers = {"authorization": f"Firstfault-Munge {credential}"}

        assert signing.get("/?a=b", headers=headers).status_code in (401, 431)


def test_a_munged_that_is_away_is_said(signing: Client, munged: Munged) -> None:
    credential = munged.credential(statement(signing))
    munged.stop()
    try:
        headers = {"authorization": f"Firstfault-Munge {credential}"}

        assert signing.get("/?a=b", headers=headers).status_code == 503
    finally:
        munged.start()
