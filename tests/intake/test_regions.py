"""Parts of a file are kept apart and in order, and read as whole lines with their numbers."""

from __future__ import annotations

import io
import random
from typing import BinaryIO, cast

import pytest

from firstfault.intake.regions import LONGEST_LINE, LineReader, Regions


def test_parts_that_touch_are_one_and_each_byte_counts_once() -> None:
    regions = Regions(100)
    for part in [(50, 60), (10, 20), (20, 25), (15, 55), (90, 95)]:
        regions.add(*part)

    assert list(regions.parts) == [(10, 60), (90, 95)]
    assert regions.size == 55


def test_a_part_for_which_there_is_no_room_is_left_out_and_a_smaller_one_is_not() -> None:
    regions = Regions(30)
    for part in [(0, 20), (40, 60), (60, 70)]:
        regions.add(*part)

    assert list(regions.parts) == [(0, 20), (60, 70)]


class Unseekable:
    def __init__(self, data: bytes) -> None:
        self.read = io.BytesIO(data).read


@pytest.mark.parametrize("seekable", [True, False])
def test_each_part_read_is_of_whole_lines_with_its_place(seekable: bool) -> None:
    numbers = random.Random(3)
    lines = [b"%d %s" % (n, b"x" * numbers.randrange(300)) for n in range(1, 2_000)]
    data = b"\n".join(lines)
    marks = [(at, data.count(b"\n", 0, at) + 1) for at in range(0, len(data), 1_000)]
    for _ in range(20):
        regions = Regions(len(data))
        for _ in range(numbers.randrange(1, 20)):
            begin = numbers.randrange(len(data))
            regions.add(begin, min(len(data), begin + numbers.randrange(1, 9_000)))
        stream = io.BytesIO(data) if seekable else Unseekable(data)
        reader = LineReader(cast(BinaryIO, stream), marks)
        end = 0
        for part in regions.parts:
            excerpt = reader.part(*part)
            if excerpt is None:
                continue

            assert excerpt.offset >= end
            assert data[excerpt.offset : excerpt.offset + len(excerpt.data)] == excerpt.data
            assert excerpt.line is not None
            # A part within one line is a piece of it, any other begins where a line does.
            line = lines[excerpt.line - 1]
            assert excerpt.data.startswith(line) or excerpt.data.rstrip() in line
            assert excerpt.data.startswith(line) or excerpt.data.count(b"\n") <= 1
            end = excerpt.offset + len(excerpt.data)
            assert end >= part[1]
            assert excerpt.data.endswith(b"\n") or end == len(data)


def test_a_line_longer_than_a_part_is_read_in_part() -> None:
    data = b"a" * (LONGEST_LINE * 4)
    reader = LineReader(io.BytesIO(data), [(0, 1)])

    excerpt = reader.part(1_000, 2_000)

    assert excerpt is not None
    assert (excerpt.offset, excerpt.line) == (1_000, 1)
    assert 1_000 <= len(excerpt.data) <= LONGEST_LINE + 1_000
