"""The sweep over a real store: jobs that ended badly and of which no record came."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from firstfault.app import passes
from firstfault.app.lifecycle import Timing
from firstfault.app.sweep import NAME, Sweeper, is_missed
from firstfault.config import Ends
from firstfault.diagnosis import diagnose
from firstfault.model import verdict as v
from firstfault.model.slurm import JobFacts
from firstfault.store import evidence, listing, sweeps
from firstfault.store.database import Database, open_store
from tests.app.test_passes import Kept
from tests.intake.records import ENDED_AT
from tests.slurm.fake import FakeSlurm
from tests.store.incoming import incoming

AFTER_S = 300.0
CLUSTER = "testcluster"


def facts(job: str, state: str = "NODE_FAIL", ended_s: float = 0, **more: object) -> JobFacts:
    ended_at = ENDED_AT + dt.timedelta(seconds=ended_s)
    known: dict[str, object] = {
        "raw_id": job,
        "cluster": CLUSTER,
        "nodes": "n1",
        "started_at": ended_at - dt.timedelta(seconds=60),
        "user": "alice",
        "uid": 1001,
    }
    return JobFacts(id=job, state=state, ended_at=ended_at, **known | more)  # type: ignore[arg-type]


class Watch:
    """The sweep and the passes, on a clock of their own that begins an hour before the ends."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.slurm = FakeSlurm()
        self.at = ENDED_AT - dt.timedelta(hours=1)
        self.begin()
        self.slack = Kept()

    def begin(self) -> None:
        self.sweeper = Sweeper(self.database, self.slurm, Ends(), AFTER_S)
        self.sweeper.once(self.at)

    def end(self, *ends: JobFacts) -> None:
        for one in ends:
            self.slurm.known.setdefault(one.raw_id or one.id, []).append(one)

    def sweep(self, after_s: float) -> int:
        """Looks at ``after_s`` after the ends."""
        self.at = ENDED_AT + dt.timedelta(seconds=after_s)
        return self.sweeper.once(self.at)

    def settle(self) -> None:
        for _ in range(20):
            self.at += dt.timedelta(seconds=10)
            passes.judge(self.database, diagnose, Timing(), ("slack",), lambda: self.at)
            passes.ask(self.database, self.slurm, 1800, lambda: self.at)
            passes.deliver(self.database, "slack", self.slack, 3, lambda: self.at)

    def verdict(self, job: str) -> v.Verdict:
        stored = listing.current_verdicts(self.database, job, CLUSTER)
        return stored[-1].verdict


@pytest.fixture
def watch(store_url: str) -> Iterator[Watch]:
    database = open_store(store_url)
    yield Watch(database)
    database.close()


def test_a_node_failure_that_nobody_told_of_is_found_judged_and_posted(watch: Watch) -> None:
    watch.end(facts("12"))

    assert watch.sweep(301) == 1
    watch.settle()
    found = watch.verdict("12")
    assert (found.cause.id, found.cause.domain) == ("slurm.node-fail", "system")
    assert (found.initiator.rank, found.initiator.host) == (None, "n1")
    assert (found.job.id, found.job.user, found.job.state) == ("12", "alice", "NODE_FAIL")
    assert watch.slack.causes == ["slurm.node-fail"]


def test_the_node_is_the_one_that_slurm_names(watch: Watch) -> None:
    watch.end(facts("12", nodes="n[1-4]", failed_node="n3"))
    watch.sweep(301)
    watch.settle()

    assert watch.verdict("12").initiator.host == "n3"


def test_of_several_nodes_none_is_guessed(watch: Watch) -> None:
    watch.end(facts("12", nodes="n[1-4]"))
    watch.sweep(301)
    watch.settle()

    assert watch.verdict("12").cause.id == "slurm.node-fail"
    assert watch.verdict("12").initiator.host is None


def test_a_failure_without_evidence_is_unknown_and_says_what_is_missing(watch: Watch) -> None:
    watch.end(facts("12", "FAILED", nodes="n[1-2]"))
    watch.sweep(301)
    watch.settle()

    found = watch.verdict("12")
    assert (found.cause.id, found.cause.confidence) == ("unknown", v.UNKNOWN)
    assert {"everything from n1", "everything from n2"} <= {gap.what for gap in found.missing}
    assert watch.slack.causes == ["unknown"]


def test_many_silent_nodes_are_told_in_one_line(watch: Watch) -> None:
    watch.end(facts("12", "FAILED", nodes="n[1-4096]"))
    watch.sweep(301)
    watch.settle()

    gaps = [gap.what for gap in watch.verdict("12").missing]
    assert "everything from n[1-4096] (4096 nodes)" in gaps
    assert len(gaps) < 5


def test_each_job_is_found_once_however_often_windows_overlap(watch: Watch) -> None:
    watch.end(facts("12"), facts("13", "TIMEOUT", 5))

    counts = [watch.sweep(after_s) for after_s in (301, 306, 600, 4000)]

    assert counts == [1, 1, 0, 0]


def test_a_job_whose_record_came_is_left_alone(watch: Watch) -> None:
    evidence.keep(watch.database, [incoming("n1")], watch.at)
    watch.end(facts("12"))

    assert watch.sweep(301) == 0


def test_a_record_that_comes_later_joins_the_job_that_was_found(watch: Watch) -> None:
    watch.end(facts("12"))
    watch.sweep(301)
    watch.settle()
    evidence.keep(watch.database, [incoming("n1")], watch.at)
    watch.settle()

    assert len(listing.current_verdicts(watch.database, "12", CLUSTER)) == 1


def test_only_the_end_that_nobody_told_of_is_found_of_a_requeued_job(watch: Watch) -> None:
    first, second = facts("12", ended_s=0), facts("12", "FAILED", ended_s=200)
    evidence.keep(watch.database, [incoming("n1")], watch.at)
    watch.end(first, second)

    assert watch.sweep(600) == 1
    watch.settle()
    stored = listing.current_verdicts(watch.database, "12", CLUSTER)
    assert sorted(one.verdict.job.state or "" for one in stored) == ["FAILED", "NODE_FAIL"]


def test_a_record_of_the_second_end_does_not_hide_the_first(watch: Watch) -> None:
    second = incoming("n1")
    moved = ENDED_AT + dt.timedelta(seconds=200)
    evidence.keep(watch.database, [msgspec.structs.replace(second, ended_at=moved)], watch.at)
    watch.end(facts("12", ended_s=0), facts("12", "FAILED", ended_s=200))
    watch.at = moved + dt.timedelta(seconds=60)
    watch.settle()

    assert watch.sweep(600) == 1


@pytest.mark.parametrize("state", ["CANCELLED", "PREEMPTED"])
def test_what_is_only_reported_with_evidence_of_a_failure_is_not_looked_for(
    watch: Watch, state: str
) -> None:
    watch.end(facts("12", state, by_uid=1001))

    assert watch.sweep(301) == 0


def test_a_job_that_never_had_nodes_is_not_missed() -> None:
    assert not is_missed(facts("12", "DEADLINE", nodes=None), Ends())
    assert not is_missed(facts("12", "CANCELLED", by_uid=0, started_at=None), Ends())
    assert is_missed(facts("12", "BOOT_FAIL"), Ends())


def test_what_ended_before_the_watch_began_is_not_reported(watch: Watch) -> None:
    watch.end(facts("12", ended_s=-3700))

    assert watch.sweep(301) == 0


def test_nothing_is_lost_while_slurmdbd_is_away_for_hours(watch: Watch) -> None:
    watch.end(facts("12"))
    watch.slurm.down = True
    assert [watch.sweep(after_s) for after_s in (301, 601, 30_000)] == [0, 0, 0]

    watch.slurm.down = False

    assert watch.sweep(30_300) == 1


def test_an_answer_that_was_given_up_comes_with_the_sweep(watch: Watch) -> None:
    evidence.keep(watch.database, [incoming("n1"), incoming("n2")], watch.at)
    watch.slurm.down = True
    watch.at = ENDED_AT + dt.timedelta(seconds=60)
    watch.settle()
    for _ in range(10):
        watch.at += dt.timedelta(seconds=600)
        watch.settle()
    assert watch.verdict("12").job.state is None
    watch.slurm.down = False
    watch.end(facts("12", "TIMEOUT"))

    assert watch.sweep(9000) == 0
    watch.settle()
    assert watch.verdict("12").job.state == "TIMEOUT"
    assert watch.verdict("12").cause.id == "slurm.time-limit"
    assert watch.sweep(9300) == 0


def test_an_end_that_reaches_the_accounting_late_is_found(watch: Watch) -> None:
    assert watch.sweep(2000) == 0
    watch.end(facts("12"))

    assert watch.sweep(2300) == 1


def test_an_end_that_reaches_the_accounting_hours_late_is_found_within_an_hour(
    watch: Watch,
) -> None:
    assert watch.sweep(20_000) == 0
    watch.end(facts("12"))

    assert watch.sweep(20_300) == 0
    assert watch.sweep(23_700) == 1


def test_jobs_that_failed_while_the_daemon_was_down_are_found_in_windows(watch: Watch) -> None:
    watch.end(facts("12"), facts("13", ended_s=7300))
    watch.begin()
    watch.slurm.windows.clear()

    assert watch.sweep(36_000) == 2
    assert all(until - since <= dt.timedelta(hours=1) for since, until in watch.slurm.windows)
    joined = [until for _, until in watch.slurm.windows[:-1]]
    assert joined == [since for since, _ in watch.slurm.windows[1:]]


def test_a_question_that_fails_half_way_goes_on_from_there(watch: Watch) -> None:
    watch.end(facts("12"))
    watch.sweep(301)
    before = sweeps.position(watch.database, NAME)
    watch.slurm.down = True
    watch.sweep(9000)

    assert sweeps.position(watch.database, NAME) == before


def test_two_daemons_that_look_at_once_find_each_job_once(watch: Watch) -> None:
    watch.end(*(facts(str(job)) for job in range(1000, 1450)))
    at = ENDED_AT + dt.timedelta(seconds=301)
    sweepers = [Sweeper(watch.database, watch.slurm, Ends(), AFTER_S) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        counts = list(threads.map(lambda sweeper: sweeper.once(at), sweepers))

    assert sum(counts) == 450


def test_tasks_of_an_array_are_jobs_of_their_own(watch: Watch) -> None:
    watch.end(facts("7_0", raw_id="8"), facts("7_1", raw_id="7"))

    assert watch.sweep(301) == 2
    watch.settle()
    assert watch.verdict("8").job.id == "7"
    assert watch.verdict("8").job.array_task == "0"


def test_components_of_a_heterogeneous_job_are_one_job(watch: Watch) -> None:
    watch.end(facts("20+0", "FAILED", raw_id="20"), facts("20+1", "FAILED", raw_id="21"))

    assert watch.sweep(301) == 1
    watch.settle()
    assert watch.verdict("20").cause.id == "unknown"


def test_the_clusters_are_told_apart(watch: Watch) -> None:
    evidence.keep(watch.database, [incoming("n1")], watch.at)
    watch.end(facts("12", cluster="other"))

    assert watch.sweep(301) == 1
