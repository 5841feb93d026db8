"""Which process is which rank, as NCCL says it."""

from __future__ import annotations

import pytest

from firstfault.readers.communicators import member
from tests.readers.logs import line


@pytest.mark.parametrize(
    "words",
    [
        "comm 0x7efe60002250 rank 3 nranks 8 cudaDev 0 nvmlDev 0 - Init COMPLETE",
        "comm 0x7f4528002e10 rank 3 nranks 8 cudaDev 1 busId 86000 - Init COMPLETE",
        "comm 0xaa2f160 rank 3 nranks 8 cudaDev 0 nvmlDev 0 busId 8000 commId 0x551d06754c6bacf2 - Init START",
        "ncclCommInitRank comm 0xaa2f160 rank 3 nranks 8 cudaDev 0 nvmlDev 0 busId 8000 commId 0x551d - Init START",
        "ncclCommSplit comm 0xaa2f160 rank 3 nranks 8 cudaDev 0 nvmlDev 0 busId 8000 parent 0x2f0 splitCount 1 color 0 key 3- Init START",
    ],
)
def test_a_communicators_member_is_read(words: str) -> None:
    found = member(line(f"n3:4411:4502 [1] NCCL INFO {words}"))

    assert found is not None
    assert (found.host, found.pid, found.rank, found.size, found.known) == ("n3", 4411, 3, 8, False)


@pytest.mark.parametrize(
    "text",
    [
        "n3:4411:4502 [1] NCCL INFO rank 3 nranks 8",
        "n3:4411:4502 [1] NCCL INFO comm 0x7f45 rank 9 nranks 8 cudaDev 1 - Init COMPLETE",
        "n3:4411:4502 [1] NCCL INFO comm 0x7f45 rank 3 nRanks 8 nNodes 2 localRanks 4",
        "comm 0x7f45 rank 3 nranks 8 cudaDev 1 - Init COMPLETE",
    ],
)
def test_other_lines_are_none(text: str) -> None:
    assert member(line(text)) is None
