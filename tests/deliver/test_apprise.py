"""Apprise, with a real HTTP server as the service."""

from __future__ import annotations

import json

import pytest

from firstfault.deliver.apprise_channel import AppriseChannel, AppriseError, Note
from firstfault.deliver.outcome import Failed, Sent
from firstfault.model.jobs import Delivery
from tests.deliver.test_webhook import delivery
from tests.fakes.web_receiver import WebReceiver

# Of the modules that Apprise loads, some use what Python will drop.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def note(one: Delivery) -> Note:
    return Note(f"Job {one.current.job}", "what <b>it</b> says\nsecond line")


def test_a_message_reaches_the_service() -> None:
    with WebReceiver() as receiver:
        channel = AppriseChannel(f"json://{receiver.address}/SECRET-PART", 5, note)

        assert channel.send(delivery()) == Sent()

    (post,) = receiver.posts
    said = json.loads(post.body)
    assert said["title"] == "Job 12"
    assert said["message"] == "what <b>it</b> says\nsecond line"
    assert said["type"] == "failure"


@pytest.mark.parametrize("status", [500, 404, None])
def test_what_is_not_taken_is_tried_again_and_quotes_no_secret(status: int | None) -> None:
    with WebReceiver() as receiver:
        receiver.status = status
        channel = AppriseChannel(f"json://{receiver.address}/SECRET-PART", 5, note)

        result = channel.send(delivery())

    assert isinstance(result, Failed)
    assert result.retry
    assert "SECRET" not in result.reason
    assert "127.0.0.1" not in result.reason


def test_a_service_that_answers_byte_by_byte_is_not_waited_for() -> None:
    with WebReceiver() as receiver:
        receiver.trickles = True
        channel = AppriseChannel(f"json://{receiver.address}/x", 0.3, note)

        result = channel.send(delivery())

    assert isinstance(result, Failed)
    assert result.retry


def test_a_url_that_apprise_does_not_know_is_refused_unquoted() -> None:
    with pytest.raises(AppriseError) as error:
        AppriseChannel("nosuch://SECRET-PART", 5, note)

    assert "SECRET" not in str(error.value)
