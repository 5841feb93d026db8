"""The bot's messages: within Slack's limits whatever is said, inert, and read in a glance."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slack_sdk.models.blocks import Block

from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.report import slack_brief
from firstfault.report.advice import ON_CALL
from tests.fakes.slack import check
from tests.report import verdicts as examples
from tests.report.test_slack import nodes, verdicts, words

URL = "https://firstfault.example/jobs/4242"
AT = dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC)
HOSTILE = "<!channel> *b* `c` <https://evil.example|x> @here\u202e\x1b[31m" + "x" * 5000


def brief(verdict: v.Verdict, **more: Any) -> dict[str, Any]:
    return slack_brief.render(verdict, **{"report_url": URL, "message_id": "d-17", **more})


def incident(**more: Any) -> j.Incident:
    known: dict[str, Any] = {
        "key": 7,
        "cluster": "main",
        "kind": j.NODE,
        "name": "n3",
        "opened_at": AT,
        "last_at": AT,
        "ended_at": None,
        "acknowledged_by": None,
        "jobs": 12,
        "names": tuple(str(100 + k) for k in range(10)),
        "causes": (("gpu.ecc", 9), ("gpu.fallen-off-the-bus", 3)),
        "hosts": ("n3",),
    }
    return j.Incident(**(known | more))


def lines(payload: dict[str, Any]) -> list[str]:
    """The message as its reader sees it."""
    seen: list[str] = []
    for block in payload["blocks"]:
        if block["type"] == "header":
            seen.append(block["text"]["text"])
        elif block["type"] == "context":
            seen.append(block["elements"][0]["text"])
        else:
            for group in block["elements"]:
                text = "".join(item["text"] for item in group["elements"])
                seen += text.split("\n")
    return seen


def is_taken(payload: dict[str, Any]) -> None:
    sent = json.loads(json.dumps(payload).encode())
    check(sent)
    for block in Block.parse_all(sent["blocks"]):
        block.validate_json()


@pytest.mark.parametrize("name", [*examples.EXAMPLES, "hostile", "huge", "worst"])
def test_slack_takes_the_message_and_it_is_under_ten_lines(name: str) -> None:
    makers = {"hostile": examples.hostile, "huge": examples.huge, "worst": examples.worst}
    verdict = makers[name]() if name in makers else examples.EXAMPLES[name]
    payload = brief(verdict, jobs=("12", "13"), count=2)

    is_taken(payload)
    assert len(lines(payload)) < 10


@pytest.mark.slow
@given(verdicts, words, st.integers(1, 99), st.lists(words, max_size=20), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_slack_takes_the_message_of_any_verdict(
    verdict: v.Verdict, message_id: str, revision: int, jobs: list[str], count: int
) -> None:
    is_taken(
        brief(verdict, message_id=message_id, revision=revision, jobs=tuple(jobs[:10]), count=count)
    )


def test_headline_place_reason_first_step_and_link_stand_in_this_order() -> None:
    shown = lines(brief(examples.CGROUP_OOM))

    assert shown[0] == examples.CGROUP_OOM.cause.title
    assert shown[1].startswith("rank 5 on n4 · cause confirmed")
    assert shown[2] == "Job 4242 “train-7b” of alice"
    assert "oom" in shown[3].lower()
    assert shown[4].startswith("First: ")
    assert shown[-2] == "Open the full report"
    assert shown[-1].endswith("delivery d-17")


def test_jobs_that_failed_alike_are_counted() -> None:
    names = tuple(str(number) for number in range(40, 30, -1))

    said = "\n".join(lines(brief(examples.CGROUP_OOM, jobs=names, count=1234)))

    assert (
        "1,234 jobs, the same failure: 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 1,224 more" in said
    )


@pytest.mark.parametrize(
    "payload",
    [
        brief(examples.hostile(), jobs=(HOSTILE,), count=2),
        slack_brief.incident(
            incident(
                name=HOSTILE, acknowledged_by=HOSTILE, names=(HOSTILE,), causes=((HOSTILE, 1),)
            ),
            report_url=URL,
            message_id=HOSTILE,
        ),
        slack_brief.incident_line(
            incident(name=HOSTILE, hosts=(HOSTILE,) * 5000),
            verdict=examples.hostile(),
            report_url=URL,
            count=1,
            message_id="d",
        ),
    ],
)
def test_nothing_of_the_input_is_where_slack_parses_markup(payload: dict[str, Any]) -> None:
    is_taken(payload)
    kinds = {node.get("type") for node in nodes(payload["blocks"])}

    assert not kinds & {"mrkdwn", "user", "usergroup", "channel", "broadcast", "emoji"}
    assert {node["url"] for node in nodes(payload["blocks"]) if "url" in node} == {URL}
    assert payload["mrkdwn"] is False
    assert "<" not in payload["text"]
    assert "\u202e" not in json.dumps(payload, ensure_ascii=False)


def test_an_incident_says_what_where_how_long_and_what_to_do() -> None:
    shown = lines(slack_brief.incident(incident(), report_url=URL, message_id="d-17"))

    assert shown == [
        "12 jobs failed by node n3",
        "going on, 2026-11-30 16:00:00 UTC to 2026-11-30 16:00:00 UTC",
        "Causes: gpu.ecc (9), gpu.fallen-off-the-bus (3)",
        "Hosts: n3",
        "Jobs: 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 2 more",
        "Take care of it",
        "firstfault incidents ack 7",
        "Open the failed jobs",
        "firstfault · incident 7 · delivery d-17",
    ]


def test_an_incident_that_somebody_takes_care_of_says_so() -> None:
    told = incident(acknowledged_by="root", ended_at=AT)

    shown = lines(slack_brief.incident(told, report_url=None, message_id="d"))

    assert "root takes care of it" in shown
    assert "Take care of it" not in shown
    assert shown[1].startswith("over, ")


def test_an_owner_gets_one_line_of_an_incident() -> None:
    payload = slack_brief.incident_line(
        incident(), verdict=examples.CGROUP_OOM, report_url=URL, count=1, message_id="d-17"
    )

    shown = lines(payload)
    assert shown == [
        "Job 4242 “train-7b” failed as 11 others did, by node n3: that looks like the system, not "
        "like your code. For the administrators it is incident 7. Report",
        "firstfault · incident 7 · delivery d-17",
    ]


@pytest.mark.parametrize("url", ["javascript:alert(1)", "/jobs/1", "https://a b", ""])
def test_a_link_can_lead_only_to_a_web_page(url: str) -> None:
    with pytest.raises(ValueError, match="report_url must be"):
        brief(examples.NONE, report_url=url)


ADVICE = v.Remedy(
    do=("Submit again.", "Run elsewhere.", "Administrators: drain n4."),
    commands=("sacct -j 4242", "scontrol show node n4"),
)


def first(domain: str, remedy: v.Remedy, **more: Any) -> list[str]:
    cause = msgspec.structs.replace(examples.CGROUP_OOM.cause, domain=domain)
    verdict = msgspec.structs.replace(examples.CGROUP_OOM, cause=cause, remedy=remedy)
    shown = lines(brief(verdict, **more))
    begin = next(k for k, line in enumerate(shown) if line.startswith("First"))
    return shown[begin:-2]


@pytest.mark.parametrize("domain", ["user", "system", "either"])
def test_each_reader_gets_a_first_step_of_their_own(domain: str) -> None:
    assert first(domain, ADVICE) == ["First: Submit again.", "sacct -j 4242"]
    assert first(domain, ADVICE, reader=ON_CALL) == ["First: Drain n4.", "scontrol show node n4"]


def test_who_has_nothing_to_do_reads_what_others_do() -> None:
    theirs = msgspec.structs.replace(ADVICE, do=ADVICE.do[2:], commands=ADVICE.commands[1:])

    assert first("system", theirs) == [
        "First, the administrators: Drain n4.",
        "scontrol show node n4",
    ]
