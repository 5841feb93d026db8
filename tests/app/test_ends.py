"""Which ends of jobs are reported."""

from __future__ import annotations

import datetime as dt

import pytest

from firstfault.app.ends import is_reported, is_wanted
from firstfault.config import Ends
from firstfault.model import verdict as v
from firstfault.model.slurm import JobFacts

END = dt.datetime(2026, 11, 30, 15, 56, 29, tzinfo=dt.UTC)


def facts(state: str, by_uid: int | None = None) -> JobFacts:
    return JobFacts(id="12", state=state, uid=1001, by_uid=by_uid, ended_at=END)


def verdict(cause: str) -> v.Verdict:
    return v.Verdict(job=v.Job(), cause=v.Cause(cause, cause, "user", v.CONFIRMED))


@pytest.mark.parametrize(
    ("cause", "said", "reported"),
    [
        ("python.exception", facts("FAILED"), True),
        ("unknown", facts("FAILED"), True),
        ("slurm.time-limit", facts("TIMEOUT"), True),
        ("slurm.node-fail", facts("NODE_FAIL"), True),
        ("slurm.boot-fail", facts("BOOT_FAIL"), True),
        ("slurm.cancelled", facts("CANCELLED", by_uid=1001), False),
        ("slurm.cancelled", facts("CANCELLED"), False),
        ("slurm.cancelled", facts("CANCELLED", by_uid=0), True),
        ("unknown", facts("CANCELLED", by_uid=1001), False),
        ("process.interrupted", facts("CANCELLED", by_uid=1001), False),
        ("memory.cgroup-oom", facts("CANCELLED", by_uid=1001), True),
        ("slurm.preempted", facts("PREEMPTED"), False),
        ("collective.timeout", facts("PREEMPTED"), True),
        ("unknown", facts("REQUEUED"), False),
        ("slurm.node-fail", facts("REQUEUED"), True),
    ],
)
def test_by_default_failures_are_reported_and_what_people_did_themselves_is_not(
    cause: str, said: JobFacts, reported: bool
) -> None:
    assert is_reported(Ends(), verdict(cause), said, True) is reported


def test_a_named_failure_does_not_wait_for_slurm_and_a_cancellation_does() -> None:
    assert is_reported(Ends(), verdict("process.segfault"), None, False)
    assert not is_reported(Ends(), verdict("slurm.cancelled"), None, False)
    assert not is_reported(Ends(), verdict("slurm.cancelled"), None, True)


def test_where_some_ends_are_never_reported_nothing_is_before_slurm_has_answered() -> None:
    ends = Ends(preempted="never")

    assert not is_reported(ends, verdict("process.segfault"), None, False)
    assert is_reported(ends, verdict("process.segfault"), None, True)
    assert is_reported(ends, verdict("process.segfault"), facts("FAILED"), False)
    assert not is_reported(ends, verdict("process.segfault"), facts("PREEMPTED"), False)


def test_an_end_is_not_its_own_failure() -> None:
    ends = Ends(timeout="if-failed")

    assert not is_reported(ends, verdict("slurm.time-limit"), facts("TIMEOUT"), True)
    assert is_reported(ends, verdict("collective.timeout"), facts("TIMEOUT"), True)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (None, None),
        (JobFacts(id="12", state="COMPLETING"), None),
        (facts("COMPLETED"), False),
        (facts("TIMEOUT"), True),
        (facts("CANCELLED", by_uid=1001), True),
        (facts("PREEMPTED"), True),
    ],
)
def test_evidence_is_wanted_of_every_end_that_may_be_reported(
    said: JobFacts | None, wanted: bool | None
) -> None:
    assert is_wanted(Ends(), said) is wanted


def test_evidence_of_an_end_that_is_never_reported_is_not_wanted() -> None:
    assert is_wanted(Ends(timeout="never"), facts("TIMEOUT")) is False
