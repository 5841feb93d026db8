"""The store, on a real SQLite file and a real PostgreSQL."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.model.board import FailureFilter, Reader
from firstfault.model.slurm import JobFacts
from firstfault.store import deliveries, evidence, failure_list, listing, work
from firstfault.store.database import Database, StoreError, connect, open_store
from firstfault.store.schema import jobs
from tests.intake.records import ENDED_AT
from tests.store.incoming import incoming

NOW = ENDED_AT + dt.timedelta(seconds=2)
ALL = Reader(administrator=True)


def later(seconds: float) -> dt.datetime:
    return NOW + dt.timedelta(seconds=seconds)


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def verdict(cause: str = "process.segfault", rank: int | None = 3) -> v.Verdict:
    return v.Verdict(
        job=v.Job(id="12"),
        cause=v.Cause(cause, "Rank 3 crashed", "user", v.CONFIRMED),
        initiator=v.Initiator(rank=rank, host="n1"),
    )


def outcome(given: v.Verdict | None, **more: object) -> work.Outcome:
    fields: dict[str, object] = {
        "state": j.JUDGED,
        "settled_at": NOW,
        "tried_at": NOW,
        "judged_evidence": 1,
        "judged_facts": 0,
        "verdict": given,
        "channels": ("slack",),
        "post": True,
    }
    return work.Outcome(**(fields | more))  # type: ignore[arg-type]


def judged(database: Database, given: v.Verdict, at: dt.datetime = NOW) -> j.JobStatus:
    claim = work.claim_jobs(database, at, 60, 10)
    (job,) = claim.jobs

    assert work.finish(database, claim, job, outcome(given), at)
    return job


def all_jobs(database: Database) -> list[j.JobStatus]:
    with database.reading() as connection:
        return [work.status(row) for row in connection.execute(sa.select(jobs).order_by("key"))]


def test_a_store_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Check that the folder exists"):
        open_store(f"sqlite:///{tmp_path}/absent/ff.db")
    with pytest.raises(StoreError, match=r"store\.url"):
        open_store("no url")


def test_the_same_record_twice_is_one(database: Database) -> None:
    assert len(evidence.keep(database, [incoming("n1"), incoming("n1")], NOW)) == 1
    assert evidence.keep(database, [incoming("n1")], NOW) == frozenset()
    (job,) = all_jobs(database)
    assert (job.nodes_reported, job.nodes_expected, job.evidence_revision) == (1, 2, 1)


def test_records_of_one_end_are_one_job(database: Database) -> None:
    second = ENDED_AT + dt.timedelta(seconds=50)

    evidence.keep(database, [incoming("n1"), incoming("n2", ended_at=second)], NOW)

    (job,) = all_jobs(database)
    assert job.nodes_reported == 2
    assert (job.first_ended_at, job.last_ended_at) == (ENDED_AT, second)
    assert len(evidence.packed(database, job.key)) == 2


def test_a_requeued_jobs_ends_are_two_incarnations(database: Database) -> None:
    again = ENDED_AT + dt.timedelta(seconds=90)

    evidence.keep(database, [incoming("n1"), incoming("n1", ended_at=again)], NOW)

    assert [job.incarnation for job in all_jobs(database)] == [1, 2]


def test_the_run_tells_incarnations_apart_whatever_the_time(database: Database) -> None:
    evidence.keep(
        database,
        [incoming("n1", run="a"), incoming("n2", run="b"), incoming("n1", run="b")],
        NOW,
    )

    assert [job.nodes_reported for job in all_jobs(database)] == [1, 1]


def test_two_clusters_and_none_are_three_jobs(database: Database) -> None:
    evidence.keep(database, [incoming(cluster=name) for name in ("a", "b", None)], NOW)

    assert [job.cluster for job in all_jobs(database)] == ["a", "b", None]


def test_a_batch_is_stored_whole_or_not_at_all(database: Database) -> None:
    broken = msgspec.structs.replace(incoming("n2"), node=None)  # type: ignore[arg-type]

    with pytest.raises(sa.exc.IntegrityError):
        evidence.keep(database, [incoming("n1"), broken], NOW)

    assert all_jobs(database) == []


def test_a_claimed_job_is_nobody_elses_until_the_lease_ends(database: Database) -> None:
    evidence.keep(database, [incoming()], NOW)

    assert len(work.claim_jobs(database, NOW, 60, 10).jobs) == 1
    assert work.claim_jobs(database, later(59), 60, 10).jobs == ()
    assert len(work.claim_jobs(database, later(61), 60, 10).jobs) == 1


def test_who_lost_the_lease_stores_nothing(database: Database) -> None:
    evidence.keep(database, [incoming()], NOW)
    slow = work.claim_jobs(database, NOW, 60, 10)
    work.claim_jobs(database, later(61), 60, 10)

    assert not work.finish(database, slow, slow.jobs[0], outcome(verdict()), later(62))
    assert all_jobs(database)[0].verdict_revision == 0
    assert deliveries.claim(database, "slack", later(62), 60, 10) == []


def test_evidence_that_came_while_the_job_was_judged_is_looked_at(database: Database) -> None:
    evidence.keep(database, [incoming("n1")], NOW)
    claim = work.claim_jobs(database, NOW, 60, 10)
    evidence.keep(database, [incoming("n2")], NOW)
    work.finish(database, claim, claim.jobs[0], outcome(verdict()), later(1))

    (job,) = work.claim_jobs(database, later(1), 60, 10).jobs

    assert job.evidence_revision == 2
    assert job.judged_evidence == 1


def test_a_verdict_is_stored_with_its_delivery(database: Database) -> None:
    evidence.keep(database, [incoming()], NOW)
    judged(database, verdict())

    (delivery,) = deliveries.claim(database, "slack", NOW, 60, 10)

    assert delivery.channel == "slack"
    assert delivery.attempts == 1
    assert delivery.current.verdict == verdict()
    assert delivery.previous is None
    (stored,) = listing.current_verdicts(database, "12", "testcluster")
    assert stored.verdict == verdict()


def test_a_sent_delivery_is_not_sent_again(database: Database) -> None:
    evidence.keep(database, [incoming()], NOW)
    judged(database, verdict())
    (delivery,) = deliveries.claim(database, "slack", NOW, 60, 10)

    deliveries.sent(database, delivery, NOW)

    assert deliveries.claim(database, "slack", later(9999), 60, 10) == []
    assert all_jobs(database)[0].state == j.DELIVERED
    assert work.next_due_at(database) is None


def test_a_delivery_whose_worker_died_comes_again(database: Database) -> None:
    evidence.keep(database, [incoming()], NOW)
    judged(database, verdict())
    (first,) = deliveries.claim(database, "slack", NOW, 60, 10)

    (again,) = deliveries.claim(database, "slack", later(61), 60, 10)

    assert again.delivery_id == first.delivery_id
    assert again.attempts == 2


def test_a_report_that_is_renewed_while_it_is_written_is_written_again(
    database: Database,
) -> None:
    evidence.keep(database, [incoming("n1")], NOW)
    judged(database, verdict())
    (old,) = deliveries.claim(database, "slack", NOW, 60, 10)
    evidence.keep(database, [incoming("n2")], NOW)
    claim = work.claim_jobs(database, NOW, 60, 10)
    renewed = outcome(None, refreshed=verdict(), redo=("slack",), channels=(), post=False)
    work.finish(database, claim, claim.jobs[0], renewed, NOW)

    deliveries.sent(database, old, NOW)

    assert len(deliveries.claim(database, "slack", NOW, 60, 10)) == 1


def test_looking_does_not_make_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not there"):
        connect(f"sqlite:///{tmp_path}/absent.db")

    assert list(tmp_path.iterdir()) == []


def test_a_given_up_delivery_is_kept_with_its_error_and_holds_nothing_up(
    database: Database,
) -> None:
    evidence.keep(database, [incoming()], NOW)
    judged(database, verdict())
    (delivery,) = deliveries.claim(database, "slack", NOW, 60, 10)

    deliveries.failed(database, delivery, "Slack answered 404", None)

    assert work.next_due_at(database) is None
    assert deliveries.claim(database, "slack", later(9999), 60, 10) == []


def test_what_waits_for_a_channel_that_is_gone_is_given_up(database: Database) -> None:
    evidence.keep(database, [incoming()], NOW)
    judged(database, verdict())

    assert deliveries.drop_others(database, ["slack", "report"]) == 0
    assert deliveries.drop_others(database, ["report"]) == 1
    assert work.next_due_at(database) is None


def test_a_revision_knows_what_was_sent_before_and_supersedes_what_was_not(
    database: Database,
) -> None:
    evidence.keep(database, [incoming("n1")], NOW)
    judged(database, verdict("process.killed"))
    (first,) = deliveries.claim(database, "slack", NOW, 60, 10)
    deliveries.sent(database, first, NOW)
    for number, cause in enumerate(("process.abort", "process.segfault"), 1):
        node = f"n{number + 1}"
        evidence.keep(database, [incoming(node, nodes=("n1", "n2", "n3"))], later(number))
        judged(database, verdict(cause), later(number))

    (second,) = deliveries.claim(database, "slack", later(5), 60, 10)

    assert second.current.revision == 3
    assert second.current.verdict.cause.id == "process.segfault"
    assert second.previous is not None
    assert second.previous.cause.id == "process.killed"
    deliveries.sent(database, second, later(6))
    assert all_jobs(database)[0].state == j.REVISED


def test_a_question_is_asked_again_when_nobody_answers(database: Database) -> None:
    evidence.keep(database, [incoming()], NOW)
    claim = work.claim_jobs(database, NOW, 60, 10)
    work.finish(database, claim, claim.jobs[0], outcome(verdict(), ask_at=later(1)), NOW)

    assert work.claim_questions(database, NOW, 30, 10) == []
    assert len(work.claim_questions(database, later(1), 30, 10)) == 1
    assert work.claim_questions(database, later(2), 30, 10) == []
    assert len(work.claim_questions(database, later(32), 30, 10)) == 1


def test_an_answer_makes_the_job_due_and_the_same_answer_does_not(database: Database) -> None:
    evidence.keep(database, [incoming()], NOW)
    job = judged(database, verdict())
    facts = JobFacts(id="12", state="FAILED", ended_at=ENDED_AT, name="train")

    work.store_answers(database, [work.Answer(job.key, facts, False, later(5))], later(1))
    claim = work.claim_jobs(database, later(1), 60, 10)
    assert claim.jobs[0].facts == facts
    work.finish(database, claim, claim.jobs[0], outcome(None, post=False, channels=()), later(1))
    work.store_answers(database, [work.Answer(job.key, facts, False, later(5))], later(2))

    assert work.claim_jobs(database, later(2), 60, 10).jobs == ()
    assert all_jobs(database)[0].facts_revision == 1


def test_the_list_shows_failures_newest_first_and_no_success(database: Database) -> None:
    for number, cause in enumerate(("process.abort", "none", "process.killed")):
        ended_at = ENDED_AT + dt.timedelta(minutes=number)
        evidence.keep(database, [incoming(job=f"{number}", ended_at=ended_at)], NOW)
        judged(database, verdict(cause))

    assert [
        row.job for row in failure_list.page(database, ALL, FailureFilter(), None, 100).failures
    ] == ["2", "0"]


def test_writers_in_several_threads_wait_for_one_another(database: Database) -> None:
    def write(first: int) -> None:
        for number in range(first, first + 25):
            evidence.keep(database, [incoming(job=f"{number}")], NOW)

    threads = [threading.Thread(target=write, args=(start,)) for start in (0, 100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(all_jobs(database)) == 100


def test_postgresql_compiles_no_plan_of_a_question(postgresql_url: str) -> None:
    opened = open_store(postgresql_url)

    for kind in (opened.reading, opened.writing, opened.reading):
        with kind() as connection:
            assert connection.execute(sa.text("SHOW jit")).scalar() == "off"
    opened.close()


def test_postgresql_vacuums_the_lists_of_failures_often_but_as_somebody_has_set_it(
    postgresql_url: str,
) -> None:
    options = sa.text("SELECT reloptions FROM pg_class WHERE relname = 'failures'")
    opened = open_store(postgresql_url)
    with opened.writing() as connection:
        first = connection.execute(options).scalar()
        connection.execute(sa.text("ALTER TABLE failures SET (autovacuum_vacuum_threshold = 9)"))
        connection.execute(
            sa.text("ALTER TABLE failures RESET (autovacuum_vacuum_insert_scale_factor)")
        )
        own = connection.execute(options).scalar()
    opened.close()
    opened = open_store(postgresql_url)
    with opened.reading() as connection:
        after = connection.execute(options).scalar()
    opened.close()

    assert {
        "autovacuum_vacuum_scale_factor=0.02",
        "autovacuum_vacuum_insert_scale_factor=0.02",
    } == {*(first or ())}
    assert after == own
