"""A receiver that refuses, fails, closes, swallows or hangs: each message comes, none is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import stream
from tests.crash.daemons import Forked
from tests.crash.site import Site, Told, is_told_once_and_right
from tests.fakes.slack import SlackServer

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("rate_limit", "Slack answered 429"),
        ("fail", "Slack answered 500"),
        ("close", "Slack could not be reached"),
        ("swallow", "Slack could not be reached"),
        ("hang", "Slack could not be reached"),
    ],
)
def test_a_receiver_that_does_not_take_a_message_gets_it_again(
    tmp_path: Path,
    slack: SlackServer,
    undisturbed: dict[str, tuple[str, Told]],
    how: str,
    said: str,
) -> None:
    site = Site(tmp_path, f"sqlite:///{tmp_path}/ff.db", slack, slack={"timeout_s": 0.5})
    known = stream.jobs(len(stream.RECORDED))
    site.expect(known)
    getattr(slack, how)(2)
    site.put(known)

    site.finish(180)

    slack.refused.clear()
    received = is_told_once_and_right(site, known, undisturbed)
    assert received.total() - len(received) == (2 if how == "swallow" else 0)
    assert "event=delivery-failed" in site.log()
    assert said in site.log()


def test_a_receiver_that_hangs_holds_up_no_report(
    tmp_path: Path, slack: SlackServer, undisturbed: dict[str, tuple[str, Told]]
) -> None:
    site = Site(tmp_path, f"sqlite:///{tmp_path}/ff.db", slack)
    known = stream.jobs(len(stream.RECORDED))
    site.expect(known)
    slack.hang(100)
    with Forked(site.config) as daemon:
        site.put(known)
        for job in known:
            if undisturbed[job.case][1].posted:
                daemon.wait_for(f"event=delivered job={job.id} channel=report")

    assert slack.messages == []


def test_a_receiver_that_asks_for_time_is_left_alone(tmp_path: Path, slack: SlackServer) -> None:
    site = Site(tmp_path, f"sqlite:///{tmp_path}/ff.db", slack)
    known = stream.jobs(len(stream.RECORDED))
    site.expect(known)
    slack.rate_limit(1, retry_after_s=3)
    site.put(known)

    site.finish(180)

    (refused,) = slack.refused
    assert min(message.monotonic_s for message in slack.messages) >= refused.monotonic_s + 3
