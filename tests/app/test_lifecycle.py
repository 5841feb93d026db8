"""When a job is judged and what is posted: decisions on values."""

from __future__ import annotations

import datetime as dt

import pytest

from firstfault.app.lifecycle import (
    Look,
    Timing,
    changes,
    counts,
    is_changed,
    is_complete,
    look,
    may_post,
    settle_s,
    settles_at,
)
from firstfault.model import verdict as v
from firstfault.model.jobs import JobStatus
from firstfault.model.slurm import JobFacts

ENDED_AT = dt.datetime(2026, 11, 30, 15, 56, 29, tzinfo=dt.UTC)
TIMING = Timing(settle_s=45, early_s=5)


def later(seconds: float) -> dt.datetime:
    return ENDED_AT + dt.timedelta(seconds=seconds)


def job(**fields: object) -> JobStatus:
    known: dict[str, object] = {
        "key": 1,
        "cluster": "c1",
        "job": "12",
        "incarnation": 1,
        "state": "seen",
        "nodes_expected": 4,
        "nodes_reported": 1,
        "first_ended_at": ENDED_AT,
        "last_ended_at": ENDED_AT,
        "first_seen_at": later(1),
        "settled_at": None,
        "evidence_revision": 1,
        "facts_revision": 0,
        "judged_evidence": 0,
        "judged_facts": 0,
        "tried_at": None,
        "facts": None,
        "facts_asked": 0,
        "facts_closed": False,
        "suspicious": True,
        "verdict_revision": 0,
        "posted": 0,
    }
    return JobStatus(**(known | fields))  # type: ignore[arg-type]


def verdict(cause: str, confidence: str = v.CONFIRMED, rank: int | None = 3) -> v.Verdict:
    return v.Verdict(
        job=v.Job(),
        cause=v.Cause(cause, "", "user", confidence),
        initiator=v.Initiator(rank=rank, host="n1"),
    )


def test_a_complete_job_is_judged_at_once() -> None:
    assert look(job(nodes_reported=4), later(1), TIMING) == Look(True, True, None)


def test_an_incomplete_job_waits_a_moment_then_tries_then_settles() -> None:
    assert look(job(), later(2), TIMING) == Look(False, False, later(6))
    assert look(job(), later(6), TIMING) == Look(True, False, later(45))
    tried = job(judged_evidence=1, tried_at=later(6))
    assert look(tried, later(20), TIMING) == Look(False, False, later(45))
    assert look(tried, later(45), TIMING) == Look(True, True, None)


def test_a_job_without_a_node_list_settles_by_time() -> None:
    alone = job(nodes_expected=0)

    assert not look(alone, later(2), TIMING).judge
    assert look(alone, later(45), TIMING) == Look(True, True, None)


def test_a_node_whose_clock_is_ahead_does_not_delay_the_verdict() -> None:
    ahead = job(first_ended_at=later(86400), last_ended_at=later(86400))

    assert settles_at(ahead, TIMING) == later(46)


def test_records_that_waited_while_the_daemon_was_down_get_a_moment_together() -> None:
    assert settles_at(job(first_seen_at=later(3600)), TIMING) == later(3605)


def test_a_clock_that_was_set_back_makes_no_job_wait_for_it_to_come_back() -> None:
    seen = job(first_seen_at=later(3600), tried_at=later(3600))

    assert look(seen, later(0), TIMING).look_at == later(5)


def test_a_judged_job_without_news_is_left_alone() -> None:
    done = job(judged_evidence=1, verdict_revision=1, settled_at=later(45), posted=1)

    assert look(done, later(100), TIMING) == Look(False, True, None)


def test_late_evidence_and_slurms_answer_are_judged() -> None:
    done = {"judged_evidence": 1, "verdict_revision": 1, "settled_at": later(45), "posted": 1}

    assert look(job(**done, facts_revision=1), later(100), TIMING).judge
    late = {"evidence_revision": 2, "tried_at": later(45)}
    assert look(job(**done, **late), later(100), TIMING).judge
    assert look(job(**done, **late), later(46), TIMING) == Look(False, True, later(50))


def test_only_a_confirmed_failure_counts_while_nodes_are_missing() -> None:
    assert counts(verdict("process.segfault"), settled=False)
    assert not counts(verdict("process.segfault", v.LIKELY), settled=False)
    assert not counts(verdict("none"), settled=False)
    assert counts(verdict("unknown", v.UNKNOWN), settled=True)


@pytest.mark.parametrize(
    ("cause", "fields", "posted"),
    [
        ("process.segfault", {}, True),
        ("none", {}, False),
        ("none", {"facts": JobFacts(id="12", state="FAILED")}, False),
        ("unknown", {}, False),
        ("unknown", {"facts": JobFacts(id="12", state="FAILED")}, True),
        ("unknown", {"facts": JobFacts(id="12", state="COMPLETED")}, False),
        ("unknown", {"facts_closed": True}, True),
        ("unknown", {"facts_closed": True, "suspicious": False}, False),
        ("none", {"posted": 1}, True),
    ],
)
def test_what_is_posted(cause: str, fields: dict[str, object], posted: bool) -> None:
    assert may_post(verdict(cause), job(**fields)) is posted


def test_a_reader_is_told_again_only_when_the_answer_changes() -> None:
    before = verdict("process.killed", v.LIKELY)

    assert is_changed(None, before)
    assert not is_changed(before, verdict("process.killed", v.LIKELY))
    assert is_changed(before, verdict("process.killed"))
    assert is_changed(before, verdict("process.killed", v.LIKELY, rank=None))
    assert changes(before, verdict("process.abort", v.LIKELY, rank=None)) == [
        "cause process.killed -> process.abort",
        "first rank 3 -> not known",
    ]


@pytest.mark.parametrize(
    ("kill_wait_s", "nodes", "settle"),
    [(30, 4, 40), (30, 64, 40), (30, 10000, 60), (5, 4, 20), (0, 1, 20), (120, 4, 130)],
)
def test_left_to_slurms_settings_nodes_are_waited_for_as_long_as_they_may_take(
    kill_wait_s: float, nodes: int, settle: float
) -> None:
    timing = Timing(kill_wait_s=kill_wait_s)

    assert settle_s(job(nodes_expected=nodes), timing) == settle


def test_a_job_whose_evidence_was_removed_is_not_judged_again() -> None:
    emptied = {"judged_evidence": 1, "verdict_revision": 1, "settled_at": later(45)}

    assert look(
        job(**emptied, evidence_revision=2, emptied_at=later(9999)), later(9999), TIMING
    ) == (Look(False, True, None))


def test_nobody_knows_that_a_heterogeneous_job_is_complete() -> None:
    assert is_complete(job(nodes_reported=4))
    assert not is_complete(job(nodes_reported=4, components=1))
