"""The passes over a real store, with a fake Slurm, a clock of their own and channels that keep."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator

import msgspec
import pytest

from firstfault.app import passes
from firstfault.app.lifecycle import Timing
from firstfault.deliver.outcome import Failed, Sent
from firstfault.model import verdict as v
from firstfault.model.case import Case
from firstfault.model.jobs import Delivery
from firstfault.model.slurm import JobFacts
from firstfault.store import deliveries, evidence, listing, retention, work
from firstfault.store.database import Database, open_store
from tests.intake.records import ENDED_AT, file
from tests.slurm.fake import FakeSlurm
from tests.store.incoming import incoming

TIMING = Timing(settle_s=45, early_s=5, first_ask_s=1)


def verdict(cause: str, confidence: str = v.CONFIRMED) -> v.Verdict:
    return v.Verdict(job=v.Job(), cause=v.Cause(cause, cause, "user", confidence))


class Kept:
    """A channel that keeps what it is sent, after failing as often as told."""

    def __init__(self) -> None:
        self.sent: list[Delivery] = []
        self.failures: list[Failed] = []

    def send(self, delivery: Delivery) -> Sent | Failed:
        if self.failures:
            return self.failures.pop(0)
        self.sent.append(delivery)
        return Sent()

    @property
    def causes(self) -> list[str]:
        return [delivery.current.verdict.cause.id for delivery in self.sent]


class Daemon:
    """All passes, one after the other, whenever the clock is moved."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.at = ENDED_AT + dt.timedelta(seconds=1)
        self.slurm = FakeSlurm()
        self.slack = Kept()
        self.report = Kept()
        self.answer: Callable[[Case], v.Verdict] = lambda case: verdict("process.segfault")
        self.judged = 0

    def diagnose(self, case: Case) -> v.Verdict:
        self.judged += 1
        return self.answer(case)

    def take(self, *nodes: str, **more: object) -> None:
        evidence.keep(self.database, [incoming(node, **more) for node in nodes], self.at)  # type: ignore[arg-type]
        self.settle()

    def after(self, seconds: float) -> None:
        self.at += dt.timedelta(seconds=seconds)
        self.settle()

    def settle(self) -> None:
        channels = {"report": self.report, "slack": self.slack}
        for _ in range(20):
            done = passes.judge(
                self.database, self.diagnose, TIMING, tuple(channels), lambda: self.at
            )
            done += passes.ask(self.database, self.slurm, 1800, lambda: self.at)
            for name, channel in channels.items():
                done += passes.deliver(self.database, name, channel, 3, lambda: self.at).done
            if not done:
                return
        raise AssertionError("the passes do not come to rest")

    def facts(self, state: str, ended_after_s: float | None = -1) -> None:
        ended_at = None if ended_after_s is None else ENDED_AT + dt.timedelta(seconds=ended_after_s)
        self.slurm.known["12"] = [JobFacts(id="12", state=state, ended_at=ended_at, name="train")]


@pytest.fixture
def daemon(store_url: str) -> Iterator[Daemon]:
    database = open_store(store_url)
    yield Daemon(database)
    database.close()


def test_a_named_failure_is_posted_without_waiting_for_slurm(daemon: Daemon) -> None:
    daemon.take("n1", "n2")

    assert daemon.slack.causes == ["process.segfault"]
    assert daemon.slurm.asked == []


def test_slurm_is_asked_a_second_later_and_no_change_is_not_posted(daemon: Daemon) -> None:
    daemon.facts("FAILED")
    daemon.take("n1", "n2")
    daemon.after(1)

    assert daemon.slurm.asked == [["12"]]
    assert daemon.judged == 2
    assert daemon.slack.causes == ["process.segfault"]
    daemon.after(3600)
    assert len(daemon.slurm.asked) == 1


def test_a_verdict_that_slurm_changes_is_revised(daemon: Daemon) -> None:
    daemon.answer = lambda case: verdict("slurm.time-limit" if case.facts else "process.killed")
    daemon.facts("TIMEOUT")
    daemon.take("n1", "n2")
    daemon.after(1)

    assert daemon.slack.causes == ["process.killed", "slurm.time-limit"]
    previous = daemon.slack.sent[1].previous
    assert previous is not None
    assert previous.cause.id == "process.killed"
    assert daemon.slack.sent[1].current.revision == 2


def test_more_facts_on_the_same_answer_renew_the_report_and_post_nothing(daemon: Daemon) -> None:
    def answer(case: Case) -> v.Verdict:
        state = case.facts.state if case.facts else None
        return msgspec.structs.replace(verdict("process.abort"), job=v.Job(id="12", state=state))

    daemon.answer = answer
    daemon.facts("FAILED")
    daemon.take("n1", "n2")
    daemon.after(1)

    assert len(daemon.slack.sent) == 1
    assert [sent.current.verdict.job.state for sent in daemon.report.sent] == [None, "FAILED"]
    assert [sent.current.revision for sent in daemon.report.sent] == [1, 1]


def test_a_success_is_never_posted(daemon: Daemon) -> None:
    daemon.answer = lambda case: verdict("none")
    daemon.facts("COMPLETED")
    daemon.take("n1", "n2")
    daemon.after(1)
    daemon.after(5)

    assert daemon.slack.sent == []
    assert daemon.report.sent == []
    assert work.next_due_at(daemon.database) is None


def test_an_unknown_waits_for_slurm_and_is_posted_when_the_job_failed(daemon: Daemon) -> None:
    daemon.answer = lambda case: verdict("unknown", v.UNKNOWN)
    daemon.facts("RUNNING", None)
    daemon.take("n1", "n2")
    daemon.after(1)
    assert daemon.slack.sent == []

    daemon.facts("FAILED")
    daemon.after(5)

    assert daemon.slack.causes == ["unknown"]


def test_an_unknown_of_a_job_that_succeeded_is_not_posted(daemon: Daemon) -> None:
    daemon.answer = lambda case: verdict("unknown", v.UNKNOWN)
    daemon.facts("COMPLETED")
    daemon.take("n1", "n2")
    daemon.after(1)

    assert daemon.slack.sent == []
    assert work.next_due_at(daemon.database) is None


def test_an_unknown_is_posted_when_slurm_never_answers(daemon: Daemon) -> None:
    daemon.answer = lambda case: verdict("unknown", v.UNKNOWN)
    daemon.slurm.down = True
    daemon.take("n1", "n2")
    for _ in range(10):
        daemon.after(300)

    assert daemon.slack.causes == ["unknown"]
    assert work.next_due_at(daemon.database) is None


def test_slurm_is_asked_again_though_much_time_has_passed_by_the_clock(daemon: Daemon) -> None:
    seen: list[JobFacts | None] = []

    def answer(case: Case) -> v.Verdict:
        seen.append(case.facts)
        return verdict("process.segfault")

    daemon.answer = answer
    daemon.slurm.down = True
    daemon.take("n1", "n2")
    daemon.after(7200)
    daemon.slurm.down = False
    daemon.facts("FAILED")
    daemon.after(5)

    assert len(daemon.slurm.asked) == 2
    assert seen[-1] is not None and seen[-1].state == "FAILED"


def test_running_and_completing_are_not_yet(daemon: Daemon) -> None:
    seen: list[JobFacts | None] = []

    def answer(case: Case) -> v.Verdict:
        seen.append(case.facts)
        return verdict("process.segfault")

    daemon.answer = answer
    daemon.take("n1", "n2")
    for state in ("RUNNING", "COMPLETING"):
        daemon.facts(state, None)
        daemon.after(150)

    assert set(seen) == {None}
    assert len(daemon.slurm.asked) == 2


def test_a_requeued_jobs_first_end_gets_the_facts_of_that_end(daemon: Daemon) -> None:
    first = JobFacts(id="12", state="NODE_FAIL", ended_at=ENDED_AT)
    second = JobFacts(id="12", state="RUNNING")
    daemon.slurm.known["12"] = [first, second]
    states = []

    def answer(case: Case) -> v.Verdict:
        states.append(case.facts.state if case.facts else None)
        return verdict("process.segfault")

    daemon.answer = answer
    daemon.take("n1", "n2")
    daemon.after(1)

    assert states == [None, "NODE_FAIL"]


def test_a_job_with_a_missing_node_settles(daemon: Daemon) -> None:
    daemon.answer = lambda case: verdict("slurm.node-fail", v.LIKELY)
    daemon.take("n1")
    daemon.after(10)
    assert daemon.slack.sent == []

    daemon.after(35)

    assert daemon.slack.causes == ["slurm.node-fail"]


def test_a_confirmed_failure_does_not_wait_for_the_last_node(daemon: Daemon) -> None:
    daemon.take("n1")
    daemon.after(6)

    assert daemon.slack.causes == ["process.segfault"]


def test_late_evidence_revises(daemon: Daemon) -> None:
    daemon.answer = lambda case: verdict("process.killed", v.LIKELY)
    daemon.take("n1")
    daemon.after(60)
    daemon.answer = lambda case: verdict("memory.host-oom")
    daemon.take("n2")
    daemon.after(10)

    assert daemon.slack.causes == ["process.killed", "memory.host-oom"]


def test_a_failure_that_turns_out_to_be_none_is_taken_back(daemon: Daemon) -> None:
    daemon.take("n1", "n2")
    daemon.answer = lambda case: verdict("none")
    daemon.facts("COMPLETED")
    daemon.after(1)

    assert daemon.slack.causes == ["process.segfault", "none"]


def test_nothing_is_taken_back_that_was_never_sent(daemon: Daemon) -> None:
    daemon.slack.failures = [Failed("down", after_s=50)]
    daemon.take("n1", "n2")
    daemon.answer = lambda case: verdict("none")
    daemon.facts("COMPLETED")
    daemon.after(1)
    daemon.after(60)

    assert daemon.slack.sent == []
    assert work.next_due_at(daemon.database) is None


def test_a_failed_delivery_is_tried_again_and_given_up(daemon: Daemon) -> None:
    daemon.facts("FAILED")
    daemon.slack.failures = [Failed("down"), Failed("busy", after_s=50)]
    daemon.take("n1", "n2")
    daemon.after(2)
    assert daemon.slack.sent == []
    daemon.after(49)
    assert len(daemon.slack.sent) == 0

    daemon.after(2)

    assert len(daemon.slack.sent) == 1
    assert daemon.slack.sent[0].attempts == 3


def test_a_receiver_that_asks_for_a_pause_gets_it(daemon: Daemon) -> None:
    channel = Kept()
    channel.failures = [Failed("busy", after_s=7)]
    daemon.slack.failures = [Failed("later", after_s=1)]
    daemon.take("n1", "n2")
    daemon.at += dt.timedelta(seconds=2)

    first = passes.deliver(daemon.database, "slack", channel, 3, lambda: daemon.at)
    second = passes.deliver(daemon.database, "slack", channel, 3, lambda: daemon.at)

    assert first == passes.Turn(1, away=True, hold_s=7)
    assert second == passes.Turn(0)


def test_a_channel_that_raises_stops_no_other(daemon: Daemon) -> None:
    def broken(_delivery: Delivery) -> Sent | Failed:
        raise RuntimeError("no template")

    daemon.slack.send = broken  # type: ignore[method-assign]
    daemon.facts("FAILED")
    daemon.take("n1", "n2")
    daemon.after(1000)
    daemon.after(1000)

    assert len(daemon.report.sent) == 1
    assert work.next_due_at(daemon.database) is None


def test_a_diagnosis_that_raises_is_an_unknown_with_a_note(daemon: Daemon) -> None:
    def broken(_case: Case) -> v.Verdict:
        raise ZeroDivisionError("secret detail")

    daemon.answer = broken
    daemon.facts("FAILED")
    daemon.take("n1", "n2")
    daemon.after(1)

    (stored,) = listing.current_verdicts(daemon.database, "12", "testcluster")
    assert stored.verdict.cause.id == "unknown"
    assert "ZeroDivisionError" in stored.verdict.notes[0]
    assert "secret" not in stored.verdict.notes[0]
    assert len(daemon.slack.sent) == 1


def test_the_verdict_names_the_job_where_the_diagnosis_could_not(daemon: Daemon) -> None:
    daemon.take("n1", "n2")

    job = daemon.slack.sent[0].current.verdict.job
    assert (job.cluster, job.id) == ("testcluster", "12")


def test_a_job_that_its_owner_cancelled_is_not_posted_unless_it_had_failed(daemon: Daemon) -> None:
    daemon.answer = lambda case: verdict("slurm.cancelled")
    by_owner = JobFacts(id="12", state="CANCELLED", ended_at=ENDED_AT, uid=1001, by_uid=1001)
    daemon.slurm.known["12"] = [by_owner]
    daemon.take("n1", "n2")
    daemon.after(1)

    assert daemon.slack.sent == []
    daemon.answer = lambda case: verdict("collective.timeout")
    daemon.take("n3")
    daemon.after(60)
    assert daemon.slack.causes == ["collective.timeout"]


def test_a_cancellation_is_posted_when_slurm_says_that_it_was_not_the_owner(
    daemon: Daemon,
) -> None:
    daemon.answer = lambda case: verdict("slurm.cancelled")
    by_root = JobFacts(id="12", state="CANCELLED", ended_at=ENDED_AT, uid=1001, by_uid=0)
    daemon.take("n1", "n2")
    assert daemon.slack.sent == []

    daemon.slurm.known["12"] = [by_root]
    daemon.after(1)

    assert daemon.slack.causes == ["slurm.cancelled"]


GUESSED = file("/w/slurm-7_3.out", "job-output", "boom\n")


def of_output(case: Case) -> v.Verdict:
    has_output = any(document.what == "job-output" for document in case.documents)
    return verdict("python.exception" if has_output else "process.exit-code")


def test_what_may_be_another_jobs_output_tells_nobody_before_slurm_does(daemon: Daemon) -> None:
    daemon.answer = of_output
    daemon.take("n1", "n2", files=[GUESSED])
    assert daemon.slack.sent == []

    daemon.facts("FAILED")
    daemon.after(1)

    assert daemon.slack.causes == ["process.exit-code"]


def test_what_may_be_another_jobs_output_counts_where_slurm_never_answers(daemon: Daemon) -> None:
    daemon.answer = of_output
    daemon.take("n1", "n2", files=[GUESSED])
    for _ in range(20):
        daemon.after(600)

    assert daemon.slack.causes == ["python.exception"]


def test_a_node_that_slurm_does_not_name_is_judged_without_and_the_verdict_says_so(
    daemon: Daemon,
) -> None:
    seen: list[tuple[str, ...]] = []

    def answer(case: Case) -> v.Verdict:
        seen.append(case.nodes_reported)
        return verdict("process.segfault")

    daemon.answer = answer
    facts = JobFacts(id="12", state="FAILED", ended_at=ENDED_AT, nodes="n[1-2]")
    daemon.slurm.known["12"] = [facts]
    daemon.take("n1", "n2", "n9", nodes=())
    daemon.after(50)

    daemon.after(5)

    assert seen[-1] == ("n1", "n2")
    (stored,) = listing.current_verdicts(daemon.database, "12", "testcluster")
    assert "Left out: evidence of n9" in stored.verdict.notes[-1]


def test_evidence_that_comes_when_the_rest_was_removed_changes_nothing(daemon: Daemon) -> None:
    daemon.facts("FAILED")
    daemon.take("n1", "n2")
    daemon.after(1)
    days = dt.timedelta(days=15)
    while retention.remove_evidence(daemon.database, daemon.at + days, daemon.at + days).job:
        pass
    judged = daemon.judged

    daemon.take("n3", nodes=("n1", "n2", "n3"), ended_at=ENDED_AT)
    daemon.after(3600)

    assert daemon.judged == judged
    assert daemon.slack.causes == ["process.segfault"]
    assert work.next_due_at(daemon.database) is None


def test_a_slow_pass_gives_up_jobs_that_another_daemon_has_taken(daemon: Daemon) -> None:
    for number in range(3):
        evidence.keep(daemon.database, [incoming("n1", f"{number}", nodes=("n1",))], daemon.at)
    other: list[str] = []

    def slow(case: Case) -> v.Verdict:
        daemon.at += dt.timedelta(seconds=70)
        claim = work.claim_jobs(daemon.database, daemon.at, 60, 10)
        other.extend(job.job for job in claim.jobs)
        return verdict("process.segfault")

    passes.judge(daemon.database, slow, TIMING, ("slack",), lambda: daemon.at)

    assert sorted(other) == ["0", "1", "2"]
    assert deliveries.claim(daemon.database, "slack", daemon.at, 60, 10) == []


def test_a_heterogeneous_job_waits_for_components_that_it_cannot_count(daemon: Daemon) -> None:
    daemon.answer = lambda case: verdict("slurm.node-fail", v.LIKELY)
    for node, component in (("n1", "12"), ("g1", "13")):
        record = incoming(node, nodes=(node,))
        record = msgspec.structs.replace(record, component=component)
        evidence.keep(daemon.database, [record], daemon.at)
    daemon.settle()
    assert daemon.slack.sent == []

    daemon.after(45)

    assert daemon.slack.causes == ["slurm.node-fail"]
