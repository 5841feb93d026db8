"""How many ranks there are, as programs say it."""

from __future__ import annotations

import pytest

from firstfault.readers.world import world_size
from tests.readers.logs import line


@pytest.mark.parametrize(
    ("text", "size", "rank"),
    [
        ("Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/8", 8, 3),
        ("initializing ddp: GLOBAL_RANK: 0, MEMBER: 1/2", 2, 0),
        ("using world size: 16, data-parallel size: 4", 16, None),
        ("[launch.py:151:main] dist_world_size=8", 8, None),
        ("rank=0 world_size=32", 32, None),
        ("WORLD_SIZE=4", 4, None),
    ],
)
def test_a_worlds_size_is_read(text: str, size: int, rank: int | None) -> None:
    found = world_size(line(text))

    assert found is not None
    assert (found.size, found.rank) == (size, rank)


@pytest.mark.parametrize(
    "text",
    [
        "hello world 8",
        "world_size=0",
        "world size: 8.5",
        "my_world_sizes: 8",
        "Initializing distributed: GLOBAL_RANK: 9, MEMBER: 10/8",
    ],
)
def test_other_numbers_are_no_size(text: str) -> None:
    assert world_size(line(text)) is None
