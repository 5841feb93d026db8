"""A bot's messages: one for one failure, kept up to date, posted once; against a real server."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from firstfault.app.gathering import LEASE_S, Gathering
from firstfault.app.links import Links
from firstfault.app.slack_readers import ADMINS, OWNERS, ToAdmins, ToOwners
from firstfault.config import Slack
from firstfault.deliver.bot import Bot
from firstfault.deliver.outcome import Failed, Needless, Result, Sent
from firstfault.deliver.owners import Owners
from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.store import common_causes, deliveries, evidence, work
from firstfault.store.database import Database, open_store
from firstfault.store.messages import Pace
from tests.fakes.slack_api import Posted, SlackApi
from tests.intake.records import ENDED_AT
from tests.store.incoming import incoming

HOUR = dt.timedelta(hours=1)


class Scene:
    """A store, a server in Slack's place, and a clock that stands still until it is moved."""

    def __init__(self, database: Database, slack: SlackApi, **settings: Any) -> None:
        self.database = database
        self.slack = slack
        self.now = ENDED_AT + dt.timedelta(seconds=5)
        self._nodes = itertools.count()
        bot = Bot(slack.TOKEN, 2, slack.url)
        wanted = Slack(admins="C1", **settings)
        pace = Pace(
            dt.timedelta(seconds=wanted.gather_s), dt.timedelta(seconds=10), wanted.per_hour
        )
        links = Links("https://ff.example", "k" * 32)
        owners = Owners(template="{user}@example.org")
        readers = {
            OWNERS: ToOwners(database, bot, owners, links, wanted.attach),
            ADMINS: ToAdmins(database, wanted, links, lambda: self.now),
        }
        self.channels = {
            name: Gathering(database, name, bot, reader, pace, 10, lambda: self.now)
            for name, reader in readers.items()
        }

    def judge(self, job: str, given: v.Verdict) -> None:
        """The job's next verdict is stored, with deliveries to both channels."""
        node = f"n{next(self._nodes)}"
        evidence.keep(self.database, [incoming(node, job, nodes=())], self.now)
        claim = work.claim_jobs(self.database, self.now, 60, 10)
        (mine,) = [one for one in claim.jobs if one.job == job]
        outcome = work.Outcome(
            j.JUDGED, self.now, self.now, 1, 0, given, channels=(OWNERS, ADMINS), post=True
        )

        assert work.finish(self.database, claim, mine, outcome, self.now)

    def deliver(self, channel: str) -> list[Result]:
        """What is due on the channel is sent, as the daemon does."""
        results: list[Result] = []
        for due in deliveries.claim(self.database, channel, self.now, 60, 1000):
            result = self.channels[channel].send(due)
            results.append(result)
            if isinstance(result, Sent):
                deliveries.sent(self.database, due, self.now)
            elif isinstance(result, Needless):
                deliveries.needless(self.database, due, result.reason)
            else:
                deliveries.failed(self.database, due, result.reason, self.now)
        return results

    def fail(self, job: str, given: v.Verdict, channel: str = OWNERS) -> list[Result]:
        """The job fails, and the channel is told."""
        self.judge(job, given)
        return self.deliver(channel)

    def later(self, seconds: float) -> None:
        """Time passes, and what is due is brought up to date."""
        self.now += dt.timedelta(seconds=seconds)
        for channel in self.channels.values():
            while channel.once():
                pass

    @property
    def messages(self) -> list[Posted]:
        return self.slack.messages


@pytest.fixture
def slack() -> Iterator[SlackApi]:
    with SlackApi({"ada@example.org": "U1", "bob@example.org": "U2"}) as server:
        yield server


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    yield opened
    opened.close()


@pytest.fixture
def scene(database: Database, slack: SlackApi) -> Scene:
    return Scene(database, slack)


def verdict(
    job: str = "12",
    cause: str = "memory.cgroup-oom",
    *,
    user: str | None = "ada",
    domain: str = "user",
    host: str | None = "n3",
    fingerprint: str = "1:aa",
    task: str | None = None,
    confidence: str = v.CONFIRMED,
) -> v.Verdict:
    return v.Verdict(
        job=v.Job(cluster="testcluster", id=job, user=user, name="train", array_task=task),
        cause=v.Cause(cause, "Rank 5 on n3 was killed: out of memory", domain, confidence),
        initiator=v.Initiator(rank=5, host=host, latest=ENDED_AT, confidence=v.CONFIRMED),
        remedy=v.Remedy(do=("Ask for more memory: --mem=64G.",), commands=("seff 12",)),
        fingerprint=fingerprint,
    )


def said(message: Posted) -> str:
    return json.dumps(message.payload, ensure_ascii=False)


def test_the_owner_is_told_alone_with_a_signed_link(scene: Scene) -> None:
    assert scene.fail("12", verdict()) == [Sent()]

    (message,) = scene.messages
    assert message.conversation == "D1"
    assert "https://ff.example/shared/" in said(message)


def test_the_administrators_get_no_signed_link(scene: Scene) -> None:
    assert scene.fail("12", verdict(domain="system"), ADMINS) == [Sent()]

    (message,) = scene.messages
    assert message.conversation == "C1"
    assert "https://ff.example/jobs/testcluster/12" in said(message)
    assert "/shared/" not in said(message)


def test_repeats_of_a_failure_are_one_message_whose_count_grows(scene: Scene) -> None:
    for job in range(100, 130):
        assert scene.fail(str(job), verdict(str(job))) == [Sent()]
        scene.later(1)
    scene.later(20)

    (message,) = scene.messages
    assert "30 jobs, the same failure: 129, 128, " in said(message)
    assert "20 more" in said(message)
    assert message.updates <= 5, "a message is not changed with each job"


def test_another_users_failure_is_another_message(scene: Scene) -> None:
    scene.fail("12", verdict())
    scene.fail("13", verdict("13", user="bob"))

    assert sorted(message.conversation for message in scene.messages) == ["D1", "D2"]


def test_after_the_window_a_repeat_is_told_anew(scene: Scene) -> None:
    scene.fail("12", verdict())
    scene.later(3601)
    scene.fail("13", verdict("13"))

    assert len(scene.messages) == 2


def test_tasks_of_an_array_are_one_message_however_they_failed(scene: Scene) -> None:
    for task in range(4):
        given = verdict("70", task=str(task), fingerprint=f"1:{task}")
        scene.fail(str(70 + task), given)
    scene.later(20)

    (message,) = scene.messages
    assert "4 jobs, different failures, the first is shown: 73, 72, 71, 70" in said(message)


def test_who_gets_too_much_in_an_hour_gets_the_rest_in_one_message(
    database: Database, slack: SlackApi
) -> None:
    scene = Scene(database, slack, per_hour=3)
    for job in range(10):
        scene.fail(str(50 + job), verdict(str(50 + job), fingerprint=f"1:{job}"))
    scene.later(20)

    assert len(scene.messages) == 4
    assert "7 jobs, different failures" in said(scene.messages[-1])

    scene.later(3601)
    scene.fail("99", verdict("99", fingerprint="1:z"))

    assert len(scene.messages) == 5


def test_a_revision_changes_the_message(scene: Scene) -> None:
    scene.fail("12", verdict(cause="process.killed"))
    scene.later(1)
    assert scene.fail("12", verdict()) == [Sent()]

    (message,) = scene.messages
    assert message.updates == 1
    assert "memory.cgroup-oom" in said(message)
    assert "revision 2" in said(message)


def test_a_job_that_turns_out_to_have_failed_otherwise_leaves_the_message(scene: Scene) -> None:
    for job in ("12", "13"):
        scene.fail(job, verdict(job))
        scene.later(1)
    scene.later(20)
    scene.fail("13", verdict("13", "storage.quota", fingerprint="1:bb"))
    scene.later(20)

    first, second = scene.messages
    assert "2 jobs" not in said(first)
    assert "storage.quota" in said(second)


def test_an_answer_that_was_lost_costs_no_second_message(scene: Scene) -> None:
    scene.slack.swallow("chat.postMessage")
    (failed,) = scene.fail("12", verdict())
    assert isinstance(failed, Failed)
    scene.later(5)
    assert scene.deliver(OWNERS) == [Sent()]

    assert len(scene.messages) == 1
    assert scene.slack.calls["conversations.history"] == 1


def test_a_daemon_that_died_after_posting_finds_its_message(
    scene: Scene, database: Database, slack: SlackApi
) -> None:
    class Killed(BaseException):
        pass

    def post(*arguments: object) -> str:
        Bot.post(bot, *arguments)  # type: ignore[arg-type]
        raise Killed

    bot = scene.channels[OWNERS]._bot
    bot.post = post  # type: ignore[method-assign]
    with pytest.raises(Killed):
        scene.fail("12", verdict())
    assert len(slack.messages) == 1

    after = Scene(database, slack)
    after.now += dt.timedelta(seconds=LEASE_S + 10)
    assert after.deliver(OWNERS) == [Sent()]

    assert len(slack.messages) == 1


def test_the_report_is_attached_once(database: Database, slack: SlackApi) -> None:
    scene = Scene(database, slack, attach=True)
    scene.slack.swallow("files.completeUploadExternal")
    scene.fail("12", verdict())
    scene.later(5)

    (message,) = scene.messages
    assert list(message.files) == ["12.html"]
    assert message.files["12.html"].startswith(b"<!")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (verdict(user="eve"), "nobody in Slack's workspace has the address eve@example.org"),
        (verdict(user="no user"), "[owners] tells no address of no user"),
    ],
)
def test_an_owner_whom_nobody_knows_is_not_told(
    scene: Scene, given: v.Verdict, reason: str
) -> None:
    assert scene.fail("12", given) == [Needless(reason)]


def test_a_job_whose_owner_is_not_known_yet_waits_and_holds_up_nobody(scene: Scene) -> None:
    (result,) = scene.fail("12", verdict(user=None))

    assert isinstance(result, Failed)
    assert result.retry
    assert result.alone


@pytest.mark.parametrize(
    ("given", "settings", "reason"),
    [
        (verdict(), {}, "slack.admins_domains leaves out user"),
        (
            verdict(domain="system", confidence=v.POSSIBLE),
            {"admins_confidence": "likely"},
            "possible is less than slack.admins_confidence",
        ),
        (
            verdict(domain="system"),
            {"admins_causes": ("gpu.*", "slurm.node-fail")},
            "slack.admins_causes leaves out memory.cgroup-oom",
        ),
    ],
)
def test_administrators_hear_of_what_they_asked_for(
    database: Database,
    slack: SlackApi,
    given: v.Verdict,
    settings: dict[str, Any],
    reason: str,
) -> None:
    assert Scene(database, slack, **settings).fail("12", given, ADMINS) == [Needless(reason)]


def test_what_administrators_were_told_is_corrected_though_the_filter_leaves_it_out(
    scene: Scene,
) -> None:
    scene.fail("12", verdict(cause="gpu.ecc", domain="system"), ADMINS)
    scene.later(1)
    assert scene.fail("12", verdict(domain="user"), ADMINS) == [Sent()]

    (message,) = scene.messages
    assert "memory.cgroup-oom" in said(message)


def test_what_is_silenced_is_not_told_to_administrators_and_still_to_the_owner(
    scene: Scene,
) -> None:
    silence = j.Silence(None, j.NODE, "n3", scene.now + HOUR, "root")
    common_causes.silence(scene.database, silence, scene.now)
    given = verdict(cause="gpu.ecc", domain="system")

    assert scene.fail("12", given, ADMINS) == [Needless("n3 is silenced by root")]
    assert scene.deliver(OWNERS) == [Sent()]

    scene.later(3601)
    assert scene.fail("13", msgspec.structs.replace(given, fingerprint="1:c"), ADMINS) == [Sent()]


def test_a_message_that_somebody_deleted_is_left_so(scene: Scene) -> None:
    scene.fail("12", verdict(cause="process.killed"))
    scene.slack.delete(scene.messages[0])
    scene.later(1)

    assert scene.fail("12", verdict()) == [Sent()]
    assert scene.messages == []


def test_a_receiver_that_asks_for_time_is_left_alone_so_long(scene: Scene) -> None:
    scene.slack.rate_limit("chat.postMessage", retry_after_s=30)
    (failed,) = scene.fail("12", verdict())
    assert isinstance(failed, Failed)
    assert failed.after_s == 30
    scene.later(20)
    assert scene.messages == []
    scene.later(11)

    assert len(scene.messages) == 1


def test_a_channel_that_is_gone_is_given_up_with_the_remedy(
    database: Database, slack: SlackApi
) -> None:
    slack.refuse("chat.postMessage", "is_archived")

    (failed,) = Scene(database, slack).fail("12", verdict(domain="system"), ADMINS)

    assert isinstance(failed, Failed)
    assert not failed.retry
    assert "Name another channel in slack.admins." in failed.reason
