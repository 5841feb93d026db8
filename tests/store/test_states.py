"""A job's states: every transition that is allowed, and every other refused."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from firstfault.model import jobs as j

PAGE = Path(__file__).parents[2] / "docs" / "daemon.md"


@pytest.mark.parametrize(("before", "after"), list(product(j.TRANSITIONS, j.TRANSITIONS)))
def test_a_job_moves_only_as_drawn(before: str, after: str) -> None:
    if before == after or after in j.TRANSITIONS[before]:
        assert j.moved(before, after) == after
    else:
        with pytest.raises(j.StateError, match=f"{before} cannot become {after}"):
            j.moved(before, after)


def test_every_state_is_reached_and_none_is_a_dead_end() -> None:
    reached = {j.SEEN}
    for _ in j.TRANSITIONS:
        reached |= {after for before in reached for after in j.TRANSITIONS[before]}

    assert reached == set(j.TRANSITIONS)
    assert all(j.TRANSITIONS.values())
    assert set(j.TRANSITIONS) >= j.CLOSED


def test_the_page_draws_the_transitions_that_are_allowed() -> None:
    drawn: dict[str, set[str]] = {}
    for before, after in re.findall(r"^    (\w+) --> (\w+)", PAGE.read_text("utf-8"), re.MULTILINE):
        drawn.setdefault(before, set()).add(after)

    assert drawn == j.TRANSITIONS
