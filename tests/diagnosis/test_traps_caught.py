"""Exceptions and words that did not end the process in whose stream they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis import made
from tests.diagnosis.made import WORK, sure_cause, sure_rank

CAUGHT = made.raised("ValueError: retried")
FATAL = [
    "Fatal Python error: Segmentation fault",
    "",
    "Current thread 0x00007f00aa000000 (most recent call first):",
    '  File "/home/eve/run/words.py", line 3 in go',
]
ACCOUNT = made.accounting("FAILED", nodes="c1")
ENDED = made.task_ended("c1", 0)


def of_one(*parts: list[str], code: int = 1) -> list[str]:
    """What one rank said, and its end with an exit code."""
    own = [made.of_rank(0, None, part) for part in parts]
    return made.of_task(0, *own, made.noticed(0, 700, code), made.table((0, 0, code, 700)))


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: retried",
        "ModuleNotFoundError: No module named 'apex'",
        "OSError: [Errno 28] No space left on device",
    ],
)
def test_an_exception_that_many_steps_followed_is_not_surely_why_the_rank_ended(error: str) -> None:
    verdict = made.judged(made.console(of_one(made.raised(error), WORK), ENDED), ACCOUNT)

    assert sure_cause(verdict) is None


def test_the_same_without_any_prefix() -> None:
    verdict = made.judged(
        made.console(CAUGHT, WORK, made.noticed(0, 700, 1), made.table((0, 0, 1, 700))), ACCOUNT
    )

    assert sure_cause(verdict) is None


def test_a_few_lines_behind_an_exception_take_nothing_from_it() -> None:
    verdict = made.judged(
        made.console(of_one(CAUGHT, ["closing the tracker", "uploaded 3 files"]), ENDED), ACCOUNT
    )

    assert sure_cause(verdict) == "python.exception"
    assert sure_rank(verdict) == 0


def test_torchs_own_hook_tells_that_an_exception_was_not_caught_whatever_is_flushed_after_it() -> (
    None
):
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, CAUGHT),
                made.of_rank(0, None, WORK),
                made.noticed(0, 700, 1),
                made.table((0, 0, 1, 700)),
            ),
            ENDED,
        ),
        ACCOUNT,
    )

    assert sure_cause(verdict) == "python.exception"


def test_a_caught_exception_of_two_ranks_that_ended_without_a_word_is_neithers() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, None, CAUGHT),
                made.of_rank(0, None, WORK),
                made.of_rank(1, None, WORK),
                made.noticed(0, 700, 1),
                made.table((0, 0, 1, 700), (1, 1, 1, 701)),
            ),
            ENDED,
        ),
        ACCOUNT,
    )

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_a_caught_exception_is_no_reason_for_a_kill() -> None:
    verdict = made.judged(
        made.console(of_one(CAUGHT, code=-9), ENDED), ACCOUNT, kernel_read=("c1",)
    )

    assert sure_cause(verdict) != "python.exception"
    assert verdict.cause.id == "process.killed"


def test_a_caught_exception_is_no_reason_for_an_exit_code_of_the_programs_own() -> None:
    verdict = made.judged(made.console(of_one(CAUGHT, WORK, code=5), ENDED), ACCOUNT)

    assert sure_cause(verdict) != "python.exception"


def test_an_exception_at_a_cut_logs_end_that_a_line_followed_is_not_sure() -> None:
    verdict = made.judged(made.console(WORK, CAUGHT, ["skipping sample 12"]))

    assert sure_cause(verdict) is None


def test_a_fatal_error_of_a_process_that_the_rank_started_is_not_surely_the_ranks() -> None:
    verdict = made.judged(made.console(of_one(FATAL, WORK), ENDED))

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_a_fatal_error_after_which_the_rank_worked_on_is_not_sure() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, None, FATAL), made.of_rank(0, None, WORK)), ENDED
        )
    )

    assert sure_cause(verdict) is None


def test_a_fatal_error_that_the_ranks_own_end_bears_out_is_sure() -> None:
    verdict = made.judged(made.console(of_one(FATAL, code=-11), ENDED))

    assert sure_cause(verdict) == "process.segfault"
    assert sure_rank(verdict) == 0


USAGE = [
    "usage: convert [-h] --to TO",
    "convert: error: the following arguments are required: --to",
]


def test_an_argument_parsers_words_that_work_followed_are_another_programs() -> None:
    verdict = made.judged(made.console(of_one(USAGE, WORK, code=2), ENDED), ACCOUNT)

    assert sure_cause(verdict) is None


def test_an_argument_parsers_words_before_exit_code_two_are_sure() -> None:
    verdict = made.judged(made.console(of_one(USAGE, code=2), ENDED), ACCOUNT)

    assert sure_cause(verdict) == "python.arguments"


def test_an_argument_parsers_words_do_not_explain_exit_code_three() -> None:
    verdict = made.judged(made.console(of_one(USAGE, code=3), ENDED), ACCOUNT)

    assert sure_cause(verdict) != "python.arguments"


def test_what_a_rank_prints_of_another_launch_is_not_its_agents_word() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, made.noticed(1, 701, -9)),
                made.of_rank(0, 0, made.table((1, 1, -9, 701))),
                made.noticed(0, 700, 1),
                made.table((0, 0, 1, 700)),
            ),
            ENDED,
        )
    )

    assert sure_rank(verdict) is None
    assert verdict.cause.id != "process.killed"


def test_the_same_with_torchs_own_prefix_alone() -> None:
    verdict = made.judged(
        made.console(
            made.hooked(0, [*made.noticed(1, 701, -11), *made.table((1, 1, -11, 701))]),
            made.noticed(0, 700, 1),
            made.table((0, 0, 1, 700)),
        ),
        ACCOUNT,
    )

    assert sure_rank(verdict) is None
    assert verdict.cause.id != "process.segfault"


INNER = made.raised(
    "subprocess.CalledProcessError: Command '['torchrun', 'eval.py']' returned non-zero exit "
    "status 1."
)
KEY = "KeyError: 'mask'"


def test_a_launch_within_a_rank_has_ranks_of_its_own() -> None:
    verdict = made.judged(
        made.console(
            of_one(
                made.of_rank(1, None, made.raised(KEY)),
                made.noticed(1, 1701, 1, agent=1690),
                made.table((1, 1, 1, 1701), errors={1: KEY}),
                INNER,
            ),
            ENDED,
        )
    )

    assert sure_rank(verdict) is None


def test_a_launch_within_a_launch_without_prefixes_names_nobody_surely() -> None:
    verdict = made.judged(
        made.console(
            made.hooked(1, made.raised(KEY)),
            made.noticed(1, 1701, 1, agent=1690),
            made.table((1, 1, 1, 1701)),
            INNER,
            made.noticed(0, 700, 1, agent=690),
            made.table((0, 0, 1, 700)),
        ),
        ACCOUNT,
    )

    assert sure_rank(verdict) is None


@pytest.mark.parametrize(
    "torn",
    [
        "RuntimeError: Caught RuntimeError in DataLoader worker process 0.",
        "RuntimeError: DataLoader worker (pid 10389)",
    ],
)
def test_what_a_loaders_worker_raised_is_not_sure_where_its_own_words_are_lost(torn: str) -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, made.raised(torn)),
                made.noticed(0, 700, 1),
                made.table((0, 0, 1, 700)),
            ),
            ENDED,
        ),
        ACCOUNT,
    )

    assert sure_cause(verdict) is None


def test_a_job_that_recovered_and_reached_its_limit_was_ended_by_that() -> None:
    log = (Path(__file__).parents[1] / "healthy" / "good-restarted.log").read_text()
    verdict = made.judged(made.console(log.splitlines()), made.accounting("TIMEOUT", "0:0"))

    assert sure_cause(verdict) == "slurm.time-limit"


def test_an_exception_that_much_followed_is_not_why_a_rank_ended_with_a_code_of_its_own() -> None:
    lines = [*made.raised("RuntimeError: the store is busy"), *made.WORK]
    end = [*made.noticed(1, 701, 75), *made.table((1, 1, 75, 701))]
    verdict = made.judged(made.console(lines, end))

    assert verdict.cause.id == "process.exit"


def test_metrics_that_are_named_like_errors_are_steps_of_work() -> None:
    steps = [f"step {number} loss 0.3 errors=0 failed_samples: 0" for number in range(8)]
    quoted = [*made.noticed(1, 701, -11), *made.table((3, 1, -11, 701))]

    assert sure_cause(made.judged(made.console(quoted, ["resuming"], steps))) is None


@pytest.mark.parametrize(
    "words",
    [
        ["ERROR 10:00:01 validation failed", *CAUGHT, "INFO 10:00:01 leaving with status 5"],
        ["Example:", *(f"    {line}" for line in CAUGHT), "see --help"],
    ],
)
@pytest.mark.parametrize("label", [True, False])
def test_an_exception_of_nobody_is_not_surely_why_a_program_ended_with_a_code_of_its_own(
    words: list[str], label: bool
) -> None:
    lines = [*WORK, *words, *made.noticed(0, 700, 5), *made.table((0, 0, 5, 700))]
    console = made.console(made.of_task(0, lines) if label else lines, ENDED)
    verdict = made.judged(console, made.accounting("FAILED", "5:0"))

    assert sure_cause(verdict) is None
