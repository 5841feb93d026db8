"""A sacct that is missing, fails, lies, is slow or never ends: the report does not wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash import stream
from tests.crash.daemons import Forked
from tests.crash.site import Site, Told, is_told_once_and_right
from tests.fakes.sacct import SacctProgram
from tests.fakes.slack import SlackServer

pytestmark = pytest.mark.slow


def remove(sacct: SacctProgram) -> None:
    sacct.path.rename(sacct.path.with_name("sacct.away"))


def put_back(sacct: SacctProgram) -> None:
    sacct.path.with_name("sacct.away").rename(sacct.path)


@pytest.mark.parametrize(
    ("spoil", "mend", "said"),
    [
        (remove, put_back, "sacct cannot be run: No such file or directory. Set slurm.sacct"),
        (lambda sacct: sacct.behave("fail"), None, "status 1: .*Connection refused"),
        (lambda sacct: sacct.behave("garbage"), None, "does not name JobID"),
        (lambda sacct: sacct.behave("hang"), None, "no end after 1 s. Is slurmdbd up"),
    ],
    ids=["missing", "fails", "garbage", "hangs"],
)
def test_a_sacct_that_does_not_answer_delays_no_message_and_is_asked_again(
    tmp_path: Path,
    slack: SlackServer,
    undisturbed: dict[str, tuple[str, Told]],
    spoil: Callable[[SacctProgram], None],
    mend: Callable[[SacctProgram], None] | None,
    said: str,
) -> None:
    site = Site(tmp_path, f"sqlite:///{tmp_path}/ff.db", slack, slurm={"timeout_s": 1.0})
    known = stream.jobs(len(stream.RECORDED))
    site.expect(known)
    spoil(site.sacct)
    with Forked(site.config) as daemon:
        site.put(known)

        slack.wait(sum(outcome.posted for _, outcome in undisturbed.values()), 180)
        daemon.wait_for(f"event=slurm-not-answering .*{said}")
        daemon.kill()
    (mend or (lambda sacct: sacct.behave("ok")))(site.sacct)
    site.free_leases()
    site.finish(180)

    is_told_once_and_right(site, known, undisturbed)


@pytest.mark.parametrize("seconds", [2, pytest.param(30, marks=pytest.mark.soak)])
def test_a_slow_sacct_delays_no_message_and_its_answer_counts(
    tmp_path: Path,
    slack: SlackServer,
    undisturbed: dict[str, tuple[str, Told]],
    seconds: int,
) -> None:
    site = Site(tmp_path, f"sqlite:///{tmp_path}/ff.db", slack, slurm={"timeout_s": 60.0})
    known = stream.jobs(len(stream.RECORDED))
    site.expect(known)
    site.sacct.behave(f"slow {seconds}")
    begun = time.monotonic()
    site.put(known)

    site.finish(180 + 6 * seconds)

    is_told_once_and_right(site, known, undisturbed)
    named = [message for message in slack.messages if message.monotonic_s < begun + seconds]
    print(f"\n{len(named)} of {len(slack.messages)} messages before sacct's answer")
    assert seconds < 10 or len(named) == len(slack.messages)
