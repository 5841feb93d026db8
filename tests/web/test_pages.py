"""The pages, asked as a browser asks."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence

import httpx
import pytest
import requests

from firstfault.app.rendering import served_page
from firstfault.model import verdict as v
from firstfault.model.jobs import JobSummary, StoredVerdict
from firstfault.web import pages, server

NOW = dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC)
HOSTILE = "<script>alert(1)</script> *bold* <!channel> \"'"

VERDICT = v.Verdict(
    job=v.Job(cluster="c1", id="12", name=HOSTILE),
    cause=v.Cause("memory.cgroup-oom", f"Rank 5 of {HOSTILE}", "user", v.CONFIRMED),
    initiator=v.Initiator(rank=5, host="n3"),
)


class Known:
    def __init__(self, rows: Sequence[JobSummary] = ()) -> None:
        self.rows = rows

    def newest(self, limit: int) -> Sequence[JobSummary]:
        return self.rows[:limit]

    def verdicts(self, cluster: str | None, job: str) -> Sequence[StoredVerdict]:
        stored = StoredVerdict(cluster, job, 1, 1, NOW, VERDICT)
        return [stored] if (cluster, job) in (("c1", "12"), (None, "12")) else []


ROW = JobSummary(
    cluster="c1",
    job="12",
    incarnation=1,
    state="delivered",
    ended_at=NOW,
    nodes=4,
    name=HOSTILE,
    user="alice",
    cause="memory.cgroup-oom",
    title=HOSTILE,
    confidence="confirmed",
    rank=5,
    host="n3",
)


@pytest.fixture
def served() -> Iterator[str]:
    sock = server.listener("127.0.0.1", 0)
    application = pages.application(Known([ROW]), served_page, lambda: True)
    with server.serving(application, sock):
        yield server.address(sock)


def get(served: str, path: str) -> requests.Response:
    return requests.get(served + path, timeout=10)


def test_the_list_links_to_the_report(served: str) -> None:
    answer = get(served, "/")

    assert answer.status_code == 200
    assert 'href="/jobs/c1/12"' in answer.text
    assert "rank 5 on n3" in answer.text
    assert "2026-11-30 16:00:00" in answer.text


def test_the_report_is_shown(served: str) -> None:
    answer = get(served, "/jobs/c1/12")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "memory.cgroup-oom" in answer.text
    assert 'href="/jobs/c1/12.json"' in answer.text


def test_a_job_of_no_cluster_is_found(served: str) -> None:
    assert get(served, "/jobs/-/12").status_code == 200


def test_the_verdict_is_given_as_json(served: str) -> None:
    answer = get(served, "/jobs/c1/12.json")

    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.text)["cause"]["id"] == "memory.cgroup-oom"


@pytest.mark.parametrize("path", ["/jobs/c1/13", "/jobs/c2/12", "/jobs/c1/12.html", "/x"])
def test_what_is_not_known_is_404(served: str, path: str) -> None:
    assert get(served, path).status_code == 404


@pytest.mark.parametrize("path", ["/", "/jobs/c1/12"])
def test_a_hostile_job_name_is_text(served: str, path: str) -> None:
    answer = get(served, path)

    assert "<script" not in answer.text
    assert "&lt;script&gt;" in answer.text


@pytest.mark.parametrize("path", ["/", "/jobs/c1/12", "/jobs/c1/12.json", "/healthz", "/absent"])
def test_every_answer_is_hardened(served: str, path: str) -> None:
    headers = get(served, path).headers

    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "script-src" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers


def test_pages_are_read_only(served: str) -> None:
    assert requests.post(served + "/", timeout=10).status_code == 405


def test_health_follows_the_workers() -> None:
    application = pages.application(Known(), served_page, lambda: False)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/healthz")

    import asyncio

    assert asyncio.run(ask()).status_code == 503


def test_an_empty_list_says_what_to_expect() -> None:
    sock = server.listener("127.0.0.1", 0)
    with server.serving(pages.application(Known(), served_page, lambda: True), sock):
        assert "No failed job is known yet" in get(server.address(sock), "/").text
