"""What a single process's end is worth."""

from __future__ import annotations

import pytest

from firstfault.faults.death import is_exception
from firstfault.faults.exceptions import cause_of, own_frame, worth
from firstfault.faults.signals import exit_signal
from firstfault.model import verdict as v
from firstfault.model.document import Document
from firstfault.model.event import Frame, Traceback
from firstfault.model.line import Place, Speaker
from tests.diagnosis import made

COLLECTIVE = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def raised(kind: str, message: str = "x", file: str = "/home/eve/run/loop.py") -> Traceback:
    place = Place("slurm.out", 0, 1, "")
    return Traceback(place, Speaker(), None, kind, message, (Frame(file, 1, "f"),))


@pytest.mark.parametrize(
    ("code", "signal"),
    [(-9, 9), (137, 9), (139, 11), (143, 15), (1, None), (200, None), (None, None)],
)
def test_a_shells_exit_code_may_stand_for_a_signal(code: int | None, signal: int | None) -> None:
    assert exit_signal(code) == signal


def test_the_users_own_frame_is_the_innermost_that_no_package_has() -> None:
    own, library = Frame("/home/eve/run/loop.py", 3, "f"), Frame(COLLECTIVE, 9, "g")

    assert own_frame([own, library]) == own
    assert own_frame([library]) == library
    assert own_frame([]) is None


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        (raised("RuntimeError"), "python.exception"),
        (raised("RuntimeError", file=COLLECTIVE), "collective.error"),
        (raised("torch.distributed.DistBackendError", file=COLLECTIVE), "collective.error"),
        (raised("TypeError", file=COLLECTIVE), "python.exception"),
    ],
)
def test_an_unknown_error_out_of_a_collective_is_not_the_programs(
    event: Traceback, cause: str
) -> None:
    assert cause_of(event, None) == cause


@pytest.mark.parametrize(
    ("event", "cut", "most"),
    [
        (raised("KeyError"), False, v.CONFIRMED),
        (raised("KeyError"), True, v.POSSIBLE),
        (raised("RuntimeError", file=COLLECTIVE), False, v.POSSIBLE),
        (raised("BrokenPipeError"), False, v.POSSIBLE),
        (raised("torch.distributed.DistStoreError"), False, v.POSSIBLE),
    ],
)
def test_a_cut_or_a_broken_link_is_worth_less(event: Traceback, cut: bool, most: str) -> None:
    assert worth(event, None, cut=cut) == most


@pytest.mark.parametrize(
    ("kind", "message", "is_one"),
    [("KeyError", "", True), ("zlib.error", "", True), ("error", "bad", True), ("to", "", False)],
)
def test_what_a_cut_log_leaves_of_a_line_is_no_exception(
    kind: str, message: str, is_one: bool
) -> None:
    assert is_exception(raised(kind, message)) is is_one


def test_a_loader_worker_that_exited_unexpectedly_was_not_surely_killed() -> None:
    error = "RuntimeError: DataLoader worker (pid(s) 811) exited unexpectedly"
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, made.raised(error)),
                made.noticed(0, 700, 1),
                made.table((0, 0, 1, 700), errors={0: error}),
            ),
            made.task_ended("c1", 0),
        ),
        made.accounting("FAILED"),
        kernel_read=("c1", "c2"),
    )

    assert verdict.cause.confidence != v.CONFIRMED
    assert verdict.initiator.rank == 0


def test_a_task_that_srun_saw_die_of_a_signal_is_a_fault_of_its_host() -> None:
    verdict = made.judged(
        made.console(made.task_ended("c3", 2, "Segmentation fault (core dumped)"))
    )

    assert verdict.cause.id == "process.segfault"
    assert verdict.cause.confidence == v.LIKELY
    assert (verdict.initiator.rank, verdict.initiator.host) == (None, "c3")


def test_tasks_that_ended_badly_without_a_word_are_named_by_their_hosts() -> None:
    verdict = made.judged(
        made.console(made.task_ended("c3", 2), made.task_ended("c1", 0, "Terminated"))
    )

    assert verdict.cause.id == "unknown"
    assert verdict.initiator.host == "c3"
    assert verdict.initiator.confidence == v.LIKELY


STUCK = (
    "[PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds "
    "without making progress in monitoring enqueued collectives."
)
CAUGHT = (
    "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=BROADCAST"
)


def watchdog(*words: str) -> Document:
    """Rank 1 says so and aborts; rank 0 lost it."""
    said = [f"[default1]:[rank1]:[E1130 10:00:03.1 ProcessGroupNCCL.cpp:1393] {w}" for w in words]
    return made.console(
        said,
        made.of_rank(0, 0, made.raised(made.PEER)),
        made.noticed(1, 701, -6),
        made.table((1, 1, -6, 701), (0, 0, 1, 700)),
    )


def test_a_watchdog_that_got_stuck_is_likely_what_its_abort_came_of() -> None:
    verdict = made.judged(watchdog(STUCK))

    assert (verdict.cause.id, verdict.cause.confidence) == ("process.stuck", v.LIKELY)
    assert verdict.initiator.rank == 1


def test_a_watchdog_that_got_stuck_after_a_timeout_only_waited() -> None:
    verdict = made.judged(watchdog(CAUGHT, STUCK))

    assert verdict.cause.id == "collective.timeout"


def crashed_after(*words: list[str]) -> Document:
    """Rank 1 aborts after these words; rank 0 lost it."""
    return made.console(
        *words,
        made.of_rank(0, 0, made.raised(made.PEER)),
        made.noticed(1, 701, -6),
        made.table((1, 1, -6, 701), (0, 0, 1, 700)),
    )


def test_an_abort_that_cost_others_a_peer_is_none_at_the_exit_for_a_line_of_nobodys() -> None:
    verdict = made.judged(crashed_after(["pre-training finished, now the evaluation"]))

    assert (verdict.cause.id, verdict.cause.confidence) == ("process.abort", v.LIKELY)


def test_an_abort_of_a_rank_that_said_it_had_finished_is_one_at_the_exit() -> None:
    verdict = made.judged(crashed_after(["[default1]:training finished"]))

    assert verdict.cause.id == "process.abort-at-exit"
