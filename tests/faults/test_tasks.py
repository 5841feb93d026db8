"""Ranks that srun starts itself: which task's end is the first fault."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made

LOST = made.raised(made.PEER)


def judged(*parts: list[str], state: str | None = None, code: str = "1:0") -> v.Verdict:
    accounts = [made.accounting(state, code)] if state else []
    return made.judged(made.console(*parts), *accounts)


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("Segmentation fault (core dumped)", "process.segfault"),
        ("Bus error", "process.bus-error"),
        ("Exited with exit code 3", "process.exit"),
    ],
)
def test_the_task_whose_end_no_other_explains_is_the_first(how: str, cause: str) -> None:
    verdict = judged(
        LOST,
        made.task_ended("c2", 2, how),
        made.task_ended("c2", 3),
        ["srun: error: c1: tasks 0-1: Exited with exit code 1"],
        state="FAILED",
    )

    assert verdict.cause.id == cause
    assert (verdict.initiator.rank, verdict.initiator.host) == (2, "c2")
    assert verdict.initiator.confidence != v.CONFIRMED


def test_a_crash_that_only_srun_tells_of_is_likely() -> None:
    verdict = judged(
        made.task_ended("c2", 2, "Segmentation fault"), made.task_ended("c1", 0, "Terminated")
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("process.segfault", v.LIKELY)


def test_two_crashes_are_not_told_apart() -> None:
    verdict = judged(
        LOST,
        made.task_ended("c2", 2, "Segmentation fault"),
        made.task_ended("c1", 0, "Aborted"),
    )

    assert verdict.cause.confidence not in (v.CONFIRMED, v.LIKELY) or verdict.initiator.rank is None


def test_an_exception_of_a_ranks_own_comes_before_an_exit_code() -> None:
    verdict = judged(
        made.raised("ZeroDivisionError: division by zero"),
        made.task_ended("c2", 2, "Exited with exit code 3"),
        made.task_ended("c1", 0),
        state="FAILED",
    )

    assert verdict.cause.id == "python.exception"


def test_where_ranks_have_agents_a_tasks_end_is_the_launchers() -> None:
    verdict = judged(
        made.of_task(0, made.noticed(0, 700, 1), made.table((0, 0, 1, 700))),
        made.task_ended("c1", 0, "Segmentation fault"),
        made.task_ended("c2", 1),
    )

    assert verdict.cause.id != "process.segfault"


@pytest.mark.parametrize("how", ["Exited with exit code 1", "Exited with exit code 137", "Killed"])
def test_an_end_that_may_be_a_consequence_is_none(how: str) -> None:
    verdict = judged(LOST, made.task_ended("c2", 2, how), made.task_ended("c1", 0))

    assert verdict.cause.confidence != v.CONFIRMED
