"""Ranks that are behind by what the NCCL watchdogs say."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made

WORLD = "ID 0 PG GUID 0(default_pg)"
OLD = "0"


def timed_out(rank: int, work: int) -> str:
    return (
        f"[rank{rank}]:[E1130 10:00:05.000000000 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog "
        f"caught collective operation timeout: WorkNCCL(SeqNum={work}, OpType=ALLREDUCE, NumelIn=64, "
        "NumelOut=64, Timeout(ms)=600000) ran for 600061 milliseconds before timing out."
    )


def status(rank: int, last: int, done: int, group: str = WORLD, number: int | None = None) -> str:
    return (
        f"[rank{rank}]:[E1130 10:00:05.100000000 ProcessGroupNCCL.cpp:2168] [PG {group} Rank "
        f"{rank if number is None else number}]  failure detected by watchdog at work sequence id: "
        f"{done + 1} PG status: last enqueued work: {last}, last completed work: {done}"
    )


def dumped(rank: int, last: int, done: int, by: int = 0) -> str:
    return (
        f"[rank{rank}]:[E1130 10:00:05.200000000 ProcessGroupNCCL.cpp:1858] [PG {WORLD} Rank {rank}] "
        f"Received a dump signal due to a collective timeout from  rank {by} and we will try our best "
        f"to dump the debug info. Last enqueued NCCL work: {last}, last completed NCCL work: {done}."
    )


def told(*lines: str) -> v.Verdict:
    return made.judged(made.console(list(lines)), made.accounting("FAILED"))


def waiting(*ranks: int, group: str = WORLD) -> list[str]:
    return [line for r in ranks for line in (timed_out(r, 8), status(r, 9, 7, group))]


def test_the_one_rank_that_has_not_begun_what_all_others_wait_in_is_likely_the_one() -> None:
    verdict = told(*waiting(0, 1, 3), dumped(2, 7, 7))

    assert (verdict.cause.id, verdict.cause.confidence) == ("collective.timeout", v.LIKELY)
    assert (verdict.initiator.rank, verdict.initiator.confidence) == (2, v.LIKELY)
    assert "[rank2]" in verdict.evidence[0].text


def test_of_two_ranks_the_one_behind_is_possible() -> None:
    verdict = told(*waiting(0), dumped(1, 7, 7))

    assert verdict.initiator.rank is None
    assert [each.rank for each in verdict.initiator.candidates] == [1]
    assert verdict.initiator.confidence == v.POSSIBLE


def test_several_that_are_behind_are_the_candidates() -> None:
    verdict = told(*waiting(0, 1, 4), dumped(2, 7, 7), dumped(3, 7, 7))

    assert [each.rank for each in verdict.initiator.candidates] == [2, 3]


@pytest.mark.parametrize(
    "lines",
    [
        [*waiting(0, 1, 2, 3)],
        # It has begun what the others wait in: it waits, too.
        [*waiting(0, 1, 3), dumped(2, 8, 7)],
        # One rank alone began what the others know nothing of.
        [*waiting(0), dumped(1, 7, 7), dumped(2, 7, 7), dumped(3, 7, 7)],
        # The numbers of two groups.
        [*waiting(0, 1, 3), status(2, 4, 4, "ID 5 PG GUID 17")],
        # A group's own numbers are no ranks.
        [*waiting(4, 5, 7), status(6, 7, 7, WORLD, number=2)],
        [timed_out(0, 8), timed_out(1, 8), timed_out(2, 4)],
    ],
    ids=["all alike", "begun", "one ahead", "two groups", "other numbers", "no status"],
)
def test_where_the_numbers_do_not_tell_nobody_is_named(lines: list[str]) -> None:
    verdict = told(*lines)

    assert (verdict.cause.id, verdict.cause.confidence) == ("collective.timeout", v.LIKELY)
    assert verdict.initiator == v.Initiator()


def test_numbers_that_are_uninitialized_memory_are_none() -> None:
    insane = 76_280_750_235_782_912
    lines = [line for r in (0, 1, 3) for line in (timed_out(r, 1), status(r, 1, insane, OLD))]
    verdict = told(*lines, status(2, -1, insane, OLD), timed_out(2, 1))

    assert (verdict.initiator.rank, verdict.initiator.confidence) == (2, v.LIKELY)


def test_a_failure_with_a_reason_stands_above_the_ranks_that_waited() -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"
    own = [f"[rank2]: {line}" for line in made.raised(error)]
    verdict = told(*own, *waiting(0, 1, 3))

    assert (verdict.cause.id, verdict.initiator.rank) == ("memory.gpu-oom", 2)


@pytest.mark.parametrize(
    "report",
    [
        "\t - To our best knowledge, ranks [2] are the lagging ranks that caused this timeout. They never joined any collectives",
        "\t     [2] finished collective #7, but didn't join collective #8 (count from 1)",
    ],
)
def test_torchs_own_report_on_a_desync_names_the_rank(report: str) -> None:
    verdict = told(timed_out(0, 8), timed_out(1, 8), report)

    assert (verdict.cause.id, verdict.cause.confidence) == ("collective.timeout", v.LIKELY)
    assert (verdict.initiator.rank, verdict.initiator.confidence) == (2, v.LIKELY)


def test_of_several_ranks_in_torchs_report_each_is_a_candidate() -> None:
    report = (
        "\t - To our best knowledge, ranks [2, 3] are the lagging ranks that caused this timeout."
    )
    verdict = told(timed_out(0, 8), timed_out(1, 8), report)

    assert verdict.initiator.rank is None
    assert [each.rank for each in verdict.initiator.candidates] == [2, 3]
