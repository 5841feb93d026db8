"""The line that says most is quoted first."""

from __future__ import annotations

import pytest

from firstfault.diagnosis import diagnose
from tests.diagnosis.case_files import case


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("t113-torch-memory", "DefaultCPUAllocator"),
        ("t113-fails-again", "ValueError: expected 4 features"),
        ("t20-launch-module", "ValueError: expected 4 features"),
        ("t21-exception-record", "ValueError: expected 4 features"),
        ("abort", "Fatal Python error: Aborted"),
        ("live-segfault", "segfault at"),
        ("t113-disk-save", "inline_container.cc"),
        ("t113-port", "The server socket has failed to listen"),
        ("oom-4n", "Memory cgroup out of memory: Killed process"),
    ],
)
def test_the_first_line_says_why_and_not_only_that_a_process_ended(name: str, words: str) -> None:
    assert words in diagnose(case(name)).evidence[0].text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("t113-killed", "failed (exitcode: -9)"),
        ("s213-tasks-killed", "task 2: Killed"),
        ("t113-segfault-at-exit", "failed (exitcode: -11)"),
    ],
)
def test_where_nothing_says_why_the_end_itself_is_the_proof(name: str, words: str) -> None:
    assert words in diagnose(case(name)).evidence[0].text


@pytest.mark.parametrize(
    ("name", "words"),
    [("t24-hang", "Timed out waiting"), ("t24-lightning-killed", "reset by peer")],
)
def test_where_no_first_fault_is_known_the_others_words_are_the_evidence(
    name: str, words: str
) -> None:
    verdict = diagnose(case(name))

    assert verdict.initiator.rank is None
    assert words in verdict.evidence[0].text


def test_a_rank_that_lost_its_peer_is_shown_by_its_own_words_from_the_table() -> None:
    rows = diagnose(case("t113-torch-memory")).consequences
    lost = next(row for row in rows if row.what == "ranks that lost a peer")

    assert lost.example is not None
    assert "exitcode" not in lost.example.text


@pytest.mark.parametrize("name", ["s24-cancelled-no-console", "s24-no-output", "made-boot-fail"])
def test_where_accounting_alone_tells_its_row_is_the_evidence(name: str) -> None:
    (row,) = diagnose(case(name)).evidence

    assert row.source == "accounting"
    assert row.file.endswith("sacct.txt")


def test_accounting_that_agrees_is_evidence_after_the_first_line() -> None:
    first, *others = diagnose(case("s24-time-limit")).evidence

    assert "DUE TO TIME LIMIT" in first.text
    assert others[-1].source == "accounting"
    assert "TIMEOUT" in others[-1].text
