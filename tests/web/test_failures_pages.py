"""The overview, the list of failures and one failure, by HTTP."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from html import unescape

import msgspec
import pytest
import requests

from firstfault.model import board as b
from firstfault.model import verdict as v
from firstfault.web import board as pages
from firstfault.web import files
from firstfault.web.access import Identity
from firstfault.web.application import application
from firstfault.web.board import failure
from firstfault.web.guard import Entrance
from tests.web.asking import Client, asked
from tests.web.boards import ALICE, BOB, ENDS, HOSTILE, NOW, STRANGER, Remembered

READERS = {each.name: each for each in (ALICE, BOB, STRANGER)}


class Named:
    """The reader whom a header names, else an administrator."""

    note = ""

    async def identify(self, request: requests.Request) -> Identity:
        who = request.headers.get("x-test-reader")
        return Identity(READERS[who] if who else b.Reader("root", administrator=True))


def served(board: b.Board) -> Iterator[Client]:
    found = [*files.places(), *pages.places(board, None, lambda: NOW)]
    with asked(application(found, lambda: Entrance(Named()))) as client:
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    yield from served(Remembered(ENDS))


def seen(answer: requests.Response) -> str:
    """What stands on the page, without its markup."""
    text = re.sub(r"<(script|style|title)\b.*?</\1>|<[^>]+>", " ", answer.text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(text))


def as_(reader: b.Reader) -> dict[str, str]:
    return {"x-test-reader": reader.name}


def test_the_overview_begins_with_what_failed(client: Client) -> None:
    answer = client.get("/")

    assert answer.status_code == 200
    assert "Since 2026-11-29 17:00 UTC: 49 failed jobs (41 in the 24 hours before)" in seen(answer)
    assert "n07 looks sick." in seen(answer)


@pytest.mark.parametrize("span", ["24h", "7d", "30d", "1y"])
def test_each_span_is_shown_with_its_picture_and_the_same_as_a_table(
    client: Client, span: str
) -> None:
    answer = client.get(f"/?span={span}")

    assert answer.status_code == 200
    assert answer.text.count('<svg class="chart') == 1
    assert "The same as a table" in seen(answer)
    assert "style=" not in answer.text and "onclick" not in answer.text


def test_the_table_and_the_picture_count_alike(client: Client) -> None:
    text = client.get("/?span=30d").text
    rows = re.findall(r'class="when"><a.*?</a></th><td class="number">([\d,]+)</td>', text)

    total = sum(int(each.replace(",", "")) for each in rows)
    assert f">Since 2026-11-01 00:00 UTC: {total} failed jobs" in text


def test_the_overview_is_of_one_cluster_where_it_is_asked_for(client: Client) -> None:
    answer = client.get("/?span=7d&cluster=small")

    assert "Overview of small" in seen(answer)
    assert 'href="/failures?cluster=small&amp;since=' in answer.text
    assert 'href="/?span=7d&amp;cluster=main"' in answer.text
    assert '<a href="/?span=7d&amp;cluster=small" aria-current="true">small</a>' in answer.text


@pytest.mark.parametrize("query", ["span=99d", "cluster=%00", f"cluster={'a' * 300}"])
def test_an_overview_that_cannot_be_is_refused(client: Client, query: str) -> None:
    assert client.get(f"/?{query}").status_code == 400


def test_an_ordinary_user_sees_their_own_failures_and_no_administrators_parts(
    client: Client,
) -> None:
    answer = client.get("/?span=30d", headers=as_(ALICE))

    assert "failed jobs of yours" in seen(answer)
    assert "Sick nodes" not in seen(answer) and "Open incidents" not in seen(answer)
    assert 'href="/nodes' not in answer.text and 'href="/health"' not in answer.text
    assert not re.search(r"by (bob|carol|dave|erin)\b", seen(answer))


def test_who_has_no_failures_is_told_so(client: Client) -> None:
    answer = client.get("/", headers=as_(STRANGER))

    assert "None of your jobs failed in this time." in seen(answer)
    assert client.get("/failures", headers=as_(STRANGER)).status_code == 200


def test_a_page_loads_itself_again_where_it_is_asked_for(client: Client) -> None:
    assert '<meta http-equiv="refresh" content="60">' in client.get("/?refresh=60").text
    for odd in ("", "1", "99999", "x", "60;url=//evil.example"):
        assert "http-equiv" not in client.get("/", params={"refresh": odd}).text


def test_the_list_goes_on_by_pages_and_back(client: Client) -> None:
    first = client.get("/failures?domain=user")
    after = re.search(r'rel="next" href="([^"]+)"', first.text)
    assert after is not None
    second = client.get(unescape(after[1]))
    before = re.search(r'rel="prev" href="([^"]+)"', second.text)

    assert before is not None
    assert keys(first.text) != keys(second.text)
    assert keys(client.get(unescape(before[1])).text) == keys(first.text)
    assert "domain=user" in after[1]


def keys(text: str) -> list[str]:
    return re.findall(r'data-key="([^"]+)"', text)


def test_a_page_of_the_list_that_is_none_shows_its_beginning_and_says_so(client: Client) -> None:
    answer = client.get("/failures?domain=user&page=nonsense")

    assert answer.status_code == 400
    assert "This part of the list is not there any more" in seen(answer)
    assert keys(answer.text) == keys(client.get("/failures?domain=user").text)


def test_what_is_wrong_stands_beside_its_field_and_nothing_typed_is_lost(client: Client) -> None:
    answer = client.get("/failures?since=yesterday&domain=both&user=al%22ice&node=n1")

    assert answer.status_code == 400
    assert 'aria-invalid="true" aria-describedby="e-since"' in answer.text
    assert 'id="e-domain">It is one of user, system, either.' in answer.text
    assert 'value="al&#34;ice"' in answer.text and 'value="n1"' in answer.text
    assert 'value="yesterday"' in answer.text and '<option value="both" selected>' in answer.text
    assert not keys(answer.text)


def test_the_forms_empty_fields_leave_the_address(client: Client) -> None:
    answer = client.get("/failures?text=&since=&user=alice&cause=")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/failures?user=alice"


def test_a_filter_that_nothing_meets_says_what_to_do(client: Client) -> None:
    assert "No failure that you may see meets all of these." in seen(
        client.get("/failures?user=nobody")
    )


def test_a_time_is_chosen_beside_what_else_is_filtered(client: Client) -> None:
    text = client.get("/failures?user=alice&until=2026-11-20").text
    week = "/failures?user=alice&amp;since=2026-11-24T00%3A00%3A00Z"
    label = '<span class="before">Last </span>7 days</a>'

    assert f'<a href="{week}">{label}' in text
    assert f'<a href="{week}" aria-current="true">' not in text
    assert f' aria-current="true">{label}' in client.get(unescape(week)).text
    assert ' aria-current="true">Any time</a>' in client.get("/failures?user=alice").text


def test_the_list_can_be_had_as_csv_with_its_filter(client: Client) -> None:
    text = client.get("/failures?domain=system&since=2026-11-20").text

    assert 'href="/api/v1/failures.csv?since=2026-11-20T00%3A00%3A00Z&amp;domain=system"' in text


def test_the_form_offers_the_causes_that_there_are(client: Client) -> None:
    text = client.get("/failures").text

    assert '<option value="gpu.">' in text and '<option value="memory.cgroup-oom">' in text


def test_names_of_others_are_offered_to_administrators_alone(client: Client) -> None:
    whole = client.get("/failures").text
    own = client.get("/failures", headers=as_(ALICE)).text

    assert '<option value="carol">' in whole and 'list="known-user"' in whole
    assert "carol" not in own and "known-user" not in own
    assert 'aria-label="Cluster"' not in client.get("/", headers=as_(ALICE)).text


def test_one_failure_is_its_report_and_all_around_it(client: Client) -> None:
    answer = client.get("/jobs/main/1")
    said = seen(answer)

    assert answer.status_code == 200
    assert "Rank 5 on n4 was killed by the kernel" in said
    assert "The same failure elsewhere" in said
    assert "How the verdict came to be" in said and "Who was told" in said
    assert 'href="/jobs/main/1/evidence/1/n4"' in answer.text
    assert answer.text.count("<h1") == 1 and answer.text.count("<main") == 1
    assert "<style" not in answer.text


def test_the_verdict_and_a_nodes_record_are_json(client: Client) -> None:
    verdict = client.get("/jobs/main/1.json")
    record = client.get("/jobs/main/1/evidence/1/n4")

    assert json.loads(verdict.text)["cause"]["id"] == "memory.cgroup-oom"
    assert record.json() == {"schema": "firstfault.evidence/1"}
    assert record.headers["content-disposition"] == ('attachment; filename="firstfault-1-n4.json"')


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/main/999999",
        "/jobs/other/1",
        "/jobs/-/999999",
        "/jobs/main/1?incarnation=2",
        "/jobs/main/1?incarnation=x",
        "/jobs/main/1?incarnation=99999999999999999999",
        "/jobs/main/1%00",
        "/jobs/main/1/evidence/1/n9",
        "/jobs/main/1/evidence/99999999999999999999/n4",
        "/jobs/main/1/evidence/1/n4%00",
        "/jobs/main/1/evidence/x/n4",
    ],
)
def test_what_there_is_not_is_absent(client: Client, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("path", ["/jobs/main/1", "/jobs/main/1.json"])
def test_what_is_not_yours_is_answered_as_what_is_not_there(client: Client, path: str) -> None:
    mine = client.get(path, headers=as_(ALICE))
    others = client.get(path, headers=as_(STRANGER))
    absent = client.get(path.replace("/1", "/4711", 1), headers=as_(STRANGER))

    assert mine.status_code == 200
    assert (others.status_code, others.text) == (absent.status_code, absent.text)
    assert others.status_code == 404


def test_a_coordinator_sees_a_job_of_the_account_without_its_raw_evidence(client: Client) -> None:
    answer = client.get("/jobs/main/1", headers=as_(BOB))

    assert answer.status_code == 200
    assert "Raw evidence" not in seen(answer) and "Who was told" not in seen(answer)
    assert client.get("/jobs/main/1/evidence/1/n4", headers=as_(BOB)).status_code == 404


@pytest.mark.parametrize("path", ["/", "/failures", "/jobs/main/1003", "/live/newest"])
def test_what_a_job_wrote_is_text(path: str) -> None:
    hostile = [each for each in ENDS if HOSTILE in (each.facts.name, each.verdict.cause.title)]
    at = NOW - dt.timedelta(minutes=1)
    facts = msgspec.structs.replace(hostile[0].facts, cluster="main", id="1003", user=HOSTILE)
    board = Remembered([hostile[0]._replace(facts=facts, at=at)])
    for client in served(board):
        answer = client.get(path)

        assert answer.status_code == 200
        assert "<script>alert" not in answer.text and "&lt;script&gt;alert" in answer.text
        assert "\x1b" not in answer.text and "\u202e" not in answer.text


def test_a_board_of_nothing_says_what_will_appear() -> None:
    for client in served(Remembered([])):
        assert "No failed jobs since" in seen(client.get("/"))
        assert "No failed job is stored yet." in seen(client.get("/failures"))


def test_who_leaves_the_cluster_out_is_led_to_the_only_one(client: Client) -> None:
    mine = client.get("/jobs/-/1", headers=as_(ALICE))

    assert (mine.status_code, mine.headers["location"]) == (303, "/jobs/main/1")
    assert client.get("/jobs/-/1", headers=as_(STRANGER)).status_code == 404


def test_other_runs_of_a_requeued_job_are_told() -> None:
    class Requeued(Remembered):
        def ends(self, reader: b.Reader, job: str) -> tuple[b.Failure, ...]:
            found = super().ends(reader, job)
            elsewhere = [msgspec.structs.replace(each, cluster="small") for each in found]
            again = [msgspec.structs.replace(each, incarnation=2) for each in found]
            return (*found, *elsewhere, *again)

    for client in served(Requeued(ENDS)):
        text = client.get("/jobs/main/1").text

        assert text.count('">Run ') == 1 and 'href="/jobs/main/1?incarnation=2">Run 2' in text


def test_the_history_says_what_each_revision_changed() -> None:
    board = Remembered(ENDS)
    detail = board.failure(b.Reader(administrator=True), "main", "1")
    assert detail is not None
    rows = (
        (4, NOW, "gpu.ecc", v.CONFIRMED, "A"),
        (3, NOW, "gpu.ecc", v.CONFIRMED, "A"),
        (2, NOW, "gpu.ecc", v.LIKELY, "B"),
        (1, NOW, "unknown", v.UNKNOWN, None),
    )

    told = failure.history(msgspec.structs.replace(detail, history=rows))
    assert [each.changes for each in told] == [
        ("only the details changed",),
        ("confidence: confirmed, was likely", "now: A"),
        ("cause: gpu.ecc, was unknown", "confidence: likely, was unknown", "now: B"),
        ("unknown, unknown",),
    ]


def test_of_many_records_the_first_to_fail_is_named_first_and_the_rest_counted() -> None:
    end = next(each for each in ENDS if each.verdict.initiator.host == "n4")
    nodes = tuple(f"n{number}" for number in range(1, 201))
    for client in served(Remembered([end._replace(nodes=nodes)])):
        facts = end.facts
        answer = client.get(f"/jobs/{facts.cluster}/{facts.id}")
        records = re.findall(r'evidence/1/(n\d+)"', answer.text)

        assert records[0] == "n4" and len(records) == failure.MOST_RECORDS
        assert "200 records, as the nodes sent them" in seen(answer)
        assert "136 more are not listed here" in seen(answer)
