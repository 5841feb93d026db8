"""Ranks whose silence is the evidence."""

from __future__ import annotations

import pytest

from tests.diagnosis import made

LOST = (
    "RuntimeError: [/src/third_party/gloo/gloo/transport/tcp/pair.cc:553] "
    "Connection closed by peer [10.0.0.7]:4017. "
)
WAITED = (
    "RuntimeError: [/src/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] "
    "Timed out waiting 20000ms for recv operation to complete"
)
WORLD = "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/4"


def failed(rank: int, error: str) -> list[str]:
    return made.of_task(rank, made.of_rank(0, rank, made.raised(error)))


def ended(rank: int) -> list[str]:
    pid = 700 + rank
    return made.of_task(rank, made.noticed(0, pid, 1), made.table((rank, 0, 1, pid)))


@pytest.mark.parametrize(
    ("error", "cause"), [(LOST, "collective.peer-lost"), (WAITED, "collective.timeout")]
)
def test_the_one_rank_that_nobody_heard_is_whom_all_others_miss(error: str, cause: str) -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, [WORLD])),
            *(failed(rank, error) for rank in range(3)),
            *(ended(rank) for rank in range(3)),
        )
    )

    assert verdict.cause.id == cause
    assert verdict.cause.confidence == "likely"
    assert (verdict.initiator.rank, verdict.initiator.confidence) == (3, "likely")


def test_of_two_ranks_that_nobody_heard_none_is_named() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, [WORLD])),
            *(failed(rank, LOST) for rank in range(2)),
            *(ended(rank) for rank in range(2)),
        )
    )

    assert verdict.cause.id == "collective.peer-lost"
    assert verdict.initiator.rank is None


def test_without_a_word_of_how_many_ranks_there_were_none_is_named() -> None:
    verdict = made.judged(
        made.console(
            *(failed(rank, LOST) for rank in range(3)), *(ended(rank) for rank in range(3))
        )
    )

    assert verdict.cause.id == "collective.peer-lost"
    assert verdict.initiator.rank is None


def test_a_rank_that_waited_is_not_taken_for_one_that_did_not_come() -> None:
    verdict = made.judged(made.console(*(failed(rank, WAITED) for rank in range(2))))

    assert verdict.cause.id == "collective.timeout"
    assert verdict.initiator.rank is None
