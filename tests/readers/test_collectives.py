"""What NCCL's watchdog tells of a rank's collectives."""

from __future__ import annotations

from functools import partial

import pytest

from firstfault.model.event import Lagging, WorkStatus
from firstfault.model.line import Line, Place, Speaker
from firstfault.readers.collectives import collective_state
from tests.readers.steps import steps


def read(text: str) -> WorkStatus | Lagging | None:
    return collective_state(Line(Place("log", 0, 1, text), Speaker(), text))


@pytest.mark.parametrize(
    ("text", "group", "rank", "enqueued", "completed"),
    [
        (
            "[PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued NCCL work: 1, last completed NCCL work: -1.",
            "0", 2, 1, -1,
        ),
        (
            "[PG 1 Rank 4] Exception (either an error or timeout) detected by watchdog at work: 8, last enqueued NCCL work: 9, last completed NCCL work: 7.",
            "1", 4, 9, 7,
        ),
        (
            "[PG ID 0 PG GUID 0(default_pg) Rank 1]  failure detected by watchdog at work sequence id: 8 PG status: last enqueued work: 9, last completed work: 7",
            "ID 0 PG GUID 0(default_pg)", 1, 9, 7,
        ),
        (
            "[PG ID 0 PG GUID 0(default_pg) Rank 6] Received a dump signal due to a collective timeout from  rank 7 and we will try our best to dump the debug info. Last enqueued NCCL work: 9, last completed NCCL work: 7.This is",
            "ID 0 PG GUID 0(default_pg)", 6, 9, 7,
        ),
    ],
)  # fmt: skip
def test_each_versions_words_are_read(
    text: str, group: str, rank: int, enqueued: int, completed: int
) -> None:
    found = read(f"[E1130 10:00:05.000000000 ProcessGroupNCCL.cpp:1664] {text}")

    assert isinstance(found, WorkStatus)
    assert (found.group, found.rank, found.enqueued, found.completed) == (
        group, rank, enqueued, completed,
    )  # fmt: skip


def test_the_report_on_a_desync_names_ranks() -> None:
    found = read(
        "\t     [1, 3] finished collective #7, but didn't join collective #8 (count from 1)"
    )

    assert isinstance(found, Lagging)
    assert found.ranks == (1, 3)


@pytest.mark.parametrize(
    "text",
    [
        "last enqueued NCCL work: 9, last completed NCCL work: 7",
        "[PG 1 Rank 4] ProcessGroupNCCL initialization options: size: 4",
        "\t   - [1] joined but didn't finish collective #8 (count from 1)",
        "the lagging ranks of our team didn't join the meeting",
    ],
)
def test_other_lines_tell_nothing(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "[PG 0 Rank 1]" * 5_000 + " work: ",
        "[PG " * 16_000 + " work: ",
        "[1, " * 16_000 + "didn't join",
    ],
    ids=["prefixes", "heads", "ranks"],
)
def test_a_hostile_line_is_gone_through_once(text: str) -> None:
    steps(partial(read, text[:65_536]), 20_000)
