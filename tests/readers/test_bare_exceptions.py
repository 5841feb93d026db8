"""An exception's line alone counts only where a signature knows it, and then for little."""

from __future__ import annotations

import pytest

from firstfault.model.event import Traceback
from tests.diagnosis import made
from tests.readers.logs import events

MISMATCH = "RuntimeError: Error(s) in loading state_dict for Net:"


def bare(text: str) -> list[Traceback]:
    return [event for event in events(text) if isinstance(event, Traceback) and event.bare]


def test_a_known_exceptions_line_is_one_without_its_traceback() -> None:
    (found,) = bare(f"step 7\n{MISMATCH}\n\tsize mismatch for fc.weight\n")

    assert (found.type, found.frames) == (
        "RuntimeError",
        (),
    )
    assert not found.final


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: bad shape",
        "WARNING: RuntimeError: Error(s) in loading state_dict for Net:",
        "KeyboardInterrupt: stopped by hand",
        "val_error: 0.13",
    ],
)
def test_other_lines_are_none(line: str) -> None:
    assert bare(f"step 7\n{line}\nstep 8\n") == []


def test_a_tracebacks_own_line_is_no_bare_one() -> None:
    lines = "\n".join(made.raised(MISMATCH))

    assert bare(f"{lines}\n") == []


def test_a_paste_of_one_line_makes_a_cause_possible_and_no_more() -> None:
    verdict = made.judged(made.console([MISMATCH, "\tsize mismatch for fc.weight"]))

    assert (verdict.cause.id, verdict.cause.confidence) == (
        "training.checkpoint-mismatch",
        "possible",
    )


def test_a_traceback_counts_before_a_bare_line() -> None:
    verdict = made.judged(
        made.console(
            made.of_rank(1, 1, ["OSError: [Errno 28] No space left on device", "trying again"]),
            made.of_rank(1, 1, made.raised("ValueError: bad shape")),
            made.noticed(1, 4411, 1),
            made.table((1, 1, 1, 4411)),
        )
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("python.exception", "confirmed")
