"""The generic webhook and its templates, on a real HTTP server."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import socket
from pathlib import Path
from typing import Any

import jinja2
import msgspec
import pytest

from firstfault.app.links import Links
from firstfault.app.outlets import body_of
from firstfault.config import Config, ConfigError
from firstfault.deliver.outcome import Failed, Sent
from firstfault.deliver.settings import Webhook as Settings
from firstfault.deliver.webhook import Webhook
from firstfault.model import verdict as v
from firstfault.model.jobs import Delivery, StoredVerdict
from tests.fakes.web_receiver import WebReceiver

NOW = dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC)
KEY = "k" * 32
EXAMPLES = Path(__file__).parents[2] / "etc" / "examples"
HOSTILE = 'a "quoted" \\ title\n</script> {{ 7*7 }} \u2028 ü'


def delivery(
    cause: str = "gpu.ecc", title: str = HOSTILE, previous: v.Verdict | None = None
) -> Delivery:
    verdict = v.Verdict(
        job=v.Job(id="12", user="alice"),
        cause=v.Cause(cause, title, "system", v.CONFIRMED),
        initiator=v.Initiator(rank=5, host="n3", latest=NOW, confidence=v.CONFIRMED),
        fingerprint="1:abc",
    )
    stored = StoredVerdict("c1", "12", 1, 1 if previous is None else 2, NOW, verdict)
    return Delivery(1, "d1e2f3", "webhook", 1, stored, previous)


def body(one: Delivery, template: Path | None = None, url: str = "https://ff.example") -> Any:
    config = Config(webhook=Settings(template=str(template or "")))
    return json.loads(body_of(config, Links(url))(one))


def channel(url: str, key: str = "", timeout_s: float = 5) -> Webhook:
    return Webhook(url, key, timeout_s, body_of(Config(), Links()))


def test_the_verdict_is_posted_whole() -> None:
    with WebReceiver() as receiver:
        assert channel(receiver.url).send(delivery()) == Sent()

    (post,) = receiver.posts
    said = json.loads(post.body)
    assert said["verdict"] == json.loads(v.encode(delivery().current.verdict))
    assert list(said) == [
        "schema",
        "delivery",
        "cluster",
        "job",
        "incarnation",
        "revision",
        "report_url",
        "changes",
        "verdict",
    ]
    assert said["schema"] == "firstfault.delivery/1"
    assert post.headers["content-type"] == "application/json"
    assert post.headers["x-firstfault-delivery"] == "d1e2f3"
    assert "x-firstfault-signature" not in post.headers


def test_the_signature_is_of_the_time_and_the_body() -> None:
    with WebReceiver() as receiver:
        assert channel(receiver.url, KEY).send(delivery()) == Sent()

    (post,) = receiver.posts
    time_part, mac_part = post.headers["x-firstfault-signature"].split(",")
    seconds = time_part.removeprefix("t=")
    wanted = hmac.new(KEY.encode(), seconds.encode() + b"." + post.body, hashlib.sha256)
    assert hmac.compare_digest(mac_part, f"v1={wanted.hexdigest()}")
    assert abs(int(seconds) - dt.datetime.now(dt.UTC).timestamp()) < 300


def test_a_revision_says_what_changed() -> None:
    before = delivery("process.killed").current.verdict

    said = body(delivery(previous=before))

    assert said["changes"] == ["cause process.killed -> gpu.ecc"]
    assert said["revision"] == 2


@pytest.mark.parametrize(
    ("status", "retry"),
    [(500, True), (503, True), (429, True), (408, True), (400, False), (404, False), (410, False)],
)
def test_only_what_can_mend_itself_is_tried_again(status: int, retry: bool) -> None:
    with WebReceiver() as receiver:
        receiver.status = status
        receiver.headers = {"Retry-After": "7"}

        result = channel(receiver.url).send(delivery())

    assert isinstance(result, Failed)
    assert (result.retry, result.after_s) == (retry, 7)
    assert str(status) in result.reason


def test_a_redirect_is_not_followed() -> None:
    with WebReceiver() as receiver, WebReceiver() as elsewhere:
        receiver.status = 307
        receiver.headers = {"Location": elsewhere.url}

        result = channel(receiver.url, KEY).send(delivery())

    assert isinstance(result, Failed)
    assert not result.retry
    assert elsewhere.posts == []


def test_the_urls_secret_is_in_no_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    away = channel(f"http://127.0.0.1:{port}/hook/SECRET-PART").send(delivery())
    with WebReceiver() as receiver:
        receiver.status = None
        closed = channel(receiver.url).send(delivery())

    for result in (away, closed):
        assert isinstance(result, Failed)
        assert result.retry
        assert "SECRET" not in result.reason


def test_a_receiver_that_answers_byte_by_byte_is_not_waited_for() -> None:
    with WebReceiver() as receiver:
        receiver.trickles = True

        result = channel(receiver.url, timeout_s=0.3).send(delivery())

    assert isinstance(result, Failed)
    assert result.retry


def test_alertmanager_gets_a_list_of_alerts() -> None:
    (alert,) = body(delivery(), EXAMPLES / "alertmanager.json.j2")
    (ended,) = body(delivery("none"), EXAMPLES / "alertmanager.json.j2", url="")

    assert set(alert) == {"labels", "annotations", "generatorURL"}
    for texts in (alert["labels"], alert["annotations"]):
        assert all(isinstance(text, str) and text for text in texts.values())
    assert alert["annotations"]["summary"] == HOSTILE
    assert alert["labels"]["job_id"] == "12"
    assert ended["endsAt"] == "2026-11-30T16:00:00Z"


def test_pagerduty_gets_an_event() -> None:
    event = body(delivery(), EXAMPLES / "pagerduty.json.j2")
    long = body(delivery(title="x" * 5000), EXAMPLES / "pagerduty.json.j2", url="")
    ended = body(delivery("none"), EXAMPLES / "pagerduty.json.j2")

    assert event["event_action"] == "trigger"
    assert event["dedup_key"] == ended["dedup_key"] == "firstfault-c1-12-1"
    assert event["payload"]["severity"] in ("critical", "error", "warning", "info")
    assert {"summary", "source", "severity"} <= set(event["payload"])
    assert len(long["payload"]["summary"]) == 1024
    assert ended["event_action"] == "resolve"


def test_what_a_template_makes_of_unknown_facts_is_json_too() -> None:
    nothing = v.Verdict(job=v.Job(), cause=v.Cause("unknown", "?", "either", v.UNKNOWN))
    bare = Delivery(1, "d", "webhook", 1, StoredVerdict(None, "1", 1, 1, NOW, nothing))

    for template in sorted(EXAMPLES.glob("*.j2")):
        assert body(bare, template, url="")


@pytest.mark.parametrize(
    "text", ["{{ job", "{{ nothing_such }}", "no JSON", "{{ ''.__class__.__mro__ }}"]
)
def test_a_template_that_makes_no_json_sends_nothing(text: str, tmp_path: Path) -> None:
    template = tmp_path / "t.j2"
    template.write_text(text)

    with pytest.raises((ConfigError, jinja2.TemplateError, msgspec.DecodeError)):
        body(delivery(), template)
