"""Every place of the assembled application, asked by everyone: what each may, in one table.

A place that is not in the table fails, as does one that answers otherwise than the table says.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import requests
from starlette.requests import Request

from firstfault.model.board import NOBODY, Board
from firstfault.web import tokens
from firstfault.web.access import Identity, Ways
from firstfault.web.application import Sources, application, places
from firstfault.web.guard import Entrance
from firstfault.web.places import Place
from tests.web import boards, kept
from tests.web.api_served import Quick
from tests.web.asking import Client, asked
from tests.web.kept import Lasting

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

# Who asks. The job that is asked for is alice's, in the account that bob coordinates.
READERS = {
    "nobody": NOBODY,
    "owner": boards.ALICE,
    "stranger": boards.STRANGER,
    "coordinator": boards.BOB,
    "administrator": boards.ADMINISTRATOR,
}
MACHINE, MACHINE_LINE = tokens.new("ci", "user=alice")
BOARD_MACHINE, BOARD_LINE = tokens.new("wall", "administrator")
TOKENS = {"machine of alice": MACHINE, "machine of administrators": BOARD_MACHINE}


class Row(NamedTuple):
    """A place: where one of it is, by which method, and the status that each reader is given.

    "all", "readers" (all but nobody), "theirs" (owner, coordinator, administrators), "maker's"
    (owner, administrators), or "administrators"; ``refused`` is what who is somebody is told where
    it is not theirs.
    """

    path: str
    of: str
    whose: str
    method: str = "GET"
    granted: int = 200
    refused: int = 404


_JOB = next(end for end in boards.ENDS if end.facts.user == "alice" and len(end.nodes) > 1)
J, C, N = _JOB.facts.id, _JOB.facts.cluster, _JOB.nodes[0]
F = _JOB.verdict.fingerprint
K = kept.ID
API = "/api/v1"

TABLE = [
    Row("/static/{name}", "/static/board.css", "all"),
    Row("/healthz", "/healthz", "all"),
    Row("/metrics", "/metrics", "all"),
    Row("/shared/{token}", "/shared/valid", "all"),
    Row(f"{API}/openapi.json", f"{API}/openapi.json", "all"),
    Row("/", "/", "readers"),
    Row("/failures", "/failures", "readers"),
    Row("/jobs/{cluster}/{job}.json", f"/jobs/{C}/{J}.json", "theirs"),
    Row("/jobs/{cluster}/{job}", f"/jobs/{C}/{J}", "theirs"),
    Row(
        "/jobs/{cluster}/{job}/evidence/{incarnation}/{node}",
        f"/jobs/{C}/{J}/evidence/1/{N}",
        "administrators",
    ),
    Row("/nodes", "/nodes", "administrators"),
    Row("/nodes/{cluster}/{node}", "/nodes/main/n07", "administrators"),
    Row("/causes", "/causes", "readers"),
    Row("/causes/{cause}", "/causes/gpu.ecc", "readers"),
    Row("/fingerprints", "/fingerprints", "readers"),
    Row("/fingerprints/{fingerprint}", f"/fingerprints/{F}", "theirs"),
    Row(
        "/fingerprints/{fingerprint}/note",
        f"/fingerprints/{F}/note",
        "administrators",
        "POST",
        303,
    ),
    Row("/incidents", "/incidents", "administrators"),
    Row(
        "/incidents/{key}/acknowledge",
        "/incidents/1/acknowledge",
        "administrators",
        "POST",
        303,
    ),
    Row("/incidents/{key}/close", "/incidents/1/close", "administrators", "POST", 303),
    Row("/incidents/{key}/silence", "/incidents/1/silence", "administrators", "POST", 303),
    Row("/explain", "/explain", "readers"),
    Row("/explain", "/explain", "readers", "POST"),
    Row("/explained/{report}", f"/explained/{K}", "maker's"),
    Row("/explained/{report}/forget", f"/explained/{K}/forget", "maker's", "POST", 303),
    Row("/deliveries", "/deliveries", "administrators"),
    Row(
        "/deliveries/{delivery}/retry", "/deliveries/delivery0/retry", "administrators", "POST", 303
    ),
    Row("/health", "/health", "administrators"),
    Row("/live", "/live", "readers"),
    Row("/live/newest", "/live/newest", "readers"),
    Row(f"{API}/overview", f"{API}/overview", "readers"),
    Row(f"{API}/failures", f"{API}/failures", "readers"),
    Row(f"{API}/failures.csv", f"{API}/failures.csv", "readers"),
    Row(f"{API}/jobs/{{job}}", f"{API}/jobs/{J}", "readers"),
    Row(f"{API}/failures/{{cluster}}/{{job}}", f"{API}/failures/{C}/{J}", "theirs"),
    Row(f"{API}/failures/{{cluster}}/{{job}}/verdict", f"{API}/failures/{C}/{J}/verdict", "theirs"),
    Row(
        f"{API}/failures/{{cluster}}/{{job}}/{{incarnation}}/evidence/{{node}}",
        f"{API}/failures/{C}/{J}/1/evidence/{N}",
        "administrators",
    ),
    Row(f"{API}/causes", f"{API}/causes", "readers"),
    Row(f"{API}/nodes", f"{API}/nodes", "administrators"),
    Row(f"{API}/nodes.csv", f"{API}/nodes.csv", "administrators"),
    Row(f"{API}/nodes/{{cluster}}/{{node}}", f"{API}/nodes/main/n07", "administrators"),
    Row(f"{API}/fingerprints", f"{API}/fingerprints", "readers"),
    Row(f"{API}/fingerprints/{{fingerprint}}", f"{API}/fingerprints/{F}", "theirs"),
    Row(
        f"{API}/fingerprints/{{fingerprint}}/note",
        f"{API}/fingerprints/{F}/note",
        "administrators",
        "POST",
    ),
    Row(f"{API}/incidents", f"{API}/incidents", "administrators"),
    Row(
        f"{API}/incidents/{{key}}/acknowledge",
        f"{API}/incidents/1/acknowledge",
        "administrators",
        "POST",
    ),
    Row(f"{API}/incidents/{{key}}/close", f"{API}/incidents/1/close", "administrators", "POST"),
    Row(f"{API}/incidents/{{key}}/silence", f"{API}/incidents/1/silence", "administrators", "POST"),
    Row(f"{API}/silences", f"{API}/silences", "administrators"),
    Row(f"{API}/deliveries", f"{API}/deliveries", "administrators"),
    Row(
        f"{API}/deliveries/{{delivery}}/retry",
        f"{API}/deliveries/delivery0/retry",
        "administrators",
        "POST",
    ),
    Row(f"{API}/health", f"{API}/health", "administrators"),
    Row(f"{API}/explain", f"{API}/explain", "readers", "POST"),
    Row(f"{API}/explained", f"{API}/explained", "readers"),
    Row(f"{API}/explained/{{report}}", f"{API}/explained/{K}", "maker's"),
    Row(f"{API}/explained/{{report}}/forget", f"{API}/explained/{K}/forget", "maker's", "POST"),
]
# What each POST needs to be done, beside the right to do it.
FORMS = {
    "/incidents/1/silence": {"hours": "8"},
    f"/fingerprints/{F}/note": {"note": "known"},
    "/explain": {"log": "srun: error: n1: task 0: Killed"},
}
BODIES = {
    f"{API}/incidents/1/silence": {"until": "2099-01-01T00:00:00Z"},
    f"{API}/fingerprints/{F}/note": {"note": "known"},
}


class Named:
    """Takes the sender's word for who it is, as if a proxy had said so; for tests alone."""

    async def identify(self, request: Request) -> Identity | None:
        reader = READERS.get(request.headers.get("x-test", ""))
        return None if reader is None else Identity(reader)


def all_of(board: Board, keeper: Lasting) -> list[Place]:
    """All places over a board."""
    shared = {"valid": "<p>The report</p>"}.get
    return places(Sources(board, lambda: True, lambda: b"", shared, Quick(), keeper))


@contextmanager
def opened(found: list[Place]) -> Iterator[Client]:
    lines = tokens.parse(f"{MACHINE_LINE}\n{BOARD_LINE}")
    ways = Ways([tokens.Tokens(lambda: lines, lambda: dt.date(2026, 12, 1)), Named()])
    with asked(application(found, lambda: Entrance(ways))) as client:
        yield client


@pytest.fixture(scope="module")
def all_places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Place]]:
    folder = tmp_path_factory.mktemp("board")
    with kept.lasting(f"sqlite:///{folder}/ff.db") as keeper:
        yield all_of(boards.board(folder), keeper)


@pytest.fixture(scope="module")
def client(all_places: list[Place]) -> Iterator[Client]:
    with opened(all_places) as client:
        yield client


@pytest.fixture(scope="module")
def of_a_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Over a real store; it knows the same failures, and nothing of what nodes sent."""
    url = f"sqlite:///{tmp_path_factory.mktemp('store')}/ff.db"
    board = boards.stored(url)
    with kept.lasting(url) as keeper, opened(all_of(board, keeper)) as client:
        yield client
    board.close_store()


@pytest.fixture(params=["client", "of_a_store"])
def reading(request: pytest.FixtureRequest) -> Client:
    """A client of the pages over a list, and over a real store."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Client)
    return found


def may(row: Row, who: str) -> bool:
    """True where the table grants the place to ``who``."""
    administrators = ("administrator", "machine of administrators")
    makers = (*administrators, "owner", "machine of alice")
    return {
        "all": True,
        "readers": who != "nobody",
        "theirs": who in (*makers, "coordinator"),
        "maker's": who in makers,
        "administrators": who in administrators,
    }[row.whose]


def ask(client: Client, who: str, method: str, path: str) -> requests.Response:
    headers = {"x-test": who}
    if who in TOKENS:
        headers = {"authorization": f"Bearer {TOKENS[who]}"}
    more: dict[str, object] = {"headers": headers, "stream": True}
    if method != "GET" and method != "HEAD":
        if path.startswith(API):
            headers |= {"content-type": "application/json"}
            more |= {"json": BODIES.get(path, {})}
            if path == f"{API}/explain":
                headers["content-type"] = "text/plain"
                more |= {"data": b"srun: error: n1: task 0: Killed"}
        else:
            page = client.get("/explain", headers={"x-test": who}).text
            token = page.partition('name="form_token" value="')[2].partition('"')[0]
            more |= {"data": {**FORMS.get(path, {}), "form_token": token}}
    answer = client.ask(method, path, **more)
    answer.close()  # what is streamed has no end
    return answer


def test_the_table_knows_every_place_and_no_other(all_places: list[Place]) -> None:
    known = {(row.path, row.method) for row in TABLE}

    found = {
        (re.sub(r":[a-z]+}", "}", place.path), method)
        for place in all_places
        for method in place.methods
    }
    assert found == known


@pytest.mark.parametrize("who", [*READERS, *TOKENS])
def test_everyone_is_answered_as_the_table_says(client: Client, who: str) -> None:
    wrong = []
    for row in TABLE:
        if row.path.endswith("/explain") and row.method == "POST":
            continue  # each alone below: it may be asked for only so often
        answer = ask(client, who, row.method, row.of)
        wanted = row.granted if may(row, who) else 401 if who == "nobody" else row.refused
        if answer.status_code != wanted:
            wrong.append((row.method, row.of, answer.status_code, wanted))

    assert wrong == []


@pytest.mark.parametrize("who", [*READERS, *TOKENS])
def test_a_real_store_answers_everyone_as_the_table_says(of_a_store: Client, who: str) -> None:
    wrong = []
    for row in TABLE:
        if row.whose in ("readers", "theirs", "maker's") and row.method == "GET":
            answer = ask(of_a_store, who, row.method, row.of)
            wanted = row.granted if may(row, who) else 401 if who == "nobody" else row.refused
            if answer.status_code != wanted:
                wrong.append((row.of, answer.status_code, wanted))

    assert wrong == []


@pytest.mark.parametrize("who", [*READERS, *TOKENS])
def test_logs_are_explained_to_every_reader(client: Client, who: str) -> None:
    for path in ("/explain", f"{API}/explain"):
        assert ask(client, who, "POST", path).status_code == (401 if who == "nobody" else 200)


@pytest.mark.parametrize("who", ["nobody", "stranger", "administrator"])
def test_no_other_method_does_anything(client: Client, who: str) -> None:
    taken = {(row.of, row.method) for row in TABLE} | {
        (row.of, "HEAD") for row in TABLE if row.method == "GET"
    }
    wrong = []
    for path in {row.of for row in TABLE}:
        for method in METHODS:
            if (path, method) in taken:
                continue
            status = ask(client, who, method, path).status_code
            if status not in (401, 404, 405) or (who == "administrator" and status != 405):
                wrong.append((method, path, status))

    assert wrong == []


def test_head_is_answered_as_get_is_everywhere(client: Client) -> None:
    wrong = []
    for row in TABLE:
        if row.method == "GET":
            answer = ask(client, "administrator", "HEAD", row.of)
            if answer.status_code != 200:
                wrong.append((row.of, answer.status_code))

    assert wrong == []


def test_not_yours_is_answered_as_not_there(reading: Client) -> None:
    pairs = [
        (f"/jobs/{C}/{J}", f"/jobs/{C}/999999"),
        (f"/jobs/{C}/{J}.json", f"/jobs/{C}/999999.json"),
        (f"/jobs/{C}/{J}/evidence/1/{N}", f"/jobs/{C}/999999/evidence/1/{N}"),
        (f"/fingerprints/{F}", "/fingerprints/1:absent"),
        ("/nodes/main/n07", "/nodes/main/absent"),
        (f"{API}/failures/{C}/{J}", f"{API}/failures/{C}/999999"),
        (f"{API}/failures/{C}/{J}/verdict", f"{API}/failures/{C}/999999/verdict"),
        (f"{API}/jobs/{J}", f"{API}/jobs/999999"),
        (f"{API}/fingerprints/{F}", f"{API}/fingerprints/1:absent"),
        (f"/explained/{K}", f"/explained/{'0' * 32}"),
        (f"{API}/explained/{K}", f"{API}/explained/{'0' * 32}"),
    ]
    headers = {"x-test": "stranger"}
    for theirs, absent in pairs:
        one, other = (reading.get(path, headers=headers) for path in (theirs, absent))

        assert (one.status_code, one.text) == (other.status_code, other.text), theirs
        assert dict(one.headers) | {"date": ""} == dict(other.headers) | {"date": ""}, theirs


@pytest.mark.parametrize("who", ["stranger", "coordinator", "administrator"])
def test_no_list_holds_a_report_that_somebody_else_keeps(client: Client, who: str) -> None:
    for path in ("/explain", f"{API}/explained"):
        assert K in client.get(path, headers={"x-test": "owner"}).text
        assert K not in client.get(path, headers={"x-test": who}).text


@pytest.mark.parametrize("who", ["stranger", "coordinator"])
@pytest.mark.parametrize("door", ["/explained/{}/forget", API + "/explained/{}/forget"])
def test_who_may_not_read_a_report_cannot_forget_it(client: Client, who: str, door: str) -> None:
    one, other = (ask(client, who, "POST", door.format(name)) for name in (K, "0" * 32))

    assert (one.status_code, other.status_code) == (404, 404)
    assert client.get(f"/explained/{K}", headers={"x-test": "owner"}).status_code == 200


@pytest.mark.parametrize("who", ["stranger", "owner", "coordinator"])
def test_no_list_holds_what_is_not_the_readers(reading: Client, who: str) -> None:
    reader = READERS[who]
    others = {
        end.facts.id for end in boards.ENDS if not reader.sees(end.facts.user, end.facts.account)
    }
    mine = {end.facts.id for end in boards.ENDS} - others
    users = {end.facts.user or "" for end in boards.ENDS if end.facts.id in others} - {
        end.facts.user or "" for end in boards.ENDS if end.facts.id in mine
    }
    assert others
    for path in ("/", "/failures", "/live/newest", f"{API}/failures", f"{API}/failures.csv"):
        text = reading.get(path, headers={"x-test": who}).text

        assert not any(f"/{job}" in text or f'"{job}"' in text for job in others), path
        assert not any(f">{user}<" in text or f'"{user}"' in text for user in users), path


@pytest.mark.parametrize("who", ["stranger", "owner"])
@pytest.mark.parametrize("asked_for", ["user=carol", "account=language"])
def test_a_filter_opens_nothing(reading: Client, who: str, asked_for: str) -> None:
    for path in ("/failures", f"{API}/failures", f"{API}/failures.csv"):
        text = reading.get(f"{path}?{asked_for}", headers={"x-test": who}).text

        assert "/jobs/" not in text and '"job"' not in text and ",language," not in text


def test_the_page_of_one_reader_is_no_key_for_another(reading: Client) -> None:
    first = reading.get(f"{API}/failures?limit=5", headers={"x-test": "administrator"}).json()
    more = reading.get(first["next"], headers={"x-test": "stranger"})

    assert more.status_code in (200, 400, 404)
    if more.status_code == 200:
        assert more.json()["failures"] == []


def test_a_link_shows_its_report_and_opens_nothing_else(client: Client) -> None:
    answer = client.get("/shared/valid")

    assert answer.text == "<p>The report</p>"
    assert "set-cookie" not in answer.headers
    assert "'unsafe-inline'" in answer.headers["content-security-policy"]
    assert "script-src" not in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert client.get("/shared/forged").status_code == 404
    assert client.get(f"/jobs/{C}/{J}", headers={"referer": "/shared/valid"}).status_code == 401


WINDINGS = [
    "/jobs/{C}/{J}/",
    "//jobs/{C}/{J}",
    "/jobs//{C}/{J}",
    "/shared/../jobs/{C}/{J}",
    "/static/../jobs/{C}/{J}",
    "/shared/%2e%2e/jobs/{C}/{J}",
    "/static/..%2f..%2fjobs%2f{C}%2f{J}",
    "/static/%2e%2e/%2e%2e/etc/passwd",
    "/static/report.html",
    "/static/__init__.py",
    "/JOBS/{C}/{J}",
    "/jobs/{C}/{J};x",
    "/jobs/{C}/{J}%00",
    "/jobs/{C}/{J}%0a",
    "/jobs/{C}/ {J}",
    "/jobs/{C}/0{J}",
    "/jobs/{C}%2f{J}",
    "/healthz/../jobs/{C}/{J}",
    "/healthz/jobs/{C}/{J}",
]


@pytest.mark.parametrize("winding", WINDINGS)
@pytest.mark.parametrize("who", ["nobody", "stranger"])
def test_no_winding_path_leads_to_another_users_job(
    reading: Client, who: str, winding: str
) -> None:
    path = winding.format(C=C, J=J).replace(" ", "%20")
    status = reading.raw(path, [("Host", "localhost"), ("X-Test", who)])

    assert status in (401, 404)


@pytest.mark.parametrize(
    "header",
    [
        ("X-Original-URL", "/nodes"),
        ("X-Rewrite-URL", "/nodes"),
        ("X-HTTP-Method-Override", "POST"),
        ("X-Forwarded-User", "root"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Host", "evil.example"),
        ("Forwarded", "for=127.0.0.1;host=evil.example"),
        ("X-Remote-User", "root"),
        ("Remote-User", "root"),
        ("Authorization", "Basic cm9vdDpyb290"),
        ("Cookie", "user=root; session=1"),
    ],
)
def test_no_header_of_another_product_gives_rights(client: Client, header: tuple[str, str]) -> None:
    for who, status in (("nobody", 401), ("stranger", 404)):
        headers = [("Host", "localhost"), ("X-Test", who), header]

        assert client.raw("/nodes", headers) == status


def test_machines_change_what_they_may_without_a_form(client: Client, tmp_path: Path) -> None:
    headers = {"authorization": f"Bearer {BOARD_MACHINE}"}

    assert client.post("/incidents/1/acknowledge", headers=headers).status_code == 303


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"]
)
def test_another_sites_form_changes_nothing_by_the_api_either(client: Client, kind: str) -> None:
    rows = [row for row in TABLE if row.method == "POST" and row.of.startswith(API)]
    for row in rows:
        for origin in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
            headers = {"x-test": "administrator", "content-type": kind, **origin}

            assert client.post(row.of, headers=headers, data=b'{"a":1}').status_code == 403
        if row.path.endswith("/explain"):
            continue  # it changes nothing
        # An old browser that tells no origin: what no form can send is asked for.
        headers = {"x-test": "administrator", "content-type": kind}
        assert client.post(row.of, headers=headers, data=b"{}").status_code in (400, 403, 415)
