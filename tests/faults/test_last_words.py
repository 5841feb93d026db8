"""What ranks said last, where nobody tells how they ended."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made

ERROR = made.raised("KeyError: 'shard'")


def said(*parts: list[str]) -> tuple[str, str]:
    cause = made.judged(made.console(*parts)).cause
    return cause.id, cause.confidence


@pytest.mark.parametrize("prefix", ["", "[default0]:", "[n7:0]", "0: "])
def test_an_exception_that_a_console_ends_in_ended_its_process(prefix: str) -> None:
    lines = [f"{prefix}{line}" for line in ["step 1 loss 2.3", *ERROR]]

    assert said(lines) == ("python.exception", v.CONFIRMED)


def test_several_ranks_that_raised_the_same_at_the_end_are_as_sure() -> None:
    ranks = [[f"[n7:{rank}]{line}" for line in ERROR] for rank in range(4)]

    assert said(*ranks) == ("python.exception", v.CONFIRMED)


def test_an_exception_after_which_other_ranks_go_on_makes_nothing_sure() -> None:
    raised = [f"[default0]:{line}" for line in ERROR]
    others = [f"[default1]:step {step} loss 2.3" for step in range(5)]

    assert said(raised, others)[1] != v.CONFIRMED


def test_dots_at_a_logs_end_are_no_words_of_the_jobs() -> None:
    assert said(ERROR, ["..."]) == ("python.exception", v.CONFIRMED)
    assert said(ERROR, ["[...]"]) == ("python.exception", v.CONFIRMED)
    assert said(ERROR, ["saving"])[1] == said(ERROR, ["saving", "..."])[1]
