"""The server in Slack's place refuses what Slack refuses."""

import json
import queue
import socket
from urllib.parse import urlsplit

import pytest
import requests

from tests.fakes.slack import Invalid, Message, SlackServer, check


def plain(text: str) -> dict:
    return {"type": "plain_text", "text": text}


def rich(*elements: dict) -> dict:
    return {"blocks": [{"type": "rich_text", "elements": list(elements)}]}


def span(**element) -> dict:
    return {"type": "rich_text_section", "elements": [element]}


@pytest.mark.parametrize(
    "payload",
    [
        {"blocks": [{"type": "header", "text": plain("x" * 151)}]},
        {"blocks": [{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}]},
        {"blocks": [{"type": "divider"}] * 51},
        {"blocks": [{"type": "section", "text": plain("x" * 3001)}]},
        {"blocks": [{"type": "section", "text": plain("")}]},
        {"blocks": [{"type": "section", "fields": [plain("x")] * 11}]},
        {"blocks": [{"type": "section", "fields": [plain("x" * 2001)]}]},
        {"blocks": [{"type": "section"}]},
        {"blocks": [{"type": "context", "elements": [plain("x")] * 11}]},
        {"blocks": [{"type": "context", "elements": []}]},
        {"blocks": [{"type": "table"}]},
        {"blocks": [{"type": "divider", "text": "x"}]},
        {"blocks": "x"},
        rich(),
        rich(span(type="text", text="")),
        rich(span(type="text", text="x", style={"colour": True})),
        rich(span(type="text")),
        rich(span(type="link", url="javascript:alert(1)")),
        rich(
            {"type": "rich_text_list", "style": "dash", "elements": [span(type="text", text="x")]}
        ),
        rich({"type": "rich_text_list", "style": "bullet", "elements": [{"type": "text"}]}),
        rich({"type": "rich_text_preformatted", "elements": [{"type": "emoji", "name": "x"}]}),
    ],
)
def test_blocks_outside_the_documented_form_are_refused(payload: dict):
    with pytest.raises(Invalid) as refused:
        check(payload)

    assert refused.value.answer == "invalid_blocks"


@pytest.mark.parametrize(
    ("body", "kind", "answer"),
    [
        (b"{", "application/json", "invalid_payload"),
        (b"[]", "application/json", "invalid_payload"),
        (b'{"txt": "x"}', "application/json", "invalid_payload"),
        (b"{}", "application/json", "no_text"),
        (b'{"text": "x"}', "text/plain", "invalid_payload"),
    ],
)
def test_the_answer_is_slacks_word(body: bytes, kind: str, answer: str):
    with SlackServer() as server:
        got = requests.post(server.url, data=body, headers={"Content-Type": kind}, timeout=5)

    assert (got.status_code, got.text) == (400, answer)
    assert server.messages == []
    assert server.refused[0].reason


def test_a_form_with_a_payload_field_is_taken_as_well():
    with SlackServer() as server:
        requests.post(server.url, data={"payload": json.dumps({"text": "x"})}, timeout=5)

    assert [taken.payload for taken in server.messages] == [{"text": "x"}]


def test_it_can_be_told_to_refuse_for_a_while():
    with SlackServer() as server:
        server.rate_limit(1, retry_after_s=7)
        server.fail(1)
        answers = [requests.post(server.url, json={"text": "x"}, timeout=5) for _ in range(3)]

    assert [got.status_code for got in answers] == [429, 500, 200]
    assert answers[0].headers["Retry-After"] == "7"
    assert len(server.messages) == 1


def test_it_can_be_told_to_leave_its_sender_without_an_answer():
    with SlackServer() as server:
        server.close(1)
        server.hang(1)
        server.swallow(1)
        for number in range(3):
            with pytest.raises(requests.RequestException):
                requests.post(server.url, json={"text": str(number)}, timeout=0.5)

        assert [taken.payload for taken in server.messages] == [{"text": "2"}]
        assert len(server.refused) == 2


def test_a_message_that_is_sent_twice_is_taken_twice_and_told_when_it_is_answered():
    answered: queue.SimpleQueue[Message] = queue.SimpleQueue()
    with SlackServer() as server:
        server.answered = answered.put
        for _ in range(2):
            assert requests.post(server.url, json={"text": "x"}, timeout=5).ok

        assert [answered.get(timeout=5) for _ in range(2)] == server.messages


def test_a_message_whose_sender_dies_in_the_middle_is_no_message():
    with SlackServer() as server:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port), timeout=5) as sender:
            sender.sendall(b"POST /services/T/B/X HTTP/1.1\r\nContent-Length: 20\r\n\r\n{}")
            sender.shutdown(socket.SHUT_WR)

            assert sender.recv(1) == b""
        assert server.messages == server.refused == []


def test_waiting_for_a_message_that_does_not_come_says_what_came():
    with SlackServer() as server:
        requests.post(server.url, json={}, timeout=5)

        with pytest.raises(TimeoutError, match="no_text"):
            server.wait(1, timeout_s=0.05)
