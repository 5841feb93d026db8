"""A failure as it is listed: what Slurm tells of it, and pages that go on while others arrive."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import msgspec
import pytest

from firstfault.app.board import StoredBoard
from firstfault.model import board as b
from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.model.slurm import JobFacts
from firstfault.store import evidence, work
from firstfault.store.database import Database, open_store
from tests.intake.records import ENDED_AT
from tests.store.fill import failed, judge
from tests.store.incoming import incoming
from tests.web.boards import ADMINISTRATOR

HOUR = dt.timedelta(hours=1)


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def end(number: int, at: dt.datetime, **more: object) -> tuple[JobFacts, int, v.Verdict]:
    facts = JobFacts(id=str(number), cluster="c", ended_at=at, state="FAILED", nodes="n[1-2]")
    cause = v.Cause("gpu.ecc", f"Failure {number}", "system", v.LIKELY)
    return msgspec.structs.replace(facts, **more), 2, v.Verdict(v.Job(), cause)


def test_a_page_goes_on_where_it_ended_though_others_have_come(database: Database) -> None:
    board = StoredBoard(database)
    failed(database, [end(number, ENDED_AT + number * HOUR) for number in range(10)])
    every = b.FailureFilter()
    first = board.failures(ADMINISTRATOR, every, limit=4)

    failed(database, [end(100, ENDED_AT + 99 * HOUR), end(101, ENDED_AT - 99 * HOUR)])
    second = board.failures(ADMINISTRATOR, every, first.next, limit=4)
    back = board.failures(ADMINISTRATOR, every, second.previous, limit=4)
    before = board.failures(ADMINISTRATOR, every, back.previous, limit=4)

    assert [one.job for one in first.failures] == ["9", "8", "7", "6"]
    assert [one.job for one in second.failures] == ["5", "4", "3", "2"]
    assert [one.job for one in back.failures] == ["9", "8", "7", "6"]
    assert [one.job for one in before.failures] == ["100"]
    assert before.previous is None


def test_rows_that_are_alike_in_what_they_are_ordered_by_come_once(database: Database) -> None:
    failed(database, [end(number, ENDED_AT) for number in range(7)])
    board = StoredBoard(database)

    for sort in ("-ended", "ended", "-lost", "-nodes"):
        which, seen = msgspec.convert({"sort": sort}, b.FailureFilter), []
        page = board.failures(ADMINISTRATOR, which, limit=2)
        seen += [one.job for one in page.failures]
        while page.next is not None:
            page = board.failures(ADMINISTRATOR, which, page.next, limit=2)
            seen += [one.job for one in page.failures]

        assert sorted(seen) == [str(number) for number in range(7)]


def test_what_was_lost_is_known_once_slurm_has_told(database: Database) -> None:
    board, now = StoredBoard(database), ENDED_AT + HOUR
    evidence.keep(database, [incoming("n1", "12"), incoming("n2", "12")], ENDED_AT)
    claim = work.claim_jobs(database, now, 60, 10)
    (job,) = claim.jobs
    verdict = v.Verdict(v.Job(user="alice"), v.Cause("gpu.ecc", "x", "system", v.LIKELY))
    assert judge(database, claim, job, verdict, now)
    (before,) = board.failures(ADMINISTRATOR, b.FailureFilter()).failures

    facts = JobFacts(
        id="12",
        user="alice",
        account="vision",
        partition="gpu",
        started_at=ENDED_AT - 2 * HOUR,
        ended_at=ENDED_AT,
        gpus=16,
    )
    work.store_answers(database, [work.Answer(job.key, facts, True, None)], now)
    claim = work.claim_jobs(database, now, 60, 10)
    (job,) = claim.jobs
    outcome = work.Outcome(j.JUDGED, now, now, job.evidence_revision, job.facts_revision)
    assert work.finish(database, claim, job, outcome, now)
    (after,) = board.failures(ADMINISTRATOR, b.FailureFilter(account="vision")).failures

    assert (before.account, before.node_s, before.gpu_s) == (None, None, None)
    assert (after.user, after.account, after.partition) == ("alice", "vision", "gpu")
    assert (after.node_s, after.gpu_s) == (2 * 2 * 3600, 2 * 3600 * 16)
    assert board.failures(b.Reader(user="alice"), b.FailureFilter()).failures == (after,)


@pytest.mark.parametrize(
    ("started", "node_s"),
    [(-HOUR, 0), (None, None), (dt.timedelta(days=10**5), 2 * 3660 * 86400)],
)
def test_clocks_that_lie_lose_nothing_and_no_centuries(
    database: Database, started: dt.timedelta | None, node_s: float | None
) -> None:
    at = None if started is None else ENDED_AT - started
    failed(database, [end(1, ENDED_AT, started_at=at)])

    (shown,) = StoredBoard(database).failures(ADMINISTRATOR, b.FailureFilter()).failures

    assert shown.node_s == node_s


def test_whose_a_job_is_slurm_says_before_what_the_evidence_tells(database: Database) -> None:
    facts, nodes, verdict = end(1, ENDED_AT, user="alice")
    claimed = msgspec.structs.replace(verdict, job=v.Job(user="mallory"))
    failed(database, [(facts, nodes, claimed)])
    board = StoredBoard(database)

    assert board.failures(b.Reader(user="mallory"), b.FailureFilter()).failures == ()
    assert len(board.failures(b.Reader(user="alice"), b.FailureFilter()).failures) == 1


def test_a_node_that_reports_is_silent_no_more(database: Database) -> None:
    board = StoredBoard(database, clock=lambda: ENDED_AT + 3 * HOUR)
    failed(database, [end(1, ENDED_AT)])
    at = ENDED_AT + 2 * HOUR
    evidence.keep(database, [incoming("n1", "77", cluster="c", ended_at=at)], at)

    shown = board.health(ADMINISTRATOR)

    assert shown is not None
    assert [(one.node, one.last_at, one.ended) for one in shown.silent] == [("n2", None, 1)]
    assert shown.last_record_at == at
