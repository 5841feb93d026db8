"""An exception's line alone counts where a signature knows it or its stream ends with it, for little."""

from __future__ import annotations

import pytest

from firstfault.model.event import Traceback
from tests.diagnosis import made
from tests.readers.logs import events

MISMATCH = "RuntimeError: Error(s) in loading state_dict for Net:"
UNKNOWN = "KeyError: 'Loader is already registered'"


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
        "[2026-11-30 10:00:00] CRITICAL [loop.util:158, rank=6] Uncaught HttpError: 429 Too Many",
        "ERROR:root:Unhandled exception: loop.HttpError: 429 Too Many",
    ],
)
def test_what_a_programs_hook_logs_as_uncaught_is_one(line: str) -> None:
    (found,) = bare(f"step 7\n{line}\n")

    assert found.type.endswith("HttpError")
    assert found.message == "429 Too Many"


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: bad shape",
        "CRITICAL: Uncaught ValueError: bad shape",
        "WARNING: RuntimeError: Error(s) in loading state_dict for Net:",
        "KeyboardInterrupt: stopped by hand",
        "val_error: 0.13",
    ],
)
def test_other_lines_are_none(line: str) -> None:
    assert bare(f"step 7\n{line}\nstep 8\n") == []


def test_a_streams_last_word_is_one_though_no_signature_knows_it() -> None:
    (found,) = bare("\n".join(["step 7", UNKNOWN, "", *made.noticed(0, 4411, 1)]) + "\n")

    assert (found.type, found.message) == ("KeyError", "'Loader is already registered'")


def test_an_agents_own_traceback_behind_it_leaves_a_last_word_one() -> None:
    text = [
        UNKNOWN,
        *made.noticed(0, 4411, 1),
        *made.agent_raised("SystemExit: 1"),
        "ValueError: late",
    ]
    (found,) = bare("\n".join(text) + "\n")

    assert found.type == "KeyError"


def test_what_agents_say_behind_a_last_word_makes_it_a_possible_cause() -> None:
    verdict = made.judged(made.console(["step 7", UNKNOWN], made.noticed(0, 4411, 1)))

    assert (verdict.cause.id, verdict.cause.confidence) == ("python.exception", "possible")
    assert verdict.initiator.local_rank == 0


def test_a_last_word_does_not_stand_for_a_signal() -> None:
    verdict = made.judged(
        made.console(
            made.of_rank(0, None, [UNKNOWN]),
            made.noticed(0, 4411, -11),
            made.table((0, 0, -11, 4411)),
        )
    )

    assert verdict.cause.id == "process.segfault"


def test_a_last_word_of_another_stream_stays_beside_a_ranks_traceback() -> None:
    verdict = made.judged(
        made.console(
            made.of_rank(0, None, [UNKNOWN]),
            made.of_rank(1, 1, made.raised("ValueError: bad shape")),
            made.noticed(1, 4411, 1),
            made.table((1, 1, 1, 4411)),
        )
    )

    assert (verdict.exception.type, verdict.cause.confidence) == ("ValueError", "confirmed")


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
