"""What an answer of Slurm is worth."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from firstfault.model.slurm import JobFacts, StepFacts
from firstfault.slurm.facts import (
    ask_again_s,
    has_ended,
    incarnation,
    is_final,
    with_all_gpus,
)

END = dt.datetime(2026, 11, 30, 15, 56, 29, tzinfo=dt.UTC)


def job(state: str | None, ended_at: dt.datetime | None = END, **more: object) -> JobFacts:
    return JobFacts(id="12", state=state, ended_at=ended_at, **more)  # type: ignore[arg-type]


def later(seconds: float) -> dt.datetime:
    return END + dt.timedelta(seconds=seconds)


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "PENDING", "SUSPENDED", None])
def test_a_job_that_goes_on_has_not_failed_and_not_succeeded(state: str | None) -> None:
    assert not has_ended(job(state))
    assert incarnation([job(state)], END) is None


def test_a_failed_job_without_an_end_is_not_final() -> None:
    assert not has_ended(job("FAILED", None))


def test_a_running_step_keeps_the_answer_open() -> None:
    steps = (StepFacts(id="0", state="RUNNING"),)

    assert has_ended(job("FAILED", steps=steps))
    assert not is_final(job("FAILED", steps=steps))


def test_the_incarnation_is_the_one_whose_end_the_epilogs_followed() -> None:
    first, second = job("REQUEUED"), job("FAILED", later(400))

    assert incarnation([first, second], later(3)) == first
    assert incarnation([first, second], later(410)) == second
    assert incarnation([second, first], later(410)) == second


def test_an_end_long_before_or_after_is_another_incarnation() -> None:
    assert incarnation([job("FAILED")], later(-3600)) is None
    assert incarnation([job("FAILED")], later(3600)) is None


def test_the_epilog_of_a_lost_node_may_run_days_later() -> None:
    lost = job("NODE_FAIL")

    assert incarnation([lost], later(86400)) == lost
    assert incarnation([lost], later(-3600)) is None
    assert incarnation([lost, job("RUNNING", None)], later(86400)) is None


def test_another_clusters_job_of_the_same_number_is_not_meant() -> None:
    assert incarnation([job("FAILED", cluster="other")], END, "testcluster") is None


def test_questions_become_rarer() -> None:
    assert [ask_again_s(asked) for asked in (1, 2, 3, 4, 50)] == [5, 30, 120, 600, 600]


def component(offset: int, gpus: int | None, began_s: float = 0, **more: object) -> JobFacts:
    fields: dict[str, Any] = {"started_at": later(began_s), "gpus": gpus, **more}
    return JobFacts(id=f"12+{offset}", raw_id=str(12 + offset), **fields)


def test_the_leader_of_a_heterogeneous_job_has_the_gpus_of_all_components() -> None:
    answers = [component(0, None), component(1, 4), component(2, 2), job("FAILED", gpus=8)]

    assert [facts.gpus for facts in with_all_gpus(answers)] == [6, 4, 2, 8]


def test_each_incarnation_of_a_heterogeneous_job_counts_its_own_components() -> None:
    first = [component(0, 1), component(1, 4, 1)]
    second = [component(0, 1, 300), component(1, 2, 301), component(1, 9, started_at=None)]

    told = [facts.gpus for facts in with_all_gpus([*first, *second]) if facts.id == "12+0"]
    assert told == [5, 3]


def test_components_of_another_clusters_job_are_not_counted() -> None:
    answers = [component(0, 1, cluster="a"), component(1, 4, cluster="b")]

    assert with_all_gpus(answers)[0].gpus == 1


def test_where_no_component_is_told_to_have_gpus_the_leader_is_not_either() -> None:
    untold = [component(0, None), component(1, None)]

    assert with_all_gpus(untold) == untold
    assert with_all_gpus([component(0, 2, started_at=None), component(1, 4)])[0].gpus == 2
