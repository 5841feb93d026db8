"""Every cause of a job without a GPU has a case that it wins, a near miss, and one of wrong clocks."""

from __future__ import annotations

import pytest

from firstfault.signatures import known_causes
from tests.diagnosis.case_files import NAMES, expected
from tests.diagnosis.coverage import README, coverage, tried, written

COVERAGE = coverage()


@pytest.mark.parametrize("cause", tried())
def test_a_cause_is_won_nearly_met_and_tried_with_skewed_clocks(cause: str) -> None:
    assert COVERAGE[cause].lacking == []


@pytest.mark.parametrize("name", [each for each in NAMES if "near_miss_of" in expected(each)])
def test_a_near_miss_is_of_causes_that_are_known_and_not_right(name: str) -> None:
    truth = expected(name)

    assert set(truth["near_miss_of"]) <= known_causes()
    assert not set(truth["near_miss_of"]) & set(truth["cause"])


def test_the_readme_tells_how_each_cause_is_tried() -> None:
    assert README.read_text() == written(), "run .venv/bin/python -m tests.diagnosis.coverage"
