"""Lines with anchors are found by grep and by Python, at their places."""

from __future__ import annotations

import io
import random

import pytest

from firstfault.intake import search
from firstfault.intake.search import (
    CHUNK,
    LINE_MAX,
    GrepFailed,
    search_with,
    search_without,
)

GREP = search.grep() or ""


def by_grep(data: bytes) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    search_with(GREP, io.BytesIO(data), lambda *hit: found.append(hit), lambda *_: None)
    return found


def by_python(data: bytes) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    search_without(io.BytesIO(data), lambda *hit: found.append(hit), lambda *_: None)
    return found


def made() -> bytes:
    numbers = random.Random(5)
    lines = []
    size = 0
    while size < 3 * CHUNK:
        alarm = numbers.random() < 0.001
        lines.append(b"ValueError: boom" if alarm else b"step 1 " + b"x" * numbers.randrange(200))
        size += len(lines[-1]) + 1
    return b"\n".join(lines)


def test_grep_and_python_find_the_same_lines_at_their_places() -> None:
    data = made()

    found = by_grep(data)

    assert len(found) > 10
    assert found == by_python(data)
    assert all(data.startswith(text, offset) for offset, text in found)


@pytest.mark.parametrize("find", [by_grep, by_python])
def test_what_follows_a_line_of_megabytes_is_found_at_its_place(find: object) -> None:
    assert callable(find)
    data = b"x" * (2 * CHUNK + 77) + b"\nCUDA error: a\n" + b"y" * LINE_MAX + b"\nCUDA error: b\n"

    places = [offset for offset, text in find(data) if text.startswith(b"CUDA error: ")]

    assert places == [data.index(b"CUDA error: a"), data.index(b"CUDA error: b")]


@pytest.mark.parametrize("find", [by_grep, by_python])
def test_an_anchor_across_two_chunks_is_found(find: object) -> None:
    assert callable(find)
    data = b"x" * 99 + b"\n"
    data = data * (CHUNK // len(data))
    data += b"." * (CHUNK - len(data) - 5) + b"\nCUDA error: a\n"

    assert [text for _, text in find(data)] == [b"CUDA error: a"]


def test_each_chunk_is_told_with_its_offset() -> None:
    data = made()
    chunks: list[tuple[int, bytes]] = []

    search_with(GREP, io.BytesIO(data), lambda *_: None, lambda *each: chunks.append(each))

    assert b"".join(chunk for _, chunk in chunks) == data
    assert all(data.startswith(chunk, offset) for offset, chunk in chunks)


def test_a_program_that_is_no_grep_is_told() -> None:
    with pytest.raises(GrepFailed):
        search_with("/nonexistent", io.BytesIO(b"x"), lambda *_: None, lambda *_: None)
