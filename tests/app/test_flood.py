"""All nodes of a job report at once: each record is kept, and the verdict is right."""

from __future__ import annotations

import shutil

import pytest

from tests.bench import flood

pytestmark = pytest.mark.skipif(
    shutil.which("munged", path="/usr/sbin") is None, reason="munge is not installed"
)


@pytest.mark.parametrize(
    "way",
    ["keep-alive", *(pytest.param(way, marks=pytest.mark.slow) for way in ("one-each", "spool"))],
)
def test_many_nodes_that_report_at_once_are_all_taken_and_judged_right(way: str) -> None:
    assert flood.main(["--nodes", "48", "--way", way, "--clients", "2"]) == 0


@pytest.mark.soak
@pytest.mark.parametrize("way", ["keep-alive", "one-each", "spool"])
def test_all_nodes_of_the_largest_job_are_taken(way: str) -> None:
    assert flood.main(["--nodes", "16384", "--way", way, "--taking-only"]) == 0


@pytest.mark.soak
def test_a_thousand_nodes_that_report_at_once_are_judged_right() -> None:
    assert flood.main(["--nodes", "1024", "--noise-kib", "24"]) == 0
