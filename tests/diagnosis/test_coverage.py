"""Every cause has a case that it wins, a near miss, and one of wrong clocks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firstfault.signatures import TARGETS, Signature, known_causes, meaning
from tests.diagnosis.case_files import NAMES, expected, files
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


SEVERAL = [each for each in NAMES if each.startswith("several-")]


def test_many_cases_hold_signs_of_several_causes() -> None:
    assert len(SEVERAL) >= 40


@pytest.mark.parametrize("name", SEVERAL)
def test_such_a_case_holds_signs_of_three_causes_or_more(name: str) -> None:
    texts = [line for path in files(name) for line in Path(path).read_text().splitlines()]
    found = {known.means for text in texts for known in meanings(text)}

    assert len(found - {"launcher"}) >= 3, found


# What a line may mean, by its words alone: without a prefix of a rank, a label or a clock.
def meanings(text: str) -> list[Signature]:
    words = re.sub(r"^(?:\d+: )?(?:\[[^\]]{3,30}\]:? )?", "", text)
    found = [meaning(target, words) for target in TARGETS]
    return [each for each in found if each is not None]


def test_the_readme_tells_how_each_cause_is_tried() -> None:
    assert README.read_text() == written(), "run .venv/bin/python -m tests.diagnosis.coverage"
