"""The one check before every place, asked over the network as a browser or an attacker asks."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest
import requests
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse

from firstfault.model.board import NOBODY, Reader
from firstfault.web.access import Identity
from firstfault.web.application import application, inspection
from firstfault.web.forms import Forms
from firstfault.web.guard import Entrance, visit
from firstfault.web.hosts import names_of, origin_of
from firstfault.web.places import Place
from tests.web.asking import Client, asked

ALICE = Reader("alice", user="alice")
ROOT = Reader("root", user="root", administrator=True)


class Said:
    """Takes the sender's word; for tests alone."""

    note = "for tests"

    async def identify(self, request: Request) -> Identity:
        name = request.headers.get("x-test", "")
        reader = {"alice": ALICE, "root": ROOT}.get(name, NOBODY)
        return Identity(reader, ambient="x-test-token" not in request.headers)


async def shown(request: Request, reader: Reader) -> Response:
    return PlainTextResponse(f"{reader.name} {visit(request).form_token}")


async def done(request: Request, reader: Reader) -> Response:
    form = await request.form()
    return PlainTextResponse(f"done {form.get('note')}")


async def read(request: Request, _reader: Reader) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def fails(_request: Request, _reader: Reader) -> Response:
    raise KeyError("secret of alice")


PLACES = [
    Place("/", shown, "reader"),
    Place("/open", shown, "anyone"),
    Place("/do", done, "reader", ("POST",)),
    Place("/admin", shown, "administrator"),
    Place("/admin", done, "administrator", ("POST",)),
    Place("/large", read, "reader", ("POST",), body_bytes=100),
    Place("/form", done, "reader", ("POST",), body_bytes=10_000_000),
    Place("/costly", read, "reader", ("POST",), costly=True),
    Place("/fails", fails, "reader"),
    Place("/api/v1/fails", fails, "reader"),
]


@pytest.fixture
def client() -> Iterator[Client]:
    names = names_of("127.0.0.1", "https://faults.example.org/")
    entrance = Entrance(Said(), names)
    with asked(application(PLACES, lambda: entrance)) as client:
        yield client


def as_(name: str, **more: str) -> dict[str, str]:
    return {"x-test": name, **{key.replace("_", "-"): value for key, value in more.items()}}


def test_nobody_is_asked_who_they_are_wherever_they_go(client: Client) -> None:
    for path in ("/", "/do", "/admin", "/absent"):
        answer = client.get(path)

        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="firstfault"'


def test_what_is_for_administrators_is_not_there_for_others(client: Client) -> None:
    hidden, absent = (client.get(path, headers=as_("alice")) for path in ("/admin", "/absent"))
    posted = client.post("/admin", headers=as_("alice"))

    assert hidden.status_code == absent.status_code == posted.status_code == 404
    assert hidden.text == absent.text == posted.text
    assert client.get("/admin", headers=as_("root")).status_code == 200


def test_another_method_is_refused_with_those_that_are_taken(client: Client) -> None:
    answer = client.post("/", headers=as_("alice"))

    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


def test_head_is_answered_as_get_is(client: Client) -> None:
    assert client.ask("HEAD", "/", headers=as_("alice")).status_code == 200


def token(client: Client, name: str) -> str:
    return client.get("/", headers=as_(name)).text.partition(" ")[2]


def test_a_form_with_its_token_is_taken(client: Client) -> None:
    data = {"form_token": token(client, "alice"), "note": "x"}

    assert client.post("/do", headers=as_("alice"), data=data).text == "done x"


def test_a_file_may_come_with_the_form(client: Client) -> None:
    answer = client.post(
        "/do",
        headers=as_("alice"),
        data={"form_token": token(client, "alice"), "note": "x"},
        files={"log": b"y"},
    )

    assert answer.text == "done x"


@pytest.mark.parametrize("given", ["", "x", "W10.a.b", "x" * 5000])
def test_a_form_without_its_token_does_nothing(client: Client, given: str) -> None:
    answer = client.post("/do", headers=as_("alice"), data={"form_token": given, "note": "x"})

    assert answer.status_code == 403


def test_a_token_is_good_for_its_reader_alone(client: Client) -> None:
    data = {"form_token": token(client, "alice")}

    assert client.post("/do", headers=as_("root"), data=data).status_code == 403


def test_two_tokens_are_none(client: Client) -> None:
    data = {"form_token": [token(client, "alice"), "x"]}

    assert client.post("/do", headers=as_("alice"), data=data).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "http://localhost.evil.example"},
        {"origin": "http://localhost@evil.example"},
        {"origin": "file://localhost"},
        {"origin": "http://localhost:9"},
        {"origin": "http://faults.example.org"},
        {"origin": "https://faults.example.org:8443"},
    ],
)
def test_another_site_cannot_send_a_form_even_with_its_token(
    client: Client, headers: dict[str, str]
) -> None:
    data = {"form_token": token(client, "alice")}
    answer = client.post("/do", headers=as_("alice") | headers, data=data)

    assert answer.status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "same-origin", "origin": "null"},
        {"origin": "http://localhost:8765", "host": "localhost:8765"},
        {"origin": "https://faults.example.org", "host": "faults.example.org"},
        {"origin": "https://faults.example.org"},
    ],
)
def test_our_own_pages_send_forms(client: Client, headers: dict[str, str]) -> None:
    data = {"form_token": token(client, "alice")}

    assert client.post("/do", headers=as_("alice") | headers, data=data).status_code == 200


def test_a_machine_needs_no_form_token(client: Client) -> None:
    headers = as_("alice", x_test_token="1")

    assert client.post("/do", headers=headers, data={"note": "x"}).text == "done x"


@pytest.mark.parametrize(
    ("host", "fine"),
    [
        ("localhost", True),
        ("LOCALHOST:8765", True),
        ("127.0.0.1:1", True),
        ("[::1]:8765", True),
        ("faults.example.org", True),
        ("faults.example.org.", True),
        ("evil.example", False),
        ("faults.example.org.evil.example", False),
        ("localhost:80:80", False),
        ("localhost@evil.example", False),
        ("evil.example@localhost", False),
        ("localhost/x", False),
        ("localhost#x", False),
        ("localhost:999999", False),
        ("localhost:x", False),
        ("[::1", False),
        ("[::1]x", False),
        ("10.1.2.3", False),
    ],
)
def test_only_the_pages_own_names_are_answered_to(client: Client, host: str, fine: bool) -> None:
    answer = client.get("/", headers=as_("alice", host=host))

    assert answer.status_code == (200 if fine else 421)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Faults.Example.org/x/", "https://faults.example.org"),
        ("https://faults.example.org:443", "https://faults.example.org"),
        ("https://faults.example.org:8443/", "https://faults.example.org:8443"),
        ("http://a:80/", "http://a"),
        ("http://u:p@a:8080/", "http://a:8080"),
    ],
)
def test_an_address_has_the_origin_that_browsers_tell(url: str, origin: str) -> None:
    assert origin_of(url) == origin


def test_off_loopback_addresses_and_this_machines_name_are_answered_to() -> None:
    hosts = names_of("0.0.0.0")

    for name in ("10.1.2.3:8765", "[2001:db8::1]", socket.gethostname()):
        assert hosts.allows(Headers({"host": name})), name
    for name in ("evil.example", "10.1.2.3.evil.example", "0x7f.1", "10.1.2"):
        assert not hosts.allows(Headers({"host": name})), name


def test_a_reader_has_only_so_many_answers_that_last() -> None:
    async def ever(_request: Request, _reader: Reader) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            while True:
                yield b"x"
                await asyncio.sleep(0.05)

        return StreamingResponse(parts())

    with asked(application([Place("/live", ever, "reader", streams=True)])) as client:
        with ExitStack() as stack:
            for _ in range(20):
                answer = requests.get(f"{client.base}/live", stream=True, timeout=10)
                assert stack.enter_context(answer).status_code == 200
            assert client.get("/live").status_code == 503
            # Its head alone holds no place.
            assert client.ask("HEAD", "/live").status_code in (200, 503)
        end = time.monotonic() + 10
        while client.ask("HEAD", "/live").status_code == 503:
            assert time.monotonic() < end
            time.sleep(0.05)
        for _ in range(30):
            assert client.ask("HEAD", "/live").status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_not_read(client: Client, chunked: bool) -> None:
    headers = as_("alice", x_test_token="1")
    body = iter([b"x" * 60] * 2) if chunked else b"x" * 101

    refused = client.post("/large", headers=headers, data=body)
    assert (refused.status_code, "At most 100 bytes are read here" in refused.text) == (413, True)
    assert client.post("/large", headers=headers, data=b"x" * 100).text == "100"


def test_a_large_form_comes_in_parts(client: Client) -> None:
    data = {"form_token": token(client, "alice"), "note": "x" * 2_000_000}

    refused = client.post("/form", headers=as_("alice"), data=data)
    assert (refused.status_code, "At most 64 KiB are read here" in refused.text) == (413, True)
    answer = client.post("/form", headers=as_("alice"), data=data, files={"log": b"y"})
    assert len(answer.text) == len("done ") + 2_000_000


@pytest.mark.parametrize(
    "kind", ["APPLICATION/X-WWW-FORM-URLENCODED", "application/x-www-form-urlencoded;a=b"]
)
def test_a_form_of_another_spelling_is_no_way_around(client: Client, kind: str) -> None:
    data = f"form_token={token(client, 'alice')}&note=" + "%41" * 1_000_000
    headers = as_("alice", content_type=kind)

    assert client.post("/form", headers=headers, data=data).status_code in (403, 413)


def test_what_is_costly_is_had_only_so_often(client: Client) -> None:
    headers = as_("alice", x_test_token="1")
    answers = [client.post("/costly", headers=headers, data=b"x") for _ in range(25)]
    refused = [answer for answer in answers if answer.status_code == 429]

    assert 3 <= len(refused) <= 5
    assert int(refused[0].headers["retry-after"]) >= 1
    # Who asks too often does not take it from the others.
    assert client.post("/costly", headers=as_("root", x_test_token="1")).status_code == 200


def test_who_takes_a_costly_answer_slowly_keeps_nobody_from_it() -> None:
    async def heavy(_request: Request, _reader: Reader) -> Response:
        return PlainTextResponse("x" * 30_000_000)

    place = Place("/costly", heavy, "anyone", ("POST",), costly=True, form=False)
    with asked(application([place])) as client, ExitStack() as stack:
        for _ in range(3):
            slow = requests.post(f"{client.base}/costly", stream=True, timeout=10)
            stack.enter_context(slow)

            assert slow.status_code == 200


def test_a_fault_is_a_page_that_tells_nothing_of_it(client: Client) -> None:
    page, api = (client.get(path, headers=as_("alice")) for path in ("/fails", "/api/v1/fails"))

    assert page.status_code == api.status_code == 500
    assert "mark=" in page.text and "secret" not in page.text
    assert api.json()["status"] == 500 and "secret" not in api.text


@pytest.mark.parametrize("path", ["/", "/absent", "/fails", "/admin"])
def test_every_answer_is_hardened(client: Client, path: str) -> None:
    headers = client.get(path, headers=as_("alice")).headers

    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "set-cookie" not in headers


def test_a_handler_may_have_a_policy_of_its_own() -> None:
    async def own(_request: Request, _reader: Reader) -> Response:
        return HTMLResponse("x", headers={"content-security-policy": "default-src 'self'"})

    with asked(application([Place("/", own, "anyone")])) as client:
        headers = client.get("/").headers

    assert headers["content-security-policy"] == "default-src 'self'"


def test_health_follows_the_workers() -> None:
    with asked(inspection(lambda: False, lambda: b"x 1\n")) as client:
        assert client.get("/healthz", headers={"host": "10.1.2.3"}).status_code == 503
        assert client.get("/metrics").text == "x 1\n"


def test_a_token_of_another_key_is_not_accepted() -> None:
    assert Forms("a" * 32).accepts(Forms("a" * 32).token(ALICE), ALICE)
    assert not Forms("b" * 32).accepts(Forms("a" * 32).token(ALICE), ALICE)
    assert not Forms("b" * 32).accepts(Forms().token(ALICE), ALICE)
    assert Forms().accepts(Forms().token(ALICE), ALICE)
