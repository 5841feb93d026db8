"""Reports that are kept by the API: wished, read, listed, forgotten, refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
from starlette.requests import Request

from firstfault.config import Explain
from firstfault.model.board import Reader
from firstfault.web import api
from firstfault.web.access import Identity
from firstfault.web.application import application
from firstfault.web.guard import Entrance
from firstfault.web.limits import Pace
from tests.web import boards
from tests.web.api_served import Quick, Served, served
from tests.web.asking import Client, asked
from tests.web.boards import ADMINISTRATOR, ALICE, STRANGER, Remembered
from tests.web.kept import keeping

LOG = b"srun: error: n1: task 0: Killed"


@contextmanager
def kept(folder: Path, **settings: int) -> Iterator[Served]:
    with (
        keeping(f"sqlite:///{folder}/ff.db", Explain(**settings)) as (keeper, _),
        served(Remembered([]), Quick(), keeper) as client,
    ):
        yield client


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Served]:
    with kept(tmp_path, keep_reports=3) as client:
        yield client


def send(
    client: Served, query: str, reader: Reader = ALICE, media: str = "text/plain"
) -> requests.Response:
    headers = {"x-test-reader": reader.name, "content-type": media}
    return requests.post(
        f"{client.url}/api/v1/explain?{query}", data=LOG, headers=headers, timeout=30
    )


def test_a_report_is_kept_read_listed_and_forgotten(client: Served) -> None:
    answer = send(client, "keep=true&title=train-7b").json()
    name = answer["kept"]["id"]

    read = client.get(f"/explained/{name}", ALICE).json()
    listed = client.get("/explained", ALICE).json()
    done = client.post(f"/explained/{name}/forget", {}, ALICE)

    assert read == answer
    assert (answer["kept"]["title"], answer["kept"]["kept_by"]) == ("train-7b", "alice")
    assert listed == {"reports": [answer["kept"]], "next": None}
    assert done.json() == {"done": True, "by": "alice"}
    assert client.get(f"/explained/{name}", ALICE).status_code == 404
    assert client.post(f"/explained/{name}/forget", {}, ALICE).status_code == 404


@pytest.mark.parametrize("query", ["", "keep=false"])
def test_nothing_is_kept_unless_it_is_wished(client: Served, query: str) -> None:
    answer = send(client, query)

    assert answer.json()["kept"] is None
    assert client.get("/explained", ALICE).json()["reports"] == []


def test_an_answer_that_the_reader_has_is_not_sent_again(client: Served) -> None:
    name = send(client, "keep=true").json()["kept"]["id"]
    tag = client.get(f"/explained/{name}", ALICE).headers["etag"]

    assert client.get(f"/explained/{name}", ALICE, tag).status_code == 304


def test_a_list_is_read_page_by_page(client: Served) -> None:
    made = {send(client, "keep=true").json()["kept"]["id"] for _ in range(3)}
    seen, href = [], "/explained?limit=1"
    while href is not None:
        found = client.get(href.removeprefix("/api/v1"), ALICE).json()
        seen += [each["id"] for each in found["reports"]]
        href = found["next"]

    assert (len(seen), set(seen)) == (3, made)
    assert client.get("/explained?page=x", ALICE).status_code == 404


def test_the_title_is_the_jobs_or_the_first_files_where_none_is_given(client: Served) -> None:
    files = [("file", ("n3/dmesg.txt", LOG)), ("file", ("b.txt", LOG))]
    answer = requests.post(
        f"{client.url}/api/v1/explain?keep=true",
        files=files,
        headers={"x-test-reader": "alice"},
        timeout=30,
    )

    assert answer.json()["kept"]["title"] == "n3/dmesg.txt"
    assert send(client, "keep=true").json()["kept"]["title"] == "log"


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("keep=yes", "keep"),
        ("keep=", "keep"),
        ("keep=true&keep=true", "keep"),
        ("keep=true&title=", "title"),
        (f"keep=true&title={'x' * 257}", "title"),
        ("keep=true&title=%00", "title"),
    ],
)
def test_what_may_not_be_asked_is_refused_by_name(client: Served, query: str, name: str) -> None:
    answer = send(client, query)

    assert (answer.status_code, answer.json()["parameter"]) == (400, name)


def test_a_title_for_what_is_not_kept_is_refused(client: Served) -> None:
    answer = send(client, "title=a")

    assert (answer.status_code, answer.json()["parameter"]) == (409, "title")


def test_too_many_are_refused_before_the_log_is_explained(tmp_path: Path) -> None:
    quick = Quick()
    with (
        keeping(f"sqlite:///{tmp_path}/ff.db", Explain(keep_reports=1)) as (keeper, _),
        served(Remembered([]), quick, keeper) as client,
    ):
        send(client, "keep=true")
        refused = send(client, "keep=true")
        assert send(client, "keep=true", STRANGER).status_code == 200
        assert send(client, "").status_code == 200

    assert refused.status_code == 409
    assert "You keep 1 report already" in refused.json()["detail"]
    assert len(quick.asked) == 3


def test_where_nothing_is_kept_there_is_neither_parameter_nor_place() -> None:
    with served(Remembered([]), Quick()) as client:
        answer = send(client, "keep=true")

        assert answer.json()["detail"] == 'There is no parameter "keep" here. There are host.'
        assert client.get("/explained", ADMINISTRATOR).status_code == 404
        assert "409" not in client.get("/openapi.json").text


class ByBrowser:
    """Everyone is alice, by what her browser sends by itself."""

    note = ""

    async def identify(self, _request: Request) -> Identity:
        return Identity(ALICE)


@contextmanager
def visited(folder: Path) -> Iterator[Client]:
    with keeping(f"sqlite:///{folder}/ff.db") as (keeper, _):
        found = api.places(Remembered([]), Quick(), lambda: boards.NOW, keeper)
        with asked(application(found, lambda: Entrance(ByBrowser()))) as client:
            yield client


SENT_BY_FORMS = ["text/plain", "multipart/form-data; boundary=b"]


@pytest.mark.parametrize("media", SENT_BY_FORMS)
def test_a_page_of_another_site_can_have_nothing_kept(tmp_path: Path, media: str) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\na\r\n--b--\r\n'
    with visited(tmp_path) as client:
        own = client.base
        for headers, status in (
            ({}, 403),
            ({"origin": "https://evil.example"}, 403),
            ({"sec-fetch-site": "cross-site"}, 403),
            ({"origin": own}, 200),
            ({"sec-fetch-site": "same-origin"}, 200),
        ):
            answer = client.post(
                "/api/v1/explain?keep=true", data=body, headers={"content-type": media, **headers}
            )
            assert answer.status_code == status, (headers, answer.text)
        plain = {"content-type": media}
        assert client.post("/api/v1/explain", data=body, headers=plain).status_code == 200
        assert len(client.get("/api/v1/explained").json()["reports"]) == 2


def test_what_no_form_can_send_is_kept_for_whoever_sends_it(tmp_path: Path) -> None:
    with visited(tmp_path) as client:
        headers = {"content-type": "application/octet-stream"}
        answer = client.post("/api/v1/explain?keep=true", data=LOG, headers=headers)

    assert answer.json()["kept"]["title"] == "log"


def test_how_often_is_explained_is_as_configured() -> None:
    found = api.places(Remembered([]), Quick(), lambda: boards.NOW)
    entrance = Entrance(ByBrowser())
    with asked(application(found, lambda: entrance, Pace(1, 2, 60))) as client:
        headers = {"content-type": "text/plain"}
        answers = [client.post("/api/v1/explain", data=LOG, headers=headers) for _ in range(3)]

    assert [each.status_code for each in answers] == [200, 200, 429]
    assert 0 < int(answers[-1].headers["retry-after"]) <= 31
