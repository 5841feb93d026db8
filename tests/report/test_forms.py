"""What must hold in all forms of the report: page, terminal, Slack message."""

import json
from html.parser import HTMLParser

import msgspec
import pytest

from firstfault.model import verdict as v
from firstfault.report import html, slack, text
from tests.report import verdicts as examples


class Reader(HTMLParser):
    """The text that a reader of the page sees, and each element with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._unseen = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._unseen = tag in ("style", "title")

    def handle_endtag(self, tag):
        self._unseen = False

    def handle_data(self, data):
        if not self._unseen:
            self.words.append(data)

    def seen(self) -> str:
        return " ".join("".join(self.words).split())


def message_text(message: slack.Json) -> str:
    def texts(node):
        if isinstance(node, dict):
            found = [node["text"]] if isinstance(node.get("text"), str) else []
            return found + [t for value in node.values() for t in texts(value)]
        if isinstance(node, list):
            return [t for value in node for t in texts(value)]
        return []

    return " ".join(" ".join(texts(message["blocks"])).split())


def forms(verdict: v.Verdict) -> dict[str, str]:
    """What each form says, blanks made one; the terminal wide enough to cut nothing."""
    message = slack.render(verdict, report_url=None, delivery_id="d-7")
    return {
        "page": Reader(html.render(verdict)).seen(),
        "terminal": " ".join(text.render(verdict, width=2000).split()),
        "message": message_text(message),
    }


def facts(verdict: v.Verdict) -> list[str]:
    first, job = verdict.initiator, verdict.job
    said: list[str | None] = [
        verdict.cause.title,
        verdict.cause.id,
        job.id,
        job.user,
        f"rank {first.rank} on {first.host}" if first.rank is not None else None,
        first.host,
        verdict.exception.message,
        verdict.exception.file,
    ]
    if verdict.evidence:
        proof = verdict.evidence[0]
        said += [proof.text, f"{proof.file} line {proof.line}"]
    said += verdict.remedy.do
    said += verdict.remedy.commands
    for gap in verdict.missing:
        said += [gap.what, gap.why_it_matters, gap.how_to_get]
    for other in verdict.alternatives:
        said += [other.cause, other.against]
    if verdict.consequences:
        said.append(f"{sum(c.count for c in verdict.consequences)} other alarming lines")
    return [" ".join(fact.split()) for fact in said if fact]


@pytest.mark.parametrize("name", examples.EXAMPLES)
@pytest.mark.parametrize("form", ["page", "terminal", "message"])
def test_the_same_facts_stand_in_every_form(name: str, form: str):
    verdict = examples.EXAMPLES[name]
    said = forms(verdict)[form]

    assert [fact for fact in facts(verdict) if fact not in said] == []


@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_every_form_is_the_same_bytes_for_the_same_verdict(name: str):
    verdict = examples.EXAMPLES[name]
    again = v.decode(v.encode(verdict))

    assert html.render(again) == html.render(verdict)
    assert text.render(again) == text.render(verdict)
    assert slack.render(again, report_url=None, delivery_id="d") == slack.render(
        verdict, report_url=None, delivery_id="d"
    )


def test_a_verdict_that_says_nothing_still_makes_a_report():
    empty = v.Verdict(job=v.Job(), cause=v.Cause("unknown", "", "", ""))

    assert "unknown" in html.render(empty)
    assert text.render(empty).startswith("unknown\n")
    assert json.dumps(slack.render(empty, report_url=None, delivery_id=""))


def test_each_revision_is_said():
    verdict = examples.CGROUP_OOM
    message = slack.render(verdict, report_url=None, delivery_id="d", revision=3)

    assert "Revision 3" in html.render(verdict, revision=3)
    assert "revision 3" in message_text(message)
    assert "evision" not in forms(verdict)["page"]


@pytest.mark.parametrize("confidence", ["confirmed", "likely", "possible"])
def test_only_what_is_confirmed_is_called_a_proof(confidence: str):
    cause = msgspec.structs.replace(examples.SEGFAULT.cause, confidence=confidence)
    verdict = msgspec.structs.replace(examples.SEGFAULT, cause=cause)

    said = forms(verdict)

    assert [f"cause {confidence}" in form for form in said.values()] == [True] * 3
    assert ("What proves it" in said["page"]) == (confidence == "confirmed")
    assert ("What proves it" in said["message"]) == (confidence == "confirmed")


@pytest.mark.parametrize("form", ["page", "terminal", "message"])
def test_every_form_says_it_in_plain_words_too(form: str):
    said = forms(examples.CGROUP_OOM)[form]

    assert "The job needed more host memory than it had asked for" in said
