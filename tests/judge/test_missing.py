"""What is said to be missing is what would tell."""

from __future__ import annotations

import pytest

from firstfault.diagnosis import diagnose
from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.diagnosis.case_files import NAMES, case


def named(verdict: v.Verdict) -> list[str]:
    return [each.what for each in verdict.missing]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_unknown_or_killed_by_nobody_known_names_what_would_tell(name: str) -> None:
    verdict = diagnose(case(name))

    if verdict.cause.id in ("unknown", "process.killed") and verdict.exception.type is None:
        assert verdict.missing
    for each in verdict.missing:
        assert each.what
        assert each.why_it_matters
        assert each.how_to_get


def test_a_killed_rank_asks_for_its_hosts_kernel_log_and_for_the_sender() -> None:
    assert named(diagnose(case("sigkill"))) == ["kernel log of n2", "the sender of the SIGKILL"]


def test_a_kernel_log_of_which_a_part_was_read_is_asked_for_as_a_whole() -> None:
    assert "the whole kernel log of n2" in named(diagnose(case("rank_killed_by_root")))


def test_a_kernel_log_that_was_wholly_read_is_not_asked_for() -> None:
    assert named(diagnose(case("live-killed"))) == ["the sender of the SIGKILL"]


def test_an_exit_code_of_the_programs_own_does_not_ask_for_a_kernel_log() -> None:
    assert named(diagnose(case("exit3"))) == ["the rank's own reason"]


def test_a_hang_asks_for_the_stacks_of_those_who_did_not_arrive() -> None:
    assert "the stacks of the ranks that did not arrive" in named(diagnose(case("hang")))


@pytest.mark.parametrize("name", ["t113-segfault", "t20-bus", "t213-assert"])
def test_a_crash_that_only_its_signal_tells_asks_for_its_frames(name: str) -> None:
    assert "what the process was doing when it crashed" in named(diagnose(case(name)))


@pytest.mark.parametrize("name", ["segv", "live-segfault"])
def test_a_crash_whose_frame_or_library_is_known_does_not(name: str) -> None:
    assert "what the process was doing when it crashed" not in named(diagnose(case(name)))


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("s24-time-limit", "whether the job still made progress at its limit"),
        ("made-watchdog-stuck", "the stacks of the rank that was stuck"),
    ],
)
def test_an_end_that_may_hide_a_hang_asks_for_what_would_tell(name: str, what: str) -> None:
    assert what in named(diagnose(case(name)))


def test_a_silent_node_is_asked_for_by_name() -> None:
    assert "everything from n2" in named(diagnose(case("live-node-fail")))


def test_a_console_alone_that_tells_nothing_asks_for_rank_files_and_accounting() -> None:
    verdict = made.judged(made.console(made.cancelled("STEP 500.0", "c1")))

    assert {"per-rank logs", "Slurm's account of the job"} <= set(named(verdict))


def test_a_job_that_did_not_fail_misses_nothing() -> None:
    assert named(diagnose(case("success"))) == []
