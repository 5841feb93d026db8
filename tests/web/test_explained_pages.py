"""Pages of reports that are kept, by HTTP: wished, shown, listed, forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import requests
from starlette.requests import Request

from firstfault.app.explained import MOST_BYTES, KeptReports
from firstfault.app.links import Links
from firstfault.config import Explain
from firstfault.model.board import Reader
from firstfault.model.explained import Explained
from firstfault.model.verdict import Cause, Job, Verdict
from firstfault.web import board as pages
from firstfault.web import files
from firstfault.web.access import Identity
from firstfault.web.application import application
from firstfault.web.guard import Entrance
from tests.report.test_valid_html import errors
from tests.web.api_served import Quick
from tests.web.asking import Client, asked
from tests.web.boards import ALICE, HOSTILE, NOW, Remembered
from tests.web.kept import LINKS, keeping

ANYONE = Reader("anyone", administrator=True)
LOG = "srun: error: n1: task 0: Killed\n"
TITLE = re.compile(r"<title>(.*?) · firstfault</title>")


class Told(Quick):
    """Explains whatever it is sent by one verdict."""

    max_bytes = 4 << 20

    def __init__(self, found: Explained | None = None) -> None:
        super().__init__()
        self._found = found

    def explain(self, *given: object) -> Explained:
        usual = super().explain(*given)  # type: ignore[arg-type]
        return self._found or usual


def opened(
    keeper: KeptReports | None, told: Explained | None = None
) -> AbstractContextManager[Client]:
    found = pages.places(Remembered([]), Told(told), lambda: NOW, keeper)
    return asked(application([*files.places(), *found]))


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[KeptReports]:
    with keeping(f"sqlite:///{tmp_path}/ff.db", Explain(keep_reports=3)) as (made, _):
        yield made


@pytest.fixture
def client(keeper: KeptReports) -> Iterator[Client]:
    with opened(keeper) as client:
        yield client


def post(
    client: Client,
    path: str,
    fields: dict[str, str],
    sent: Sequence[tuple[str, tuple[str, bytes]]] = (),
) -> requests.Response:
    token = re.search(r'name="form_token" value="([^"]+)"', client.get("/explain").text)
    assert token is not None
    headers = {"origin": client.base}
    more = {"files": list(sent) or {"files": ("", b"")}} if path == "/explain" else {}
    return client.post(path, data={"form_token": token[1], **fields}, headers=headers, **more)


def kept(client: Client, **fields: str) -> str:
    answer = post(client, "/explain", {"log": LOG, "keep": "1", **fields})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def test_a_report_is_kept_shown_listed_and_forgotten(client: Client) -> None:
    path = kept(client, title="train-7b again")
    page = client.get(path)
    form = client.get("/explain").text

    assert re.fullmatch("/explained/[0-9a-f]{32}", path)
    assert (page.status_code, errors(page.text), errors(form)) == (200, [], [])
    assert TITLE.findall(page.text) == ["train-7b again"]
    assert "It is kept until" in page.text and "2026-12-30 16:00" in page.text
    assert "Nothing is known" in page.text
    assert f'value="https://faults.example.org{path}"' in page.text
    assert 'aria-current="page">Explain' in page.text
    assert f'href="{path}">train-7b again</a>' in form

    answer = post(client, f"{path}/forget", {})
    again = client.get(answer.headers["location"]).text

    assert answer.headers["location"] == "/explain?done=forgotten"
    assert "The report is forgotten." in again
    assert path not in again
    assert client.get(path).status_code == 404
    assert post(client, f"{path}/forget", {}).status_code == 404


def test_nothing_is_kept_that_is_not_ticked(client: Client, keeper: KeptReports) -> None:
    answer = post(client, "/explain", {"log": LOG, "title": "a title alone"})

    assert answer.status_code == 200
    assert "Nothing of it is kept" in answer.text
    assert keeper.listed(ANYONE).reports == ()
    assert not re.search(r'name="keep"[^>]* checked', client.get("/explain").text)


def test_the_form_says_how_long_and_for_whom(client: Client) -> None:
    text = client.get("/explain").text

    assert "For 30 days, at an address that cannot be guessed." in text
    assert "Whoever reaches these pages can read it." in text


def test_where_nothing_is_kept_no_form_offers_it() -> None:
    with opened(None) as client:
        text = client.get("/explain").text
        answer = post(client, "/explain", {"log": LOG, "keep": "1"})

        assert 'name="keep"' not in text and "Nothing is kept: not the logs" in text
        assert (answer.status_code, "Nothing of it is kept" in answer.text) == (200, True)
        assert client.get(f"/explained/{'0' * 32}").status_code == 404


def test_nothing_is_kept_or_forgotten_without_the_token_of_a_form(
    client: Client, keeper: KeptReports
) -> None:
    path = kept(client)
    headers = {"origin": client.base}
    fields = {"log": LOG, "keep": "1", "form_token": "x"}

    assert client.post("/explain", data=fields, headers=headers).status_code == 403
    assert client.post(f"{path}/forget", data=fields, headers=headers).status_code == 403
    assert [f"/explained/{each.id}" for each in keeper.listed(ANYONE).reports] == [path]


@pytest.mark.parametrize(
    ("job", "title"), [("4242", "Job 4242"), (None, "n3/dmesg.txt")], ids=["job", "file"]
)
def test_without_a_title_it_is_called_by_its_job_or_the_first_file(
    keeper: KeptReports, job: str | None, title: str
) -> None:
    verdict = Verdict(Job(id=job), Cause("unknown", "x", "either", "unknown"))
    with opened(keeper, Explained(verdict)) as client:
        post(
            client,
            "/explain",
            {"keep": "1", "title": "  "},
            [("files", ("n3/dmesg.txt", b"x")), ("files", ("b.txt", b"y"))],
        )

    assert [each.title for each in keeper.listed(ANYONE).reports] == [title]


def test_who_keeps_too_many_is_told_before_the_log_is_explained(client: Client) -> None:
    for _ in range(3):
        kept(client)
    answer = post(client, "/explain", {"log": LOG, "keep": "1", "title": "a <b>", "hosts": "n1"})

    assert answer.status_code == 409
    assert errors(answer.text) == []
    assert "You keep 3 reports already" in answer.text
    assert answer.text.count("Forget<span") == 3
    assert 'value="a &lt;b&gt;"' in answer.text and re.search(
        r'name="keep"[^>]* checked', answer.text
    )
    assert post(client, "/explain", {"log": LOG}).status_code == 200


def test_a_title_that_is_too_long_is_said_on_the_form(client: Client) -> None:
    answer = post(client, "/explain", {"log": LOG, "keep": "1", "title": "x" * 257})

    assert answer.status_code == 422
    assert "A title has at most 256 characters." in answer.text


def test_a_report_that_is_too_large_to_be_kept_is_shown_all_the_same(keeper: KeptReports) -> None:
    cause = Cause("unknown", "Much is said", "either", "unknown")
    large = Verdict(Job(), cause, notes=("x" * 1000,) * (MOST_BYTES // 1000))
    with opened(keeper, Explained(large)) as client:
        answer = post(client, "/explain", {"log": LOG, "keep": "1"})

    assert answer.status_code == 200
    assert errors(answer.text) == []
    assert "It is not kept. The report is larger than 1 MiB" in answer.text
    assert "Much is said" in answer.text
    assert keeper.listed(ANYONE).reports == ()


def test_what_others_write_is_no_markup(keeper: KeptReports) -> None:
    verdict = Verdict(Job(), Cause("unknown", HOSTILE, "either", "unknown"))
    told = Explained(verdict, (f"{HOSTILE}.gz: left out",) * 30)
    with opened(keeper, told) as client:
        path = kept(client, title=HOSTILE)
        for page in (client.get(path), client.get("/explain")):
            assert errors(page.text) == []
            assert "<script>alert" not in page.text and "\x1b" not in page.text
        assert "and 10 more files were left out" in client.get(path).text


def test_many_reports_are_listed_page_by_page(tmp_path: Path) -> None:
    with keeping(f"sqlite:///{tmp_path}/ff.db") as (keeper, _):
        found = Explained(Verdict(Job(), Cause("unknown", "x", "either", "unknown")))
        made = {keeper.keep(ANYONE, found, str(number)).id for number in range(60)}
        with opened(keeper) as client:
            first = client.get("/explain").text
            older = re.search(r'rel="next" href="([^"]+)"', first)
            assert older is not None
            second = client.get(older[1]).text

            assert errors(second) == []
            seen = re.findall(r'href="/explained/([0-9a-f]{32})"', first + second)
            assert (len(seen), set(seen)) == (60, made)
            assert 'href="/explain">To the first' in second
            assert client.get("/explain?page=x").status_code == 400


class Known:
    """Everyone is alice."""

    note = ""

    async def identify(self, _request: Request) -> Identity:
        return Identity(ALICE)


@pytest.mark.parametrize(
    ("links", "said"),
    [
        (LINKS, "You and the administrators can read it, and whoever you give its link to."),
        (Links(), "You and the administrators can read it. The logs"),
    ],
    ids=["signed", "not signed"],
)
def test_where_readers_are_known_the_form_says_who_may_read(
    tmp_path: Path, links: Links, said: str
) -> None:
    with keeping(f"sqlite:///{tmp_path}/ff.db", links=links) as (keeper, _):
        found = pages.places(Remembered([]), Quick(), lambda: NOW, keeper)
        with asked(application(found, lambda: Entrance(Known()))) as client:
            assert said in client.get("/explain").text
            page = client.get(kept(client)).text

    assert "for alice and the administrators" in page and "logs sent by alice at" in page


@pytest.mark.parametrize("links", [LINKS, Links()], ids=["signed", "not signed"])
def test_a_link_is_offered_where_something_signs_it(tmp_path: Path, links: Links) -> None:
    with (
        keeping(f"sqlite:///{tmp_path}/ff.db", links=links) as (keeper, _),
        opened(keeper) as client,
    ):
        path = kept(client)
        text = client.get(path).text

    assert ("/shared/" in text) == (links is LINKS)
    assert (f'value="{client.base}{path}"' in text) == (links is not LINKS)
