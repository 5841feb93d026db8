"""The last words before a job's end: when they were said, and how far they count."""

from __future__ import annotations

import datetime as dt

import pytest

from firstfault.model.event import LastWords
from firstfault.readers.advance import progress
from firstfault.readers.last_words import stamp
from firstfault.readers.output import read_output
from firstfault.readers.times import Zone, zone
from tests.readers.logs import ZONE, document

END = (
    "slurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-30T10:09:00 DUE TO TIME LIMIT ***\n"
)


def words(text: str, **more: object) -> LastWords:
    found = document(text, **more)  # type: ignore[arg-type]
    told = [e for e in read_output(found, zone(found)).events if isinstance(e, LastWords)]
    (one,) = told
    return one


def stamped(*steps: int, every_s: int = 2) -> str:
    begun = dt.datetime(2026, 11, 30, 10, 0, 0)  # noqa: DTZ001 - a program prints its local time
    return "".join(
        f"{begun + dt.timedelta(seconds=every_s * n):%Y-%m-%d %H:%M:%S,000} INFO step {step}/900\n"
        for n, step in enumerate(steps)
    )


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("2026-11-30 10:00:07,250 INFO step 3", 7),
        ("[2026-11-30 10:00:07] iteration 3/ 100 |", 7),
        ("2026-11-30T10:00:07.25Z step 3", 7),
        ("2026-11-30T12:00:07+02:00 step 3", 7),
        ("2026/11/30 10:00:07 step 3", 7),
        ("3: [default0]:2026-11-30 10:00:07 step 3", 7),
        ("I1130 10:00:07.250000 12 train.py:3] step 3", 7),
    ],
)
def test_a_lines_time_is_read_in_the_forms_that_loggers_print(text: str, second: int) -> None:
    at = stamp(text, ZONE)

    assert at is not None
    assert (at.hour, at.minute, at.second) == (10, 0, second)


@pytest.mark.parametrize(
    "text", ["step 3", "10:00:07 step 3", "12026-11-30 10:00:07", "v2026-13-45 x"]
)
def test_a_line_without_a_date_has_no_time(text: str) -> None:
    assert stamp(text, Zone()) is None


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("step 7/900 loss 0.1", (7, 900)),
        (" iteration      100/  500000 | consumed samples: 3", (100, 500_000)),
        ("epoch 1/3 step 7/900", (7, None)),
        ("Epoch [2/9]", (2, 9)),
        (" 12%|#2        | 120/1000 [01:00<07:20,  2.0it/s]", (120, 1_000)),
        ("Epoch 3:  12%|#2   | 120/1000 [01:00<07:20]", (120, None)),
        ("global_step: 55", (55, None)),
        ("saving step 7", None),
        ("loss 0.5", None),
    ],
)
def test_a_line_of_work_tells_its_step_and_how_many_there_are(
    text: str, counted: tuple[int, int | None] | None
) -> None:
    assert progress(text) == counted


def test_the_last_words_stand_before_the_jobs_end() -> None:
    found = words(stamped(5, 10, 15) + END + "step 20/900\n")

    assert (found.step, found.total) == (15, 900)
    assert found.at == dt.datetime(2026, 11, 30, 10, 0, 4, tzinfo=dt.UTC)
    assert (found.pause_s, found.steps_per_s) == (2.0, 2.5)


def test_two_steps_tell_no_usual_pause() -> None:
    assert words(stamped(5, 10) + END).pause_s is None


@pytest.mark.parametrize(
    "last",
    [
        "saving checkpoint to /scratch",
        "Evaluating on 500 batches",
        "step 900/900",
        "training finished",
    ],
)
def test_a_word_of_an_end_or_of_a_long_work_is_told(last: str) -> None:
    assert words(stamped(5, 10, 15) + last + "\n" + END).closing


def test_a_last_line_that_is_a_beginning_of_the_others_was_cut_off() -> None:
    assert words(stamped(5, 10, 15) + stamped(20)[:-9] + "\n" + END).cut
    assert not words(stamped(5, 10, 15) + END).cut


def test_slurms_word_in_the_middle_of_a_line_cut_another_off() -> None:
    assert words(stamped(5, 10, 15) + "2026-11-30 10:0" + END).cut
    assert not words(stamped(5, 10, 15) + "0: " + END).cut


def test_a_file_of_whole_buffers_that_ends_within_a_line_was_cut_off() -> None:
    text = "a" + stamped(*range(5, 900, 5))
    text = text[: len(text) - len(text) % 4_096]

    assert words(text[:4_096], name="run/attempt_0/0/stdout.log").cut
