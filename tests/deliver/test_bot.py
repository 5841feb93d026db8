"""Slack's methods, against a server that refuses what Slack refuses."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

import pytest

from firstfault.deliver.bot import Bot, SlackError
from tests.fakes.slack import Answer
from tests.fakes.slack_api import SlackApi

SINCE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def slack() -> Iterator[SlackApi]:
    with SlackApi({"ada@example.org": "U1"}, page=3) as server:
        yield server


@pytest.fixture
def bot(slack: SlackApi) -> Bot:
    return Bot(slack.TOKEN, 2, slack.url)


def test_a_message_is_posted_changed_and_found_by_its_id(slack: SlackApi, bot: Bot) -> None:
    for number in range(7):
        ts = bot.post("C1", {"text": f"{number}"}, f"id-{number}")

    assert bot.update("C1", ts, {"text": "six"}, "id-6")
    assert [message.payload["text"] for message in slack.messages][-1] == "six"
    found = bot.find("C1", "id-0", SINCE)
    assert found is not None
    assert found.ts == slack.messages[0].ts
    assert slack.calls["conversations.history"] == 3
    assert bot.find("C1", "id-7", SINCE) is None


def test_a_message_that_is_gone_is_not_changed(slack: SlackApi, bot: Bot) -> None:
    ts = bot.post("C1", {"text": "x"}, "id")
    slack.delete(slack.messages[0])

    assert not bot.update("C1", ts, {"text": "y"}, "id")


def test_an_owner_is_found_by_address_and_written_to_alone(slack: SlackApi, bot: Bot) -> None:
    assert bot.user("ada@example.org") == "U1"
    assert bot.user("eve@example.org") is None
    assert bot.direct("U1") == "D1"


def test_a_file_goes_into_the_messages_thread(slack: SlackApi, bot: Bot) -> None:
    ts = bot.post("C1", {"text": "x"}, "id")

    bot.attach("C1", ts, "12.html", b"<html>")

    assert slack.messages[0].files == {"12.html": b"<html>"}
    found = bot.find("C1", "id", SINCE)
    assert found is not None
    assert found.replies == 1


def test_who_asks_for_time_gets_it(slack: SlackApi, bot: Bot) -> None:
    slack.rate_limit("chat.postMessage", retry_after_s=7)

    with pytest.raises(SlackError) as error:
        bot.post("C1", {"text": "x"}, "id")

    assert error.value.failed.retry
    assert error.value.failed.after_s == 7


@pytest.mark.parametrize(
    ("code", "again", "remedy"),
    [
        ("internal_error", True, "internal_error"),
        ("ratelimited", True, "ratelimited"),
        ("not_in_channel", False, "Invite the bot"),
        ("invalid_auth", False, "Check slack.token_file"),
        ("missing_scope", False, "Add the scopes"),
        ("restricted_action", False, "restricted_action"),
    ],
)
def test_what_passes_is_told_from_what_does_not(
    slack: SlackApi, bot: Bot, code: str, again: bool, remedy: str
) -> None:
    slack.refuse("chat.postMessage", code)

    with pytest.raises(SlackError) as error:
        bot.post("C1", {"text": "x"}, "id")

    assert error.value.failed.retry is again
    assert remedy in error.value.failed.reason


def test_blocks_that_slack_refuses_leave_the_words(slack: SlackApi, bot: Bot) -> None:
    bot.post("C1", {"text": "words", "blocks": [{"type": "newer"}]}, "id")

    assert slack.messages[0].payload["text"] == "words"
    assert "blocks" not in slack.messages[0].payload


@pytest.mark.parametrize(
    "answer",
    [
        Answer(500, "no"),
        Answer(200, "<html>"),
        Answer(200, "[]"),
        Answer(None),
        Answer(200, json.dumps({"ok": "yes"}) + " " * 2_000_000),
    ],
)
def test_an_answer_that_is_none_is_an_error_that_holds_no_secret(
    slack: SlackApi, bot: Bot, answer: Answer
) -> None:
    slack.plan("chat.postMessage", answer)

    with pytest.raises(SlackError) as error:
        bot.post("C1", {"text": "x"}, "id")

    assert slack.TOKEN not in str(error.value)
    assert slack.messages == []


def test_a_wrong_token_is_told_with_its_remedy(slack: SlackApi) -> None:
    with pytest.raises(SlackError, match=r"Check slack\.token_file"):
        Bot("xoxb-wrong", 2, slack.url).name()


def test_the_token_works(bot: Bot) -> None:
    assert bot.name() == "firstfault in Tests"
