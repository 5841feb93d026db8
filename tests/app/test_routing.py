"""The rules on a real store: who is told, who waits, and who is told of a correction."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import msgspec
import pytest

from firstfault.app import passes, routing
from firstfault.app.rules import Rule, Rules, held_until
from firstfault.deliver.outcome import Failed
from firstfault.model import verdict as v
from firstfault.model.case import Case
from firstfault.model.jobs import DELIVERED, Delivery
from firstfault.model.slurm import JobFacts, StepFacts
from firstfault.store import deliveries, evidence, listing, work
from firstfault.store.backlog import backlog
from firstfault.store.database import open_store
from tests.app.test_passes import TIMING, Daemon, Kept, verdict
from tests.intake.records import ENDED_AT, fields
from tests.store.incoming import incoming

CHANNELS = ("report", "slack", "mail-owner")


class Ruled(Daemon):
    """A daemon with rules and a second channel to people."""

    rules = Rules()

    def settle(self) -> None:
        self.mail = getattr(self, "mail", Kept())
        route = routing.by_rules(self.database, self.rules, CHANNELS)
        kept = dict(zip(CHANNELS, (self.report, self.slack, self.mail), strict=True))
        for _ in range(20):
            done = passes.judge(
                self.database, self.diagnose, TIMING, CHANNELS, lambda: self.at, route=route
            )
            done += passes.ask(self.database, self.slurm, 1800, lambda: self.at)
            for name, channel in kept.items():
                done += passes.deliver(self.database, name, channel, 3, lambda: self.at).done
            if not done:
                return
        raise AssertionError("the passes do not come to rest")

    def knows(self, *steps: str, **facts: str) -> None:
        self.slurm.known["12"] = [
            JobFacts(
                id="12",
                state="FAILED",
                ended_at=ENDED_AT,
                steps=tuple(StepFacts(step) for step in steps),
                **facts,  # type: ignore[arg-type]
            )
        ]


@pytest.fixture
def daemon(store_url: str) -> Iterator[Ruled]:
    database = open_store(store_url)
    yield Ruled(database)
    database.close()


def rule(name: str, *send: str, **asked: object) -> Rule:
    return Rule(name=name, send=send, **asked)  # type: ignore[arg-type]


def test_without_rules_everyone_is_told(daemon: Ruled) -> None:
    daemon.take("n1", "n2")

    assert (len(daemon.report.sent), len(daemon.slack.sent), len(daemon.mail.sent)) == (1, 1, 1)


def test_who_no_rule_names_is_not_told_and_the_report_is_written(daemon: Ruled) -> None:
    daemon.rules = Rules(rule=(rule("crashes", "mail-owner", cause=("process.*",)),))

    daemon.take("n1", "n2")

    assert (len(daemon.report.sent), len(daemon.slack.sent), len(daemon.mail.sent)) == (1, 0, 1)


def test_a_job_of_which_nobody_is_told_is_done(daemon: Ruled) -> None:
    daemon.rules = Rules(rule=(rule("none"),))

    daemon.take("n1", "n2")

    assert listing.states(daemon.database) == {DELIVERED: 1}


def test_a_correction_goes_to_who_was_told_whatever_the_rules_say_of_it(daemon: Ruled) -> None:
    daemon.rules = Rules(
        rule=(
            rule("crashes", "slack", cause=("process.*",)),
            rule("rest", "mail-owner"),
        )
    )
    daemon.answer = lambda case: verdict("slurm.time-limit" if case.facts else "process.killed")
    daemon.knows("batch", "0")
    daemon.take("n1", "n2")
    daemon.after(1)

    assert daemon.slack.causes == ["process.killed", "slurm.time-limit"]
    assert daemon.mail.causes == ["slurm.time-limit"]


def test_what_only_slurm_knows_is_waited_for(daemon: Ruled) -> None:
    daemon.rules = Rules(
        rule=(rule("salloc", interactive=True), rule("all", "slack", "mail-owner"))
    )
    daemon.take("n1", "n2")
    before = len(daemon.report.sent)
    daemon.knows("batch", "0")
    daemon.after(1)

    assert before == 0
    assert (len(daemon.report.sent), len(daemon.slack.sent)) == (1, 1)


def test_an_interactive_job_is_stored_and_not_posted(daemon: Ruled) -> None:
    daemon.rules = Rules(rule=(rule("salloc", interactive=True), rule("all", "slack")))
    daemon.knows("0")
    daemon.take("n1", "n2")
    daemon.after(1)

    assert (len(daemon.report.sent), len(daemon.slack.sent)) == (1, 0)


def test_where_slurm_never_answers_the_rule_does_not_match(daemon: Ruled) -> None:
    daemon.rules = Rules(rule=(rule("salloc", interactive=True), rule("all", "slack")))
    daemon.slurm.down = True
    daemon.take("n1", "n2")
    for _ in range(12):
        daemon.after(600)

    assert len(daemon.slack.sent) == 1


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"comment": ("*no-messages*",)}, 0),
        ({"comment": ("*other*",)}, 1),
        ({"partition": ("debug",)}, 0),
        ({"account": ("physics",)}, 0),
    ],
)
def test_what_a_node_was_told_of_the_job_needs_no_slurm(
    daemon: Ruled, asked: dict[str, object], told: int
) -> None:
    daemon.rules = Rules(rule=(rule("not these", **asked), rule("all", "slack")))
    environment = {
        "SLURM_JOB_COMMENT": "run 7, no-messages",
        "SLURM_JOB_PARTITION": "debug",
        "SLURM_JOB_ACCOUNT": "physics",
    }
    for node in ("n1", "n2"):
        content = fields(node, "12", nodes="n1,n2", cluster="testcluster", environment=environment)
        body = msgspec.json.encode(content)
        one = msgspec.structs.replace(incoming(node), body=body, size=len(body))
        evidence.keep(daemon.database, [one], daemon.at)
    daemon.settle()

    assert len(daemon.slack.sent) == told
    assert daemon.slurm.asked == []


def test_in_a_quiet_time_it_is_held_back_and_goes_at_its_end(daemon: Ruled) -> None:
    quiet = rule("all", "slack", quiet="15:00-18:00")
    daemon.rules = Rules(rule=(quiet,))
    daemon.take("n1", "n2")
    held = (len(daemon.slack.sent), len(daemon.report.sent))
    waits = backlog(daemon.database, ["slack"], daemon.at + dt.timedelta(minutes=30)).outbox[0]
    until = held_until(quiet, ZoneInfo("UTC"), daemon.at)
    assert until is not None
    daemon.after((until - daemon.at).total_seconds() - 1)
    still = len(daemon.slack.sent)
    daemon.after(1)

    assert held == (0, 1)
    assert (waits.pending, waits.oldest_s) == (1, 0)
    assert (still, len(daemon.slack.sent)) == (0, 1)


def test_what_is_corrected_while_it_is_held_back_goes_once(daemon: Ruled) -> None:
    daemon.rules = Rules(rule=(rule("all", "slack", quiet="15:00-18:00"),))
    daemon.answer = lambda case: verdict("slurm.time-limit" if case.facts else "process.killed")
    daemon.knows("batch", "0")
    daemon.take("n1", "n2")
    daemon.after(1)
    daemon.after(3 * 3600)

    assert daemon.slack.causes == ["slurm.time-limit"]


def test_the_same_failure_again_is_a_repeat_for_its_user_alone(daemon: Ruled) -> None:
    daemon.rules = Rules(rule=(rule("again", repeat_days=7), rule("all", "slack")))
    users = iter(("alice", "bob", "alice"))

    def answer(case: Case) -> v.Verdict:
        job = v.Job(user=next(users))
        return msgspec.structs.replace(verdict("process.abort"), job=job, fingerprint="1:same")

    daemon.answer = answer
    for job, days in (("12", 0), ("13", 1), ("14", 2)):
        at = ENDED_AT + dt.timedelta(days=days)
        daemon.at = max(daemon.at, at)
        records = [incoming(node, job, ended_at=at) for node in ("n1", "n2")]
        evidence.keep(daemon.database, records, daemon.at)
        for _ in range(2):
            route = routing.by_rules(daemon.database, daemon.rules, CHANNELS)
            passes.judge(
                daemon.database, daemon.diagnose, TIMING, CHANNELS, lambda: daemon.at, route=route
            )
        passes.deliver(daemon.database, "slack", daemon.slack, 3, lambda: daemon.at)

    assert [one.current.job for one in daemon.slack.sent] == ["12", "13"]


def test_a_channel_whose_delivery_was_given_up_is_told_of_the_correction(daemon: Ruled) -> None:
    daemon.rules = Rules(rule=(rule("crashes", "slack", cause=("process.*",)), rule("rest")))
    daemon.answer = lambda case: verdict("slurm.time-limit" if case.facts else "process.killed")
    daemon.slack.failures = [Failed("gone", retry=False)]
    daemon.knows("batch", "0")
    daemon.take("n1", "n2")
    daemon.after(1)

    assert daemon.slack.causes == ["slurm.time-limit"]
    sent: list[Delivery] = daemon.slack.sent
    assert sent[0].previous is None
    assert work.next_due_at(daemon.database) is None
    assert deliveries.dismiss(daemon.database) == 0
