"""A fatal signal that nothing but faulthandler's words tells, of nobody in particular."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made


def dumped(word: str) -> list[str]:
    """faulthandler's dump, as CPython 3.12 writes it."""
    return [
        f"Fatal Python error: {word}",
        "",
        "Thread 0x00007f31c2fff6c0 (most recent call first):",
        '  File "/usr/lib/python3.12/threading.py", line 359 in wait',
        "",
        "Current thread 0x00007f3162067300 (most recent call first):",
        '  File "/home/eve/run/loop.py", line 31 in step',
        "",
        "Extension modules: numpy.core._multiarray_umath (total: 1)",
    ]


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        ("Segmentation fault", "process.segfault"),
        ("Bus error", "process.bus-error"),
        ("Aborted", "process.abort"),
        ("Illegal instruction", "process.fatal-signal"),
    ],
)
def test_a_signal_in_a_console_that_ends_there_is_told(word: str, cause: str) -> None:
    verdict = made.judged(made.console(made.WORK, dumped(word)))

    assert (verdict.cause.id, verdict.cause.confidence) == (cause, v.LIKELY)
    assert "loop.py:31" in verdict.cause.title or "SIGILL" in verdict.cause.title
    assert verdict.initiator.rank is None


def test_behind_a_progress_bar_it_is_told_too() -> None:
    bar = "  6%|6         | 89/1398 [1:32:11<25:28:13, 70.05s/it]"
    verdict = made.judged(
        made.console([f"{bar}Fatal Python error: Segmentation fault", "", "  <no Python frame>"])
    )

    assert verdict.cause.id == "process.segfault"


def test_an_abort_of_who_waited_in_vain_is_no_fault_of_its_own() -> None:
    waited = (
        "[rank1]:[E1130 10:00:00.000000000 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600001 milliseconds before timing out."
    )
    verdict = made.judged(made.console([waited], dumped("Aborted")))

    assert verdict.cause.id == "collective.timeout"


def test_a_crash_behind_a_rank_that_raised_stands_back() -> None:
    error = "KeyError: 'shard'"
    verdict = made.judged(
        made.console(made.hooked(1, made.raised(error)), dumped("Segmentation fault"))
    )

    assert verdict.cause.id == "python.exception"


@pytest.mark.parametrize(
    ("word", "cause"),
    [("Aborted", "process.abort"), ("Segmentation fault", "process.segfault")],
)
def test_a_loaders_first_word_tells_what_its_worker_died_of(word: str, cause: str) -> None:
    verdict = made.judged(
        made.console(
            made.raised(
                f"RuntimeError: DataLoader worker (pid 4711) is killed by signal: {word}. "
            ),
            ["", "The above exception was the direct cause of the following exception:", ""],
            made.raised("RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly"),
        )
    )

    assert (verdict.cause.id, verdict.cause.confidence) == (cause, v.LIKELY)
