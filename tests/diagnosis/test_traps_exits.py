"""Exit codes of a program's own, whose reason may stand elsewhere."""

from __future__ import annotations

import msgspec
import pytest

from firstfault.model.document import Document
from tests.diagnosis import made
from tests.diagnosis.made import WORK, sure_cause, sure_rank

ACCOUNT = made.accounting("FAILED", nodes="c1")
ENDED = made.task_ended("c1", 0)


def cut(document: Document) -> Document:
    """The file, of which a part was left out."""
    return msgspec.structs.replace(document, complete=False, size=100_000)


def test_an_exit_code_beside_a_silent_node_may_be_for_the_loss_of_a_peer() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0, made.of_rank(0, 0, WORK), made.noticed(0, 700, 3), made.table((0, 0, 3, 700))
            )
        ),
        made.accounting("FAILED"),
        absent=("c2",),
    )

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_an_exit_code_of_a_rank_whose_file_was_cut_may_have_had_a_reason() -> None:
    verdict = made.judged(
        made.console(made.noticed(0, 700, 3), made.table((0, 0, 3, 700))),
        cut(made.document("r_x/attempt_0/0/stderr.log", WORK, host="c1")),
        ACCOUNT,
    )

    assert sure_cause(verdict) is None


def test_an_exit_code_of_a_rank_whose_standard_error_was_not_read_may_have_had_a_reason() -> None:
    verdict = made.judged(
        made.console(made.noticed(0, 700, 3), made.table((0, 0, 3, 700))),
        made.document("r_x/attempt_0/0/stdout.log", WORK),
        ACCOUNT,
    )

    assert sure_cause(verdict) is None


def exit_of_zero(code: int = 3) -> list[str]:
    """Rank 0 ended itself, and said nothing."""
    return made.of_task(
        0, made.of_rank(0, 0, WORK), made.noticed(0, 700, code), made.table((0, 0, code, 700))
    )


def test_an_exit_code_beside_a_task_of_which_no_rank_is_known_is_not_sure() -> None:
    verdict = made.judged(
        made.console(exit_of_zero(), ENDED, made.task_ended("c2", 1)), made.accounting("FAILED")
    )

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_equal_exit_codes_beside_a_killed_agent_may_be_for_the_loss_of_its_ranks() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, WORK),
                made.of_rank(1, 1, WORK),
                made.noticed(0, 700, 3),
                made.table((0, 0, 3, 700), (1, 1, 3, 701)),
            ),
            ENDED,
            made.task_ended("c2", 1, "Killed"),
        ),
        made.accounting("FAILED"),
    )

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_an_exit_code_of_a_rank_that_its_agent_ended_is_no_cause() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, WORK),
                made.closed(700),
                made.noticed(1, 701, -15),
                made.table((1, 1, -15, 701), (0, 0, 3, 700)),
            ),
            ENDED,
        ),
        ACCOUNT,
    )

    assert verdict.cause.id != "process.exit"
    assert sure_rank(verdict) != 0


def test_an_exit_code_of_the_only_rank_that_failed_is_sure() -> None:
    verdict = made.judged(made.console(exit_of_zero(), ENDED), ACCOUNT)

    assert sure_cause(verdict) == "process.exit"
    assert sure_rank(verdict) == 0


@pytest.mark.parametrize(
    "words",
    [
        "caught SIGTERM, saving",
        "exiting program after receiving SIGTERM.",
        "received signal 15",
        "node is being preempted, leaving",
    ],
)
def test_an_exit_code_of_a_rank_that_was_told_to_stop_is_not_surely_its_own(words: str) -> None:
    own = made.of_rank(0, None, [*WORK, words, "saved"])
    lines = [*own, *made.noticed(0, 700, 3), *made.table((0, 0, 3, 700))]
    verdict = made.judged(made.console(made.of_task(0, lines), ENDED), ACCOUNT)

    assert verdict.cause.id == "process.exit"
    assert sure_cause(verdict) is None
