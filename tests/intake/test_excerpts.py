"""Small files are kept whole, huge ones where a failure can show."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator
from typing import BinaryIO, cast

import pytest

from firstfault.intake.excerpts import WHOLE, Cut, cut
from firstfault.model.document import Document
from firstfault.streams.lines import raw_lines

LINE = b"[rank0]: step 1234 loss 0.5 throughput 1234.5\n"


class Made:
    """A stream of parts that takes no memory of its whole size."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._rest = b""

    def read(self, size: int) -> bytes:
        if not self._rest:
            self._rest = next(self._parts, b"")
        part, self._rest = self._rest[:size], self._rest[size:]
        return part


def made(*parts: tuple[bytes, int]) -> Cut:
    """The cut of each part so many times over."""
    stream = Made(part for part, times in parts for _ in range(times))
    return cut(cast(BinaryIO, stream))


def quoted(kept: Cut, text: str) -> list[tuple[int, int | None]]:
    document = Document("a", kept.excerpts)
    return [(place.offset, place.line) for place, line in raw_lines(document) if text in line]


def test_a_small_file_is_kept_whole() -> None:
    kept = cut(io.BytesIO(LINE * 10))

    assert (kept.complete, kept.size) == (True, 10 * len(LINE))
    assert [(each.offset, each.line, each.data) for each in kept.excerpts] == [(0, 1, LINE * 10)]


def test_an_empty_file_has_no_excerpt() -> None:
    assert cut(io.BytesIO()) == Cut((), True, 0)


BLOCK = LINE * 20_000
HALF = 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(0, 2 * HALF, id="head", marks=pytest.mark.slow),
        pytest.param(HALF, HALF, id="middle"),
        pytest.param(2 * HALF, 0, id="tail", marks=pytest.mark.slow),
    ],
)
def test_a_failure_is_kept_wherever_it_stands_in_a_huge_file(before: int, after: int) -> None:
    kept = made((BLOCK, before), (b"ValueError: bad shape\n", 1), (BLOCK, after))

    assert not kept.complete
    assert kept.size == len(BLOCK) * 2 * HALF + 22
    assert quoted(kept, "ValueError") == [(len(BLOCK) * before, 20_000 * before + 1)]


@pytest.mark.slow
def test_what_is_kept_of_a_huge_file_is_little_and_in_order() -> None:
    kept = made((BLOCK + b"Traceback (most recent call last):\n", 4 * HALF))

    assert sum(len(each.data) for each in kept.excerpts) < 50 << 20
    ends = [each.offset + len(each.data) for each in kept.excerpts]
    starts = [each.offset for each in kept.excerpts]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    assert quoted(kept, "Traceback")[0] == (len(BLOCK), 20_001)


@pytest.mark.slow
def test_every_line_of_a_huge_files_excerpts_has_its_own_place() -> None:
    numbered = b"".join(b"%09d %s\n" % (n, b"x" * 90) for n in range(400_000))
    numbered = numbered.replace(b"000200000 xxxxxxx", b"000200000 Error: ")

    kept = cut(io.BytesIO(numbered))

    assert len(kept.excerpts) >= 3
    for excerpt in kept.excerpts:
        data = excerpt.data
        assert excerpt.line is not None
        assert int(data[:9]) == excerpt.line - 1
        assert data == numbered[excerpt.offset : excerpt.offset + len(data)]


@pytest.mark.slow
def test_a_file_at_the_limit_is_whole_and_one_byte_more_is_not() -> None:
    assert cut(io.BytesIO(b"x" * WHOLE)).complete
    assert not cut(io.BytesIO(b"x" * (WHOLE + 1))).complete


@pytest.mark.slow
def test_a_huge_file_of_one_line_takes_bounded_memory() -> None:
    tracemalloc.start()

    kept = made((b"\r 10%|####" * 100_000, 200), (b"\rValueError: boom\n", 1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert kept.size > 190 << 20
    assert quoted(kept, "ValueError: boom")
    assert peak < 160 << 20
