import datetime as dt
import json

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.model import verdict as v
from firstfault.report import slack
from tests.fakes.slack import SlackServer, check
from tests.report import verdicts as examples

URL = "https://firstfault.example/jobs/4242"


def message(verdict: v.Verdict, **given) -> slack.Json:
    return slack.render(verdict, **{"report_url": URL, "delivery_id": "d-17", **given})


@pytest.mark.parametrize("name", [*examples.EXAMPLES, "hostile", "huge", "worst"])
def test_slack_takes_the_message(name: str):
    makers = {"hostile": examples.hostile, "huge": examples.huge, "worst": examples.worst}
    verdict = makers[name]() if name in makers else examples.EXAMPLES[name]
    payload = message(verdict)
    with SlackServer() as server:
        answer = requests.post(server.url, json=payload, timeout=5)
        received = [taken.payload for taken in server.messages]

    assert (answer.status_code, answer.text) == (200, "ok")
    assert received == [payload]


words = st.text(st.characters(exclude_categories=()), max_size=80)
long_words = st.builds(lambda text, times: text * times, words, st.integers(0, 200))
maybe = st.none() | words
numbers = st.none() | st.integers(0, 10**7)
times = st.none() | st.datetimes(timezones=st.just(dt.UTC))


def many(values: st.SearchStrategy) -> st.SearchStrategy[tuple]:
    return st.lists(values, max_size=6).map(tuple)


members = st.builds(v.Member, numbers, maybe)
evidence = st.builds(v.Evidence, words, words, maybe, words, numbers, numbers, long_words)
verdicts = st.builds(
    v.Verdict,
    job=st.builds(v.Job, maybe, maybe, maybe, maybe, maybe, maybe, numbers, numbers),
    cause=st.builds(v.Cause, words, long_words, words, words),
    initiator=st.builds(
        v.Initiator,
        rank=numbers,
        host=maybe,
        step=maybe,
        earliest=times,
        latest=times,
        confidence=words,
        also=many(members),
        candidates=many(members),
    ),
    exception=st.builds(v.ExceptionFacts, maybe, st.none() | long_words, maybe, numbers),
    alternatives=many(st.builds(v.Alternative, words, words, long_words)),
    evidence=many(evidence),
    consequences=many(
        st.builds(v.Consequence, words, st.integers(0, 99), maybe, st.none() | evidence)
    ),
    missing=many(st.builds(v.Missing, words, words, words)),
    remedy=st.builds(v.Remedy, many(long_words), many(words)),
    fingerprint=maybe,
)


@pytest.mark.slow
@given(verdicts, words, st.integers(1, 99))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_slack_takes_the_message_of_any_verdict(verdict, delivery_id, revision):
    payload = message(verdict, delivery_id=delivery_id, revision=revision)

    check(json.loads(json.dumps(payload).encode()))


def nodes(value):
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from nodes(inner)


def test_nothing_of_the_input_is_in_a_place_where_slack_parses_markup():
    payload = message(examples.hostile())
    kinds = {node.get("type") for node in nodes(payload["blocks"])}

    assert "mrkdwn" not in kinds
    assert not kinds & {"user", "usergroup", "channel", "broadcast", "emoji"}
    assert [node["url"] for node in nodes(payload["blocks"]) if "url" in node] == [URL]
    assert not any(node.get("emoji") for node in nodes(payload["blocks"]))


def test_the_notification_line_mentions_nobody():
    payload = message(examples.hostile())

    assert payload["mrkdwn"] is False
    assert "<" not in payload["text"]
    assert ">" not in payload["text"]
    assert "&lt;!channel&gt;" in payload["text"]


def test_what_looks_like_markup_is_shown_as_it_was_written():
    payload = message(examples.hostile())
    title = payload["blocks"][0]["text"]["text"]

    assert title.startswith("<script>document.title='pwned';alert(1)</script> <img")


def test_the_header_is_the_cause_and_the_delivery_stands_at_the_end():
    blocks = message(examples.CGROUP_OOM, revision=2)["blocks"]
    small = blocks[-1]["elements"][0]["text"]

    assert blocks[0]["text"]["text"] == examples.CGROUP_OOM.cause.title
    assert small == (
        "firstfault · memory.cgroup-oom · delivery d-17 · revision 2 · fingerprint 1:3f2a9c0d11aa"
    )


def test_without_a_place_to_read_the_report_there_is_no_link():
    payload = message(examples.CGROUP_OOM, report_url=None)

    assert [node for node in nodes(payload["blocks"]) if "url" in node] == []


@pytest.mark.parametrize("url", ["javascript:alert(1)", "/jobs/1", "https://a b", ""])
def test_a_link_can_lead_only_to_a_web_page(url: str):
    with pytest.raises(ValueError, match="report_url must be"):
        message(examples.NONE, report_url=url)


def test_what_does_not_fit_is_counted():
    said = json.dumps(message(examples.huge()))

    assert "and 4,997 more in the report" in said
    assert "and 5,000 more commands, see the report" in said
