"""Whatever stands in a verdict, every channel's message is valid, harmless and within its limits."""

from __future__ import annotations

import datetime as dt
import email
import html.parser
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from email import policy
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len
from slack_sdk.models.blocks import Block
from tinyhtml5.parser import HTMLParser

from firstfault.app import outlets, rendering
from firstfault.app.links import Links
from firstfault.config import Config
from firstfault.deliver import admin_comment, mail
from firstfault.deliver.apprise_channel import AppriseChannel
from firstfault.deliver.files import Files
from firstfault.deliver.outcome import Sent
from firstfault.model import verdict as v
from firstfault.model.jobs import Delivery
from firstfault.model.texts import mapped, storable
from firstfault.report import slack_brief, text
from firstfault.report.masking import masked, masked_text
from firstfault.report.outline import outline
from tests.deliver import hostile
from tests.fakes.slack import check
from tests.fakes.web_receiver import WebReceiver

LINKS = Links("https://firstfault.example", "k" * 32, 14)
MOST_PAGE = 2 << 20
# Slack's, for a whole message: https://docs.slack.dev/reference/methods/chat.postMessage
MOST_SLACK = 100_000
MAIL_BYTES = Config().mail.max_bytes
# What a page may be made of. No script, no form, nothing that is fetched, no other style than ours.
ELEMENTS = frozenset(
    [
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "header",
        "main",
        "aside",
        "footer",
        "section",
        "span",
        "strong",
        "small",
        "b",
        "br",
        "p",
        "h1",
        "h2",
        "h3",
        "ul",
        "ol",
        "li",
        "dl",
        "dt",
        "dd",
        "div",
        "figure",
        "figcaption",
        "pre",
        "code",
        "details",
        "summary",
        "a",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "svg",
        "g",
        "line",
        "rect",
        "circle",
        "path",
        "text",
        "tspan",
        "polygon",
        "polyline",
        "desc",
    ]
)
INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
SGR = re.compile(r"\x1b\[[0-9;]*m")
HEADERS = frozenset(
    [
        "from",
        "to",
        "subject",
        "date",
        "message-id",
        "in-reply-to",
        "references",
        "auto-submitted",
        "mime-version",
        "content-type",
        "content-transfer-encoding",
    ]
)


def as_stored(verdict: v.Verdict) -> v.Verdict:
    """The verdict as readers get it: through the daemon's masks and the store's JSON."""
    shown = v.decode(v.encode(masked(storable(verdict))))
    # Ids, which are never masked, are here as hostile as all else.
    return mapped(shown, masked_text)


def deliveries(count: int) -> Iterator[Delivery]:
    previous = None
    for number in range(count):
        current = as_stored(hostile.verdict(number))
        yield hostile.delivery(number, current, previous if number % 3 == 0 else None)
        previous = current


def hidden(shown: str, but: str = "\n") -> list[str]:
    """The characters of a text that steer whoever shows it, each once."""
    found = {char for char in shown if unicodedata.category(char) in INVISIBLE}
    return sorted(hex(ord(char)) for char in found - set(but))


class Elements(html.parser.HTMLParser):
    """What is wrong with a page's elements and attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ELEMENTS:
            self.wrong.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name in ("src", "srcdoc", "action", "formaction", "ping"):
                self.wrong.append(f"{tag} {name}")
            if name in ("href", "xlink:href") and not re.match(
                r"#[\w-]+$|/$|/jobs/|https://firstfault\.example/", value or ""
            ):
                self.wrong.append(f"{tag} {name}={value}")
            if name == "style" and re.search(r"url\(|expression|@import", value or ""):
                self.wrong.append(f"{tag} {name}={value}")


def wrong_with_page(page: str) -> list[object]:
    parser = HTMLParser()
    parser.parse(page)
    size = len(page.encode("utf-8"))
    return [
        *Elements(page).wrong,
        *(f"line {place[0]}: {code} {values}" for place, code, values in parser.errors),
        *hidden(page),
        *([f"{size} bytes"] if size > MOST_PAGE else []),
        *(["a secret"] if "tr0ub4dor" in page or "q7WzR2" in page else []),
    ]


def pages(delivery: Delivery) -> list[object]:
    owners = rendering.owners_page(delivery.current)
    return [*wrong_with_page(rendering.page(delivery.current)), *Elements(owners).wrong]


def terminal(delivery: Delivery) -> list[object]:
    verdict = delivery.current.verdict
    wrong: list[object] = []
    for width in (40, 100):
        plain = text.render(verdict, width=width)
        # A word of a command is never broken.
        advice = outline(verdict, text.LIMITS).advice
        commands = [each for part in advice for each in part.commands.items]
        rows = {row.rstrip() for each in commands for row in text.command_rows(each, width)}
        lines = [line for line in plain.split("\n") if line not in rows]
        wrong += hidden(plain)
        wrong += [line for line in lines if cell_len(line) > width]
        if len(plain) > 500_000:
            wrong.append(f"{len(plain)} characters")
    colored = text.render(verdict, width=100, color=True)
    return wrong + ([] if SGR.sub("", colored) == plain else ["colours change more than colours"])


def slack_messages(delivery: Delivery) -> Iterator[dict[str, object]]:
    current = delivery.current
    for links in (LINKS, Links()):
        yield rendering.slack_payload(links)(delivery)
        yield dict(
            slack_brief.render(
                current.verdict,
                report_url=links.for_owner(current),
                message_id=delivery.delivery_id,
                revision=current.revision,
                jobs=tuple(str(number) for number in range(10)),
                count=current.incarnation,
                alike=current.revision > 1,
            )
        )


def incident_messages(delivery: Delivery) -> Iterator[dict[str, object]]:
    told = mapped(storable(hostile.incident(delivery.key)), masked_text)
    for url in (LINKS.pages(), None):
        yield dict(slack_brief.incident(told, report_url=url, message_id=delivery.delivery_id))
        yield dict(
            slack_brief.incident_line(
                told,
                verdict=delivery.current.verdict,
                report_url=url,
                count=delivery.current.revision,
                message_id=delivery.delivery_id,
            )
        )


def slack(delivery: Delivery) -> list[object]:
    return wrong_with_messages(slack_messages(delivery))


def incidents(delivery: Delivery) -> list[object]:
    return wrong_with_messages(incident_messages(delivery))


def wrong_with_messages(messages: Iterator[dict[str, object]]) -> list[object]:
    wrong: list[object] = []
    for message in messages:
        body = msgspec.json.encode(message)
        check(json.loads(body))
        blocks = message["blocks"]
        assert isinstance(blocks, list)
        for block in Block.parse_all(blocks):
            block.validate_json()
        said = str(message["text"])
        wrong += hidden(said)
        if re.search(r"<[!@#]|<http", said):
            wrong.append(said)
        # Slack parses mrkdwn objects alone: there is none.
        if b'"mrkdwn"' in body.replace(b'"mrkdwn":false', b"") or len(body) > MOST_SLACK:
            wrong.append(f"{len(body)} bytes")
        wrong += _mentions(blocks)
    return wrong


def _mentions(node: object) -> Iterator[object]:
    if isinstance(node, dict):
        if node.get("type") in ("user", "usergroup", "channel", "broadcast", "mrkdwn", "image"):
            yield node
        if node.get("type") == "link" and not str(node["url"]).startswith(
            "https://firstfault.example/"
        ):
            yield node
        if node.get("type") in ("text", "plain_text"):
            yield from hidden(str(node["text"]))
        for each in node.values():
            yield from _mentions(each)
    elif isinstance(node, list):
        for each in node:
            yield from _mentions(each)


def words(shown: str) -> str:
    return " ".join(shown.split())


def letters(delivery: Delivery) -> list[object]:
    letter = outlets.letters(LINKS.for_owner)(delivery)
    now = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    sender, owner = "firstfault@example.org", ("alice@example.org",)
    data = mail.message(delivery, letter, sender, owner, now, MAIL_BYTES)
    read = email.message_from_bytes(data, policy=policy.default)
    body = read.get_body(("plain",))
    assert body is not None
    said = body.get_content()
    shown = read.get_body(("html",))
    lines = data.split(b"\r\n")
    wrong: list[object] = [*hidden(read["subject"], ""), *hidden(said, "\r\n"), *read.defects]
    wrong += {name.lower() for name in read} - HEADERS
    if any(len(line) > 998 or b"\n" in line or b"\r" in line for line in lines):
        wrong.append("a line that is too long or not ended by CRLF")
    if len(data) > MAIL_BYTES or not data.isascii():
        wrong.append(f"{len(data)} bytes")
    if read["to"] != "alice@example.org" or words(read["subject"]) != words(letter.subject):
        wrong.append((read["to"], read["subject"]))
    if words(said) != words(letter.text) and "[cut here" not in said:
        wrong.append("another text")
    return wrong + (
        [] if shown is None else wrong_with_page(shown.get_content().replace("\r\n", "\n"))
    )


def webhook(delivery: Delivery) -> list[object]:
    said = json.loads(outlets.body_of(Config(), LINKS)(delivery))
    verdict = msgspec.convert(said["verdict"], v.Verdict)
    return [] if verdict == delivery.current.verdict else ["another verdict"]


def apprise(delivery: Delivery) -> list[object]:
    note = outlets.notes(LINKS.page)(delivery)
    said = note.title + note.body
    return [
        *hidden(note.title, ""),
        *hidden(note.body),
        *(["a signed link"] if "/shared/" in said else []),
        *(["a secret"] if "tr0ub4dor" in said or "q7WzR2" in said else []),
    ]


def comment(delivery: Delivery) -> list[object]:
    line = admin_comment.line(delivery.current.verdict)
    plain = re.fullmatch(r"firstfault: [A-Za-z0-9 ._:/@()+-]{1,190}", line)
    return [] if plain else [line]


CHANNELS: dict[str, Callable[[Delivery], list[object]]] = {
    "pages": pages,
    "terminal": terminal,
    "Slack": slack,
    "incidents": incidents,
    "Apprise": apprise,
    "mail": letters,
    "webhook": webhook,
    "AdminComment": comment,
}


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(30, id="30"),
        pytest.param(200, id="200", marks=pytest.mark.slow),
        pytest.param(5000, id="5000", marks=pytest.mark.soak),
    ],
)
def test_every_channel_bears_every_verdict(count: int) -> None:
    wrong: dict[tuple[str, str], int] = {}
    for delivery in deliveries(count):
        for name, channel in CHANNELS.items():
            try:
                found = channel(delivery)
            except Exception as error:  # noqa: BLE001 - what is raised is what is looked for
                found = [f"{type(error).__name__}: {error}"]
            for each in found:
                wrong.setdefault((name, str(each)[:200]), delivery.key)

    assert wrong == {}


# Of the modules that Apprise loads, some use what Python will drop.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_apprise_hands_on_what_it_is_given() -> None:
    note = outlets.notes(LINKS.page)
    with WebReceiver() as receiver:
        channel = AppriseChannel(f"json://{receiver.address}/x", 10, note)
        given = list(deliveries(20))
        assert [channel.send(each) for each in given] == [Sent()] * 20

    took = [json.loads(post.body) for post in receiver.posts]
    asked = [note(each) for each in given]
    assert [words(each["title"]) for each in took] == [words(each.title) for each in asked]
    assert [words(each["message"]) for each in took] == [words(each.body) for each in asked]


@pytest.mark.parametrize("number", [762, 1218])
def test_a_long_subject_is_not_broken_within_an_encoded_word(number: int) -> None:
    before, current = (as_stored(hostile.verdict(each)) for each in (number - 1, number))

    assert letters(hostile.delivery(number, current, before)) == []


def test_files_of_hostile_verdicts_are_pages_too(tmp_path: Path) -> None:
    channel = Files(tmp_path, rendering.page)
    for delivery in deliveries(10):
        assert channel.send(delivery) == Sent()

    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 10
    assert [wrong_with_page(path.read_text("utf-8")) for path in written] == [[]] * 10


def test_the_generator_makes_what_it_says() -> None:
    said = "".join(str(hostile.verdict(number)) for number in range(200))

    assert all(
        part.strip("\n")[:8] in said for part in ("<script>", "Bcc: victim", "=?utf-8?q?x?=")
    )
    assert max(len(hostile.verdict(n).initiator.also) for n in range(60)) == 16_384
    assert hostile.verdict(7) == hostile.verdict(7)
