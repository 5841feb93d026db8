"""The API, asked over HTTP as a program asks."""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
import requests

from firstfault.model import verdict as v
from firstfault.model.board import NOBODY, Failure, FailureFilter, FailurePage, Reader
from firstfault.model.explained import Explained, Upload
from firstfault.report import causes as knowledge
from firstfault.report.masking import use_site
from firstfault.web.api import values
from tests.web import boards
from tests.web.api_served import Quick, Served, served

ADMIN = boards.ADMINISTRATOR


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    board = boards.board(tmp_path_factory.mktemp("store"))
    with served(board, Quick()) as client:
        yield client


def page(answer: requests.Response) -> values.Failures:
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=values.Failures)


def every(api: Served, path: str, reader: Reader = ADMIN) -> list[Failure]:
    """All failures from ``path`` on, by the links of one answer after the other."""
    found: list[Failure] = []
    following: str | None = path
    while following is not None:
        answer = page(api.get(following, reader))
        found += answer.failures
        following = answer.next and answer.next.removeprefix("/api/v1")
    return found


def problem(answer: requests.Response, status: int) -> dict[str, object]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, object] = answer.json()
    assert found["status"] == status
    return found


def test_links_lead_through_all_failures_once(api: Served) -> None:
    by_sevens = every(api, "/failures?limit=70")

    assert len(by_sevens) == len({(each.cluster, each.job) for each in by_sevens})
    assert by_sevens == every(api, "/failures?limit=500")
    assert [each.ended_at for each in by_sevens] == sorted(
        (each.ended_at for each in by_sevens), reverse=True
    )


def test_a_link_keeps_the_filter_and_leads_back(api: Served) -> None:
    first = page(api.get("/failures?user=alice&limit=5&sort=ended"))
    assert first.next is not None
    second = page(api.get(first.next.removeprefix("/api/v1")))

    assert {each.user for each in second.failures} == {"alice"}
    assert second.previous is not None
    assert page(api.get(second.previous.removeprefix("/api/v1"))).failures == first.failures


@pytest.mark.parametrize("name", ["cluster", "cause", "domain", "confidence", "user", "account"])
def test_each_filter_leaves_what_it_names(api: Served, name: str) -> None:
    wanted = getattr(every(api, "/failures?limit=500")[0], name)

    found = every(api, f"/failures?limit=500&{name}={quote(wanted)}")

    assert found
    assert {getattr(each, name) for each in found} == {wanted}


def test_a_day_and_a_time_bound_what_is_listed(api: Served) -> None:
    found = every(api, "/failures?since=2026-11-29&until=2026-11-30T00:00:00Z")

    assert found
    assert {each.ended_at.date() for each in found} == {dt.date(2026, 11, 29)}


@pytest.mark.parametrize(
    ("query", "parameter", "said"),
    [
        ("usr=alice", "usr", "Did you mean user?"),
        ("domain=users", "domain", "user, system, either"),
        ("limit=0", "limit", "from 1 to 500"),
        ("limit=abc", "limit", "from 1 to 500"),
        ("since=yesterday", "since", "2026-11-30T16:00:00Z"),
        ("user=a&user=b", "user", "more than once"),
        ("user=", "user", "leave it out"),
        ("user=%00", "user", "control characters"),
        ("text=" + "a" * 300, "text", "256"),
    ],
)
def test_a_refusal_names_the_parameter_its_place_and_what_may_stand_there(
    api: Served, query: str, parameter: str, said: str
) -> None:
    found = problem(api.get(f"/failures?{query}"), 400)

    assert (found["parameter"], found["in"]) == (parameter, "query")
    assert said in str(found["detail"])


def test_a_page_that_no_answer_named_is_refused(api: Served) -> None:
    assert problem(api.get("/failures?page=nonsense"), 404)["parameter"] == "page"


def test_a_failure_is_told_with_all_that_is_stored(api: Served) -> None:
    failure = every(api, "/failures?cluster=main")[0]

    answer = api.get(f"/failures/main/{failure.job}")

    found = msgspec.json.decode(answer.content, type=values.FailureDetail)
    assert found.failure == failure
    assert found.verdict.cause.id == failure.cause
    assert found.history[0].revision == found.revision
    assert found.evidence
    record = api.get(found.evidence[0].href.removeprefix("/api/v1"))
    assert record.json()["schema"] == "firstfault.evidence/1"


def test_the_verdict_is_the_bytes_that_explain_prints(api: Served) -> None:
    job = every(api, "/failures?cluster=main")[0].job

    answer = api.get(f"/failures/main/{job}/verdict")

    assert v.encode(v.decode(answer.content)) == answer.content


@pytest.mark.parametrize(
    "path", ["/failures/main/none", "/failures/-/1", "/failures/main/1?incarnation=77"]
)
def test_what_is_not_stored_does_not_exist(api: Served, path: str) -> None:
    assert "not yours" in str(problem(api.get(path), 404)["detail"])


def test_owners_and_coordinators_are_told_of_theirs_alone(api: Served) -> None:
    of_alice = every(api, "/failures", boards.ALICE)
    of_bob = every(api, "/failures", boards.BOB)

    assert of_alice
    assert {each.user for each in of_alice} == {"alice"}
    assert {each.account for each in of_bob} == {"vision"}
    assert every(api, "/failures", boards.STRANGER) == []


def test_a_strangers_job_is_answered_as_one_that_does_not_exist(api: Served) -> None:
    failure = every(api, "/failures?cluster=main&user=carol")[0]
    path = f"/failures/main/{failure.job}"

    hidden, absent = api.get(path, boards.ALICE), api.get("/failures/main/none", boards.ALICE)

    assert hidden.status_code == absent.status_code == 404
    assert hidden.content == absent.content


@pytest.mark.parametrize(
    "path",
    [
        "/nodes",
        "/nodes.csv",
        "/nodes/main/n07",
        "/incidents",
        "/silences",
        "/deliveries",
        "/health",
    ],
)
def test_what_is_the_administrators_does_not_exist_for_others(api: Served, path: str) -> None:
    assert api.get(path).status_code == 200
    problem(api.get(path, boards.ALICE), 404)
    problem(api.get(path, NOBODY), 401)


def test_the_csv_is_the_whole_list(api: Served) -> None:
    answer = api.get("/failures.csv?sort=ended")

    rows = list(csv.reader(io.StringIO(answer.text, newline=""), strict=True))
    assert answer.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert answer.headers["content-disposition"] == 'attachment; filename="failures.csv"'
    assert rows[0] == list(Failure.__struct_fields__)
    listed = every(api, "/failures?sort=ended")
    jobs = [row[rows[0].index("job")] for row in rows[1:]]
    assert jobs == [each.job for each in listed]


def test_no_cell_of_the_csv_acts_in_a_spreadsheet(api: Served) -> None:
    rows = csv.reader(io.StringIO(api.get("/failures.csv").text, newline=""))

    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "@"))]


class Endless:
    """A board of so many failures that only a few may be in memory."""

    pages = 400

    def __init__(self) -> None:
        self.asked = 0

    def failures(
        self, reader: Reader, which: FailureFilter, page: str | None = None, limit: int = 50
    ) -> FailurePage:
        self.asked += 1
        number = int(page or 0)
        failures = tuple(
            Failure(None, f"{number}-{each}", 1, "judged", boards.NOW, "unknown", "either",
                    "unknown", "=1+1", 1)
            for each in range(limit)
        )  # fmt: skip
        return FailurePage(failures, str(number + 1) if number + 1 < self.pages else None)


def test_an_export_asks_for_more_only_as_it_is_read() -> None:
    board = Endless()
    with (
        served(board) as api,  # type: ignore[arg-type]  # of a board this is what an export asks
        requests.get(f"{api.url}/api/v1/failures.csv", stream=True, timeout=30) as answer,
    ):
        chunks = answer.iter_content(1 << 10)
        head = next(chunks)
        asked_at_first = board.asked
        size = len(head) + sum(map(len, chunks))

    assert head.startswith(b"cluster,job,")
    assert asked_at_first < board.pages
    assert size > 10_000_000


def test_the_head_of_an_export_is_asked_for_without_its_lines() -> None:
    board = Endless()
    with served(board) as api:  # type: ignore[arg-type]  # of a board this is what an export asks
        answer = requests.head(f"{api.url}/api/v1/failures.csv", timeout=30)

    assert answer.status_code == 200
    assert board.asked == 0


def test_a_reader_who_has_the_answer_is_told_so(api: Served) -> None:
    first = api.get("/failures?user=alice")
    tag = first.headers["etag"]

    again = api.get("/failures?user=alice", held=f'"x", {tag}')
    other = api.get("/failures?user=bob", held=tag)

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == tag
    assert other.status_code == 200


def test_the_overview_counts_a_time_and_the_one_before(api: Served) -> None:
    answer = api.get("/overview?hours=48&until=2026-11-30T16:00:00Z")

    found = msgspec.json.decode(answer.content, type=values.Overview)
    assert found.until - found.since == dt.timedelta(hours=48)
    assert found.total.failures == sum(sum(slot.domains.values()) for slot in found.slots)


def test_every_cause_of_the_knowledge_base_is_counted(api: Served) -> None:
    found = msgspec.json.decode(api.get("/causes").content, type=values.Causes).causes

    assert {each.id for each in found} == {text.id for text in knowledge.causes()}
    assert found[0].count.failures >= found[-1].count.failures


def test_nodes_are_told_with_their_standing(api: Served) -> None:
    found = msgspec.json.decode(api.get("/nodes?hours=8784").content, type=values.Nodes).nodes

    assert [each.node for each in found if each.suspect] == ["n07"] * 2
    one = api.get(f"/nodes/{found[0].cluster}/{found[0].node}?hours=8784")
    assert msgspec.json.decode(one.content, type=values.NodeDetail).standing == found[0]


def test_a_fingerprint_is_noted_and_the_note_taken_back(api: Served) -> None:
    listed = api.get("/fingerprints").json()["fingerprints"]
    path = f"/fingerprints/{quote(listed[0]['fingerprint'], safe='')}"

    assert api.post(f"{path}/note", {"note": "a driver's bug"}).json() == {
        "done": True,
        "by": "root",
    }
    assert api.get(path).json()["note"] == "a driver's bug"
    assert api.post(f"{path}/note", {"note": None}).status_code == 200
    assert api.get(path).json()["note"] is None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/incidents/1/acknowledge", {}),
        ("/incidents/1/close", {}),
        ("/incidents/1/silence", {"until": "2026-12-01T00:00:00Z"}),
        ("/deliveries/delivery0/retry", {}),
    ],
)
def test_administrators_take_care_of_matters(
    api: Served, path: str, body: dict[str, object]
) -> None:
    assert api.post(path, body).json() == {"done": True, "by": "root"}
    problem(api.post(path.replace("1", "77").replace("y0", "y77"), body), 404)
    problem(api.post(path, body, boards.ALICE), 404)


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({}, None),
        ({"note": ""}, "note"),
        ({"note": "a\x00"}, "note"),
        ({"note": 1}, "note"),
        ({"note": "a", "more": 1}, None),
        ([], None),
    ],
)
def test_a_body_that_is_not_as_it_must_be_is_refused_by_its_field(
    api: Served, body: object, parameter: str | None
) -> None:
    found = problem(api.post("/fingerprints/1%3Aexample%3A2/note", body), 422)

    assert (found["parameter"], found["in"]) == (parameter, "body")


def test_a_change_must_be_json_so_that_no_foreign_form_can_ask_for_it(api: Served) -> None:
    answer = requests.post(f"{api.url}/api/v1/incidents/1/close", data={"a": "b"}, timeout=30)

    assert problem(answer, 415)["allowed"] == ["application/json"]


@pytest.mark.parametrize("path", ["/", "/nothing", "/failures/", "/failures/main", "/../etc"])
def test_a_place_that_is_none_is_a_problem_too(api: Served, path: str) -> None:
    problem(api.get(path), 404)


def test_another_method_is_told_which_there_is(api: Served) -> None:
    answer = requests.delete(f"{api.url}/api/v1/failures", timeout=30)

    problem(answer, 405)
    assert answer.headers["allow"] == "GET, HEAD"


class Broken:
    """A board whose store is away."""

    def failures(self, *_: object) -> FailurePage:
        raise RuntimeError("the store is away, at /secret/path")


def test_a_fault_of_the_daemon_is_a_problem_that_says_nothing_of_it() -> None:
    with served(Broken()) as api:  # type: ignore[arg-type]  # of a board nothing else is asked
        for path in ("/failures", "/failures.csv"):
            found = problem(api.get(path), 500)

            assert "secret" not in str(found)


def test_a_log_is_explained_from_a_body_and_from_a_form(tmp_path: Path) -> None:
    quick = Quick()
    with served(boards.board(tmp_path), quick) as api:
        url = f"{api.url}/api/v1/explain?host=n3"
        plain = requests.post(
            url, data=b"one\n", headers={"content-type": "text/plain; charset=utf-8"}, timeout=30
        )
        form = requests.post(
            url,
            files=[("file", ("../n3/a\x1b.out", b"two")), ("file", ("../n3/a\x1b.out", b"three"))],
            timeout=30,
        )

    assert plain.json()["verdict"]["schema"] == v.SCHEMA
    assert form.status_code == 200
    assert quick.asked == [
        ({"log": b"one\n"}, {"log": "n3"}),
        (
            {"n3/a_.out": b"two", "2-n3/a_.out": b"three"},
            {"n3/a_.out": "n3", "2-n3/a_.out": "n3"},
        ),
    ]


@pytest.mark.parametrize(
    ("body", "media", "status"),
    [
        (b"", "text/plain", 422),
        (b"a", "application/json", 415),
        (b"a", "multipart/form-data", 400),
        (b"a", "multipart/form-data; boundary=b", 400),
        (b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\na\r\n--b--\r\n',
         "multipart/form-data; boundary=b", 422),
        (b"a" * (1 << 20) + b"a", "text/plain", 413),
    ],
)  # fmt: skip
def test_what_cannot_be_explained_is_refused(
    api: Served, body: bytes, media: str, status: int
) -> None:
    answer = requests.post(
        f"{api.url}/api/v1/explain", data=body, headers={"content-type": media}, timeout=30
    )

    problem(answer, status)


@pytest.mark.parametrize("host", ["localhost", "a b", "-n1", "n1/../n2", "a" * 300])
def test_a_host_that_is_none_is_refused(api: Served, host: str) -> None:
    answer = requests.post(
        f"{api.url}/api/v1/explain",
        params={"host": host},
        data=b"a",
        headers={"content-type": "text/plain"},
        timeout=30,
    )

    assert problem(answer, 400)["parameter"] == "host"


def test_a_sites_own_secrets_are_masked_in_what_is_explained(tmp_path: Path) -> None:
    class Talkative(Quick):
        def explain(self, uploads: Sequence[Upload], hosts: Mapping[str, str]) -> Explained:
            cause = v.Cause("unknown", "ticket SITE-12345 was shown", "either", "unknown")
            return Explained(v.Verdict(v.Job(), cause))

    use_site([re.compile("SITE-[0-9]+")])
    try:
        with served(boards.board(tmp_path), Talkative()) as api:
            answer = requests.post(
                f"{api.url}/api/v1/explain",
                data=b"a",
                headers={"content-type": "text/plain"},
                timeout=30,
            )
    finally:
        use_site([])

    assert answer.json()["verdict"]["cause"]["title"] == "ticket ********** was shown"
