"""How processes ended: tables that are cut, silence, signals and exit codes."""

from __future__ import annotations

import msgspec

from firstfault.model import verdict as v
from firstfault.model.document import Document
from tests.diagnosis import made
from tests.diagnosis.made import WORK, sure_cause, sure_rank

KEY = "KeyError: 'mask'"
LEFT = "process.left-early"
ACCOUNT = made.accounting("FAILED", nodes="c1")
ENDED = made.task_ended("c1", 0)


def cut(document: Document) -> Document:
    """The file, of which a part was left out."""
    return msgspec.structs.replace(document, complete=False, size=100_000)


def test_a_rank_of_which_the_cut_table_would_have_told_did_not_leave_early() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, made.raised(made.PEER)),
                made.of_rank(1, 1, WORK),
                made.of_rank(2, 2, WORK),
                made.closed(702),
                made.noticed(0, 700, 1),
            )
        ),
        ACCOUNT,
    )

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_a_table_that_is_cut_before_its_second_entry_does_not_tell_who_left() -> None:
    table = made.table((2, 2, -9, 702), (0, 0, 1, 700), errors={0: made.PEER})
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, made.raised(made.PEER)),
                made.of_rank(1, 1, made.raised(made.PEER)),
                made.of_rank(2, 2, WORK),
                table[:12],
            )
        ),
        ACCOUNT,
    )

    assert sure_cause(verdict) != LEFT
    assert sure_rank(verdict) is None


def test_a_rank_whose_nodes_agent_lost_its_words_did_not_surely_leave() -> None:
    both = {0: made.PEER, 1: made.PEER}
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, made.raised(made.PEER)),
                made.of_rank(1, 1, made.raised(made.PEER)),
                made.noticed(0, 700, 1),
                made.table((0, 0, 1, 700), (1, 1, 1, 701), errors=both),
            ),
            made.of_task(
                1,
                made.of_rank(0, 2, made.raised(made.PEER)),
                made.of_rank(1, 3, WORK),
                made.noticed(0, 802, 1, agent=901),
            ),
            ENDED,
            made.task_ended("c2", 1),
        ),
        made.accounting("FAILED"),
    )

    assert sure_cause(verdict) != LEFT
    assert sure_rank(verdict) is None


def test_a_rank_whose_own_file_was_cut_was_not_silent() -> None:
    files = [
        made.document(
            f"r_x/attempt_0/{rank}/stderr.log",
            WORK if rank == 1 else made.raised(made.PEER),
            host="c1",
        )
        for rank in range(3)
    ]
    verdict = made.judged(
        made.console(
            made.closed(702),
            made.noticed(0, 700, 1),
            made.table((0, 0, 1, 700), errors={0: made.PEER}),
        ),
        files[0],
        cut(files[1]),
        files[2],
        ACCOUNT,
    )

    assert sure_rank(verdict) is None


def test_a_rank_whose_words_are_torn_was_not_silent() -> None:
    torn = made.raised(KEY)[:-1]
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, made.raised(made.PEER)),
                made.of_rank(1, 1, torn),
                made.closed(702),
                made.of_rank(2, 2, WORK),
                made.noticed(0, 700, 1),
                made.table((0, 0, 1, 700), (2, 2, -15, 702), errors={0: made.PEER}),
            ),
            ENDED,
        ),
        ACCOUNT,
    )

    assert sure_cause(verdict) != LEFT


def test_sigterm_in_a_table_that_is_cut_is_not_surely_from_outside() -> None:
    table = made.table((1, 1, 1, 701), (0, 0, -15, 700), errors={1: KEY})
    verdict = made.judged(made.console(made.of_task(0, table[:13])), ACCOUNT)

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_sigterm_in_one_nodes_table_is_not_surely_from_outside_the_job() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, WORK)), made.of_task(1, made.table((2, 0, -15, 800)))
        ),
        made.accounting("FAILED"),
    )

    assert sure_cause(verdict) is None


def test_sigterm_that_the_agent_notices_first_is_from_outside() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0, made.closed(701), made.noticed(0, 700, -15), made.table((0, 0, -15, 700))
            ),
            ENDED,
        ),
        ACCOUNT,
    )

    assert sure_cause(verdict) == "process.interrupted"
    assert sure_rank(verdict) == 0


def test_a_kill_after_the_agent_was_told_to_stop_is_the_agents_own() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.agent_stopped(),
                made.noticed(0, 700, -9, clock="10:00:40"),
                made.table((0, 0, -9, 700)),
            ),
            ENDED,
        ),
        ACCOUNT,
        kernel_read=("c1",),
    )

    assert sure_cause(verdict) is None


def test_a_kill_beside_an_order_to_stop_another_nodes_agent_is_as_sure_as_before() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(1, made.noticed(0, 800, -9, agent=901), made.table((2, 0, -9, 800))),
            made.task_ended("c2", 1),
            made.of_task(0, made.agent_stopped(clock="10:00:09")),
            made.task_ended("c1", 0),
        ),
        made.accounting("FAILED"),
        kernel_read=("c1", "c2"),
    )

    assert sure_cause(verdict) == "process.killed"
    assert sure_rank(verdict) == 2


def test_a_kill_whose_line_of_force_was_lost_is_not_sure() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(1, 1, WORK),
                made.closed(700),
                made.noticed(1, 701, 4, clock="10:00:36"),
                made.table((1, 1, 4, 701), (0, 0, -9, 700)),
            ),
            ENDED,
        ),
        ACCOUNT,
        kernel_read=("c1",),
    )

    assert sure_cause(verdict) != "process.killed"
    assert sure_rank(verdict) != 0


def test_a_kill_in_a_table_beside_another_end_that_came_first_is_not_sure() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(1, 1, WORK), made.table((1, 1, 4, 701), (0, 0, -9, 700))),
            ENDED,
        ),
        ACCOUNT,
        kernel_read=("c1",),
    )

    assert sure_cause(verdict) is None


def test_a_kill_on_a_node_whose_kernel_log_was_not_read_is_likely() -> None:
    verdict = made.judged(
        made.console(made.noticed(0, 700, -9), made.table((0, 0, -9, 700))),
        made.accounting("FAILED"),
        kernel_read=("c1",),
    )

    assert verdict.cause.confidence == v.LIKELY


def test_a_kill_and_a_cancellation_that_nothing_orders_are_not_sure() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.noticed(0, 700, -9), made.table((0, 0, -9, 700))),
            ENDED,
            made.cancelled("JOB 500", "c1"),
        ),
        ACCOUNT,
        kernel_read=("c1",),
    )

    assert sure_cause(verdict) is None


def test_what_a_rank_raises_below_its_agents_order_to_stop_is_not_surely_first() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.agent_stopped(),
                made.of_rank(0, 0, made.raised("RuntimeError: save interrupted")),
            )
        )
    )

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_what_a_rank_raises_before_its_agent_is_told_to_stop_is_its_own() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, made.raised(KEY)), made.agent_stopped()), ENDED
        ),
        made.accounting("FAILED"),
    )

    assert sure_cause(verdict) == "python.exception"
    assert sure_rank(verdict) == 0


def test_an_exception_does_not_explain_the_crash_of_another_nodes_agent() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, made.raised("RuntimeError: save interrupted"))),
            made.task_ended("c2", 1, "Segmentation fault"),
            ["srun: Job step aborted: Waiting up to 32 seconds for job step to finish."],
            made.task_ended("c1", 0, "Terminated"),
        ),
        made.accounting("FAILED"),
    )

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_a_cut_table_does_not_give_another_ranks_words_to_the_one_that_it_names() -> None:
    verdict = made.judged(
        made.console(
            ["step 1 loss 1.0"], made.raised(made.PEER), made.raised(KEY), made.noticed(0, 700, 1)
        ),
        ACCOUNT,
    )

    assert sure_rank(verdict) is None


def test_words_in_a_file_of_an_agent_without_a_table_are_not_another_nodes_ranks() -> None:
    verdict = made.judged(
        made.document("first.log", made.hosted(made.table((0, 0, 1, 700)), "c1")),
        made.document(
            "second.log",
            [
                *made.raised("ModuleNotFoundError: No module named 'apex'"),
                *made.agent_raised("x")[:5],
            ],
        ),
    )

    assert sure_rank(verdict) is None
