"""What launchers say of ends of processes that no rank is known of."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.readers.logs import document

DEEPSPEED = (
    "[2026-03-02 10:00:05,123] [ERROR] [launch.py:325:sigkill_handler] "
    "['python3', 't.py', '--local_rank=1'] exits with return code = {}\n"
)
OLD = "subprocess.CalledProcessError: Command '['python3', 't.py', '--local_rank=3']' died with <Signals.{}>.\n"  # fmt: skip


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (DEEPSPEED.format(-9), "process.killed"),
        (DEEPSPEED.format(-11), "process.segfault"),
        (OLD.format("SIGBUS: 7"), "process.bus-error"),
    ],
)
def test_the_cause_is_likely_and_nobody_is_named(text: str, cause: str) -> None:
    verdict = made.judged(document(text))

    assert (verdict.cause.id, verdict.cause.confidence) == (cause, v.LIKELY)
    assert verdict.initiator.rank is None


def test_an_exit_code_alone_tells_no_cause() -> None:
    verdict = made.judged(document(DEEPSPEED.format(1)))

    assert verdict.cause.confidence not in (v.CONFIRMED,)


def test_a_ranks_own_words_outweigh_its_launchers() -> None:
    error = 'Traceback (most recent call last):\n  File "t.py", line 1, in f\nKeyError: 1\n'

    assert made.judged(document(error + DEEPSPEED.format(1))).cause.id == "python.exception"
