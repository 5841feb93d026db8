"""Delivering: files, and a real HTTP server in Slack's place."""

from __future__ import annotations

import contextlib
import datetime as dt
import socket
import stat
import threading
import time
from pathlib import Path

import msgspec
import pytest

from firstfault.app.links import Links
from firstfault.app.rendering import slack_payload
from firstfault.deliver.files import Files
from firstfault.deliver.outcome import Failed, Needless, Sent, retry_at
from firstfault.deliver.slack import Slack, retry_after_s
from firstfault.model import verdict as v
from firstfault.model.jobs import Delivery, StoredVerdict
from tests.fakes.slack import SlackServer

NOW = dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC)


def verdict(cause: str = "memory.cgroup-oom", **job: str) -> v.Verdict:
    return v.Verdict(
        job=v.Job(id="12", **job),  # type: ignore[arg-type]
        cause=v.Cause(cause, "Rank 5 ran out of memory", "user", v.CONFIRMED),
        initiator=v.Initiator(rank=5, host="n3", confidence=v.CONFIRMED),
    )


def delivery(
    given: v.Verdict, previous: v.Verdict | None = None, job: str = "12", incarnation: int = 1
) -> Delivery:
    stored = StoredVerdict("c1", job, incarnation, 1 if previous is None else 2, NOW, given)
    return Delivery(1, "d1e2f3", "slack", 1, stored, previous)


def slack(server: SlackServer, public_url: str = "https://ff.example") -> Slack:
    return Slack(server.url, 5, slack_payload(Links(public_url)))


def test_a_message_reaches_slack_with_link_and_delivery_id() -> None:
    with SlackServer() as server:
        assert slack(server).send(delivery(verdict())) == Sent()

        said = str(server.messages[0].payload)
    assert "https://ff.example/jobs/c1/12" in said
    assert "d1e2f3" in said
    assert "Revised" not in said


def test_a_revision_that_names_the_same_cause_and_place_is_no_new_message() -> None:
    before = msgspec.structs.replace(
        verdict(), cause=v.Cause("memory.cgroup-oom", "It ran out", "user", v.LIKELY)
    )
    elsewhere = msgspec.structs.replace(before, initiator=v.Initiator(rank=4, host="n3"))

    with SlackServer() as server:
        assert isinstance(slack(server).send(delivery(verdict(), before)), Needless)
        assert slack(server).send(delivery(verdict(), elsewhere)) == Sent()

        assert len(server.messages) == 1


def test_a_revision_says_what_changed() -> None:
    before = verdict("process.killed")

    with SlackServer() as server:
        assert slack(server, "").send(delivery(verdict(), before)) == Sent()

        payload = server.messages[0].payload
    said = "Revised: cause process.killed -> memory.cgroup-oom"
    assert payload["blocks"][0]["text"]["text"] == said
    assert payload["text"].startswith("Revised: cause process.killed -&gt; memory.cgroup-oom")


def test_a_hostile_host_is_inert_in_a_revision() -> None:
    before = verdict()
    after = v.Verdict(
        job=v.Job(id="12"), cause=before.cause, initiator=v.Initiator(host="<!channel> *x*")
    )

    with SlackServer() as server:
        assert slack(server, "").send(delivery(after, before)) == Sent()

        payload = server.messages[0].payload
    assert payload["blocks"][0]["text"]["type"] == "plain_text"
    assert "<!channel>" not in payload["text"]


def test_retry_after_is_honoured() -> None:
    with SlackServer() as server:
        server.rate_limit(retry_after_s=7)

        result = slack(server).send(delivery(verdict()))

    assert isinstance(result, Failed)
    assert result.retry
    assert result.after_s == 7


@pytest.mark.parametrize(
    ("status", "again"), [(500, True), (503, True), (404, False), (403, False)]
)
def test_only_what_can_mend_itself_is_tried_again(status: int, again: bool) -> None:
    with SlackServer() as server:
        server.fail(status=status)

        result = slack(server).send(delivery(verdict()))

    assert isinstance(result, Failed)
    assert result.retry is again
    assert str(status) in result.reason


def test_the_webhooks_secret_is_in_no_error() -> None:
    with SlackServer() as server:
        url = server.url
    channel = Slack(url, 1, slack_payload(Links()))

    result = channel.send(delivery(verdict()))

    assert isinstance(result, Failed)
    assert result.retry
    assert "T000" not in result.reason


def test_a_receiver_that_answers_byte_by_byte_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def trickle() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while True:
                    connection.sendall(b"X-Slow: 1\r\n")
                    time.sleep(0.05)

        threading.Thread(target=trickle, daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/x"

        result = Slack(url, 0.3, slack_payload(Links())).send(delivery(verdict()))

    assert isinstance(result, Failed)
    assert result.retry
    assert "did not end its answer" in result.reason


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("30", 30),
        ("999999999", 3600),
        ("-5", None),
        ("soon", None),
        ("Mon, 30 Nov 2026 16:01:00 GMT", 60),
        ("Mon, 30 Nov 2026 15:00:00 GMT", 0),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, NOW) == seconds


def test_waits_double_up_to_a_limit_and_end() -> None:
    waits = [retry_at(Failed("x"), attempt, 12, NOW) for attempt in (1, 2, 3, 11, 12)]

    seconds = [None if at is None else (at - NOW).total_seconds() for at in waits]
    assert seconds == [1, 2, 4, 600, None]
    assert retry_at(Failed("x", retry=False), 1, 12, NOW) is None
    assert retry_at(Failed("x", after_s=90), 1, 12, NOW) == NOW + dt.timedelta(seconds=90)


def test_what_failed_together_does_not_come_back_together() -> None:
    early, late = (retry_at(Failed("x"), 3, 12, NOW, chance) for chance in (0.0, 1.0))

    assert early == NOW + dt.timedelta(seconds=4)
    assert late == NOW + dt.timedelta(seconds=5)


def test_a_report_is_a_file_that_the_group_can_read(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    files = Files(folder, lambda stored: f"report of {stored.job}")

    assert files.send(delivery(verdict())) == Sent()
    assert files.send(delivery(verdict(), incarnation=2)) == Sent()

    assert sorted(path.name for path in (folder / "c1").iterdir()) == ["12.2.html", "12.html"]
    assert (folder / "c1" / "12.html").read_text() == "report of 12"
    assert stat.S_IMODE((folder / "c1" / "12.html").stat().st_mode) == 0o640


def test_reports_of_the_same_job_number_on_two_clusters_are_two_files(tmp_path: Path) -> None:
    files = Files(tmp_path, lambda stored: f"report of {stored.cluster}")
    for cluster in ("c1", "c2", None):
        sent = delivery(verdict(), incarnation=1)
        current = msgspec.structs.replace(sent.current, cluster=cluster)
        assert files.send(msgspec.structs.replace(sent, current=current)) == Sent()

    assert (tmp_path / "c1" / "12.html").read_text() == "report of c1"
    assert (tmp_path / "c2" / "12.html").read_text() == "report of c2"
    assert (tmp_path / "12.html").read_text() == "report of None"


def test_what_a_killed_daemon_left_of_a_report_is_used_up(tmp_path: Path) -> None:
    files = Files(tmp_path, lambda stored: "whole")
    files.send(delivery(verdict()))
    (report,) = (path for path in tmp_path.rglob("*.html") if path.is_file())
    report.with_name(f".{report.name}.new").write_text("a longer half")

    assert files.send(delivery(verdict())) == Sent()

    assert report.read_text() == "whole"
    assert list(report.parent.iterdir()) == [report]


def test_a_report_that_cannot_be_written_names_the_folder(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    result = Files(blocked, lambda stored: "x").send(delivery(verdict()))

    assert isinstance(result, Failed)
    assert str(blocked) in result.reason
    assert "report.dir" in result.reason
