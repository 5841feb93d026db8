"""A job that Slurm ended: whether it hung before, or still advanced, by its last words."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from firstfault.model.document import Document
from tests.diagnosis import made

STARTED = "2026-11-30T09:59:00"


def step(second: int, number: int, total: int = 900) -> str:
    minutes, seconds = divmod(second, 60)
    return f"2026-11-30 {10 + minutes // 60}:{minutes % 60:02d}:{seconds:02d},000 INFO step {number}/{total}"


# The lines of several ranks, in the order of their times: nothing is held back.
def steps(*, every_s: int = 2, last: int = 5, tasks: int = 2) -> list[str]:
    return [
        f"{task}: {step(every_s * n, 10 * n)}" for n in range(last + 1) for task in range(tasks)
    ]


def held_back(task: int) -> list[str]:
    return [f"{task}: {step(2 * n, 10 * n)}" for n in range(6)]


def ended(clock: str, why: str = " DUE TO TIME LIMIT") -> list[str]:
    return [f"slurmstepd-n1: error: *** JOB 500 ON n1 CANCELLED AT 2026-11-30T{clock}{why} ***"]


def accounting(state: str, clock: str, started: str = STARTED) -> Document:
    head = "JobID|JobName|User|State|ExitCode|NodeList|Start|End|Timelimit"
    row = f"500|train|eve|{state}|0:0|n[1-2]|{started}|2026-11-30T{clock}|00:10:00"
    return made.document("sacct.txt", [head, row])


def judged(
    *lines: list[str], clock: str = "10:09:00", state: str = "TIMEOUT", why: str | None = None
) -> v.Verdict:
    said = " DUE TO TIME LIMIT" if why is None else why
    console = made.console(*lines, ended(clock, said))
    return made.judged(console, accounting(state, clock))


def test_a_long_silence_before_the_time_limit_is_a_hang_and_the_cause_stays_slurms() -> None:
    verdict = judged(steps())

    assert (verdict.cause.id, verdict.cause.confidence) == ("slurm.time-limit", "confirmed")
    assert verdict.cause.title == (
        "The job hung at step 50 of 900: it said nothing for 00:08:50 until its time limit (00:10:00)"
    )
    assert any("2026-11-30 10:00:10" in note for note in verdict.notes)
    assert [each.cause for each in verdict.alternatives] == ["process.stuck"]
    assert "stacks" in verdict.missing[0].what


def test_a_cancellation_after_a_long_silence_tells_the_hang_too() -> None:
    verdict = judged(steps(), state="CANCELLED by 1001", why="")

    assert verdict.cause.id == "slurm.cancelled"
    assert verdict.cause.title.startswith("The job hung at step 50 of 900: it said nothing for")


def test_a_preemption_after_a_long_silence_tells_the_hang_too() -> None:
    verdict = judged(steps(), state="PREEMPTED", why=" DUE TO PREEMPTION")

    assert verdict.cause.id == "slurm.preempted"
    assert verdict.cause.title.endswith("until it was preempted for another job")


def test_a_job_that_advanced_to_its_limit_needed_more_time_and_how_much_is_said() -> None:
    verdict = judged(steps(), clock="10:00:11")

    assert verdict.cause.title == (
        "The job reached its time limit (00:10:00) at step 50 of 900, still advancing"
    )
    assert any("850 that were left" in note and "00:02:50 more" in note for note in verdict.notes)
    assert verdict.missing == ()


def told_of_a_hang(verdict: v.Verdict) -> bool:
    return "hung" in verdict.cause.title


def test_a_silence_no_longer_than_the_pauses_before_is_no_hang() -> None:
    assert not told_of_a_hang(judged(steps(every_s=100), clock="10:09:00"))


def test_a_silence_after_a_word_of_a_checkpoint_is_told_as_such() -> None:
    verdict = judged(steps(), [f"0: {step(12, 900).replace('step', 'saving checkpoint')}"])

    assert not told_of_a_hang(verdict)
    assert any("saving checkpoint" in note for note in verdict.notes)


def test_a_short_silence_in_a_long_job_may_be_an_evaluation() -> None:
    console = made.console(steps(), ended("10:05:00"))

    verdict = made.judged(console, accounting("TIMEOUT", "10:05:00", "2026-11-30T01:00:00"))

    assert not told_of_a_hang(verdict)
    assert any("without a word" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        ("lines without times follow", [*steps(), "0: step 60/900", "0: step 70/900"]),
        ("no line bears a time", [f"step {n}/900" for n in range(20)]),
        ("lines are cut off", [*steps(), f"0: {step(12, 60)[:33]}"]),
        ("lines may be held back", [step(2 * n, 10 * n) for n in range(6)]),
        ("one writer's lines come after another's", [*held_back(0), *held_back(1)]),
        ("no step is counted", [f"2026-11-30 10:00:0{n} INFO loading" for n in range(6)]),
        ("too few steps", [*steps(last=1)]),
        ("a line is later than the end", [*steps(), f"0: {step(3_600, 60)}"]),
    ],
)
def test_where_the_last_words_tell_nothing_it_is_asked_for(what: str, lines: list[str]) -> None:
    verdict = judged(lines)

    assert not told_of_a_hang(verdict), what
    assert "progress" in verdict.missing[0].what or "stacks" in verdict.missing[0].what


def test_a_silence_of_whole_hours_may_be_another_time_zone() -> None:
    console = made.console(steps(), ended("12:00:11"))

    verdict = made.judged(console, accounting("TIMEOUT", "12:00:11"))

    assert not told_of_a_hang(verdict)


def test_the_one_whose_last_step_is_before_the_others_is_named_as_a_possibility() -> None:
    lines = [line for line in steps(tasks=4) if not (line.startswith("2: ") and "step 50/" in line)]

    verdict = judged(lines)

    assert told_of_a_hang(verdict)
    assert verdict.initiator.rank is None
    assert "task 2" in verdict.alternatives[0].against
