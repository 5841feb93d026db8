"""Which parts of a log are taken."""

from __future__ import annotations

import os
import random
import re
import resource
import time
from pathlib import Path

import pytest

from firstfault_epilog import anchors, excerpts, grep, search

ANCHORS = anchors.read()
BUDGET = 96 << 10
QUIET = b"[default0]: step %d loss 0.1234 tokens/s 4821\n"


def cut(tmp_path: Path, data: bytes, budget: int = BUDGET) -> excerpts.Cut:
    path = tmp_path / "log"
    path.write_bytes(data)
    handle = os.open(path, os.O_RDONLY)
    try:
        found = excerpts.cut(handle, len(data), budget, ANCHORS, time.monotonic() + 30)
    finally:
        os.close(handle)
    end = 0
    for excerpt in found.excerpts:
        assert data[excerpt.offset : excerpt.offset + len(excerpt.data)] == excerpt.data
        assert excerpt.offset >= end, "in order, not overlapping"
        assert excerpt.line in (None, 1 + data[: excerpt.offset].count(b"\n"))
        end = excerpt.offset + len(excerpt.data)
    return found


def text(found: excerpts.Cut) -> bytes:
    return b"".join(excerpt.data for excerpt in found.excerpts)


def quiet(count: int, start: int = 0) -> bytes:
    return b"".join(QUIET % n for n in range(start, start + count))


def test_a_small_file_is_whole(tmp_path: Path) -> None:
    data = quiet(1000)

    found = cut(tmp_path, data)

    assert found.complete and text(found) == data


def test_of_a_large_file_head_tail_and_the_lines_around_anchors_are_taken(tmp_path: Path) -> None:
    data = quiet(50_000) + b"RuntimeError: NCCL error\n" + quiet(50_000, 50_000)

    found = cut(tmp_path, data)

    assert not found.complete and found.note is None
    assert len(found.excerpts) == 3
    assert b"step 0 " in text(found) and b"step 99999 " in text(found)
    assert b"step 49998 " in text(found) and b"step 50005 " in text(found)
    assert all(e.line is not None for e in found.excerpts)


def test_a_traceback_is_kept_whole(tmp_path: Path) -> None:
    frames = b"".join(b'  File "a.py", line %d, in f\n    f()\n' % n for n in range(80))
    trace = b"Traceback (most recent call last):\n" + frames + b"MyOwnProblem: no batch\n"
    data = quiet(50_000) + trace + quiet(50_000)

    assert trace in text(cut(tmp_path, data))


def test_an_anchor_across_two_chunks_is_found(tmp_path: Path) -> None:
    line = b"RuntimeError: CUDA error\n"
    for shift in (5, 10, 20):
        before = grep.CHUNK * 3 - shift
        data = b"x" * 79 + b"\n"
        data = (data * (before // 80 + 1))[: before - 1] + b"\n" + line + quiet(20_000)

        assert line in text(cut(tmp_path, data))


def test_the_first_occurrences_are_kept_before_the_last_ones(tmp_path: Path) -> None:
    data = quiet(20_000) + b"".join(b"ValueError: number %d\n" % n + quiet(20) for n in range(4000))

    found = cut(tmp_path, data)

    assert b"ValueError: number 0\n" in text(found)
    assert b"ValueError: number 3999\n" in text(found)
    assert len(text(found)) <= BUDGET * 1.1


def test_a_rare_anchor_is_found_among_many_of_another_kind(tmp_path: Path) -> None:
    data = quiet(2000) + b"Connection reset by peer [1]\n" * 3000 + b"CUDA error: ecc\n"
    data += b"Connection reset by peer [2]\n" * 1500 + quiet(2000)

    assert b"CUDA error: ecc\n" in text(cut(tmp_path, data))


@pytest.mark.slow
def test_a_line_of_a_hundred_megabytes_is_searched_in_bounded_memory(tmp_path: Path) -> None:
    data = bytearray(b"x" * 100_000_000)
    data[70_000_000:70_000_017] = b"CUDA error: x \r y"
    data += b"\nlast line\n"

    found = cut(tmp_path, bytes(data))

    assert b"CUDA error: x" in text(found)
    assert text(found).endswith(b"last line\n")
    assert len(text(found)) <= BUDGET * 1.1


@pytest.mark.parametrize("unit", [b"\r", b"\x00", b"\xff", b"\n", b"ab\xe2\x82"])
def test_bytes_that_are_no_lines_are_normal_input(tmp_path: Path, unit: bytes) -> None:
    data = unit * (300_000 // len(unit)) + b"MemoryError: \n" + unit * 50_000

    found = cut(tmp_path, data)

    assert len(text(found)) <= BUDGET * 1.1
    assert b"MemoryError" in text(found)


def test_without_grep_start_and_end_are_searched_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "PATHS", ("/nonexistent/grep",))
    data = quiet(2000) + b"CUDA error: x\n" + quiet(60_000)

    found = cut(tmp_path, data)

    assert b"CUDA error: x\n" in text(found)
    assert "no grep" in (found.note or "")


def test_when_time_is_up_head_and_tail_are_there_and_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log"
    data = quiet(100_000)
    path.write_bytes(data)
    handle = os.open(path, os.O_RDONLY)

    found = excerpts.cut(handle, len(data), BUDGET, ANCHORS, time.monotonic() - 1)
    os.close(handle)

    assert b"step 0 " in text(found) and b"step 99999 " in text(found)
    assert "time ran out" in (found.note or "")


def test_a_file_that_shrinks_while_it_is_read_is_not_called_complete(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"short\n")
    handle = os.open(path, os.O_RDONLY)

    found = excerpts.cut(handle, 5000, BUDGET, ANCHORS, time.monotonic() + 5)
    os.close(handle)

    assert not found.complete and "shrank" in (found.note or "")


def test_hits_stand_where_they_are_whatever_the_lines_lengths(tmp_path: Path) -> None:
    numbers = random.Random(7)
    path = tmp_path / "log"
    for _ in range(20):
        data = b""
        for _ in range(12):
            data += b"." * int(10 ** numbers.uniform(0, 5.4))
            data += numbers.choice([b"\n", b"", b"CUDA error", b"CUDA error\n"])
        path.write_bytes(data)
        handle = os.open(path, os.O_RDONLY)
        found = search.search(handle, len(data), ANCHORS, time.monotonic() + 10)
        os.close(handle)

        lines = {match.start(): match.group() for match in re.finditer(rb"[^\n]+", data)}
        expected = {at for at, line in lines.items() if b"CUDA error" in line}
        hits = {hit.offset for hit in (*found.first, *found.last)}
        assert hits == expected
        assert all(data[:at].count(b"\n") == before for at, before in found.newlines)


def test_an_anchor_far_into_a_line_is_in_the_excerpt(tmp_path: Path) -> None:
    data = quiet(2000) + b"." * 50_000 + b" CUDA error: here " + b"." * 50_000 + b"\n" + quiet(2000)

    assert b" CUDA error: here " in text(cut(tmp_path, data))


def test_what_is_rare_is_found_in_a_log_of_which_each_second_line_is_a_warning(
    tmp_path: Path,
) -> None:
    data = b"".join(b"[%d] after Error: shard %d\nstep\n" % (n % 8, n) for n in range(200_000))
    fault = b"ValueError: expected 4 features, got 5\n"
    middle = len(data) // 2 - 1
    middle = data.index(b"\n", middle) + 1
    data = data[:middle] + fault + data[middle:]

    found = cut(tmp_path, data)

    assert fault in text(found)
    assert b"shard 199999\n" in text(found)
    assert found.note is None, "all of it was searched"


def test_a_log_full_of_lines_that_all_differ_says_how_much_was_not_searched(
    tmp_path: Path,
) -> None:
    numbers = random.Random(5)
    data = b"".join(b"Error: %s\n" % numbers.randbytes(40).hex().encode() for _ in range(400_000))

    found = cut(tmp_path, data)

    assert "too many lines match" in (found.note or "")
    assert data[-50:] in text(found)


def test_an_errors_stack_is_kept_with_it_where_other_stacks_came_before(tmp_path: Path) -> None:
    trace = b'Traceback (most recent call last):\n  File "a.py", line %d, in f\n    f()\n'
    caught = b"".join(trace % n + b"TimeoutError: shard %d\n" % n + quiet(30) for n in range(900))
    fault = trace % 7 + b"    g()\n" * 5 + b"ValueError: it is this one\n"
    data = quiet(2000) + caught + fault + quiet(2000) + caught

    assert fault in text(cut(tmp_path, data))


def test_a_pipe_of_a_file_system_that_cannot_send_is_filled_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "sendfile", refuse)
    data = quiet(50_000) + b"CUDA error: x\n" + quiet(50_000)

    assert b"CUDA error: x\n" in text(cut(tmp_path, data))


@pytest.mark.parametrize("ending", ["kill -9 $$", "exit 2"])
def test_a_grep_that_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    failing = tmp_path / "grep"
    failing.write_text(f"#!/bin/sh\ncat >/dev/null\n{ending}\n")
    failing.chmod(0o755)
    monkeypatch.setattr(grep, "PATHS", (str(failing),))

    found = cut(tmp_path, quiet(20_000))

    assert "grep failed" in (found.note or "")
    assert b"step 0 " in text(found) and b"step 19999 " in text(found)


@pytest.mark.parametrize("length", [20, 70, 150])
def test_many_kinds_of_long_lines_do_not_make_the_search_slow(tmp_path: Path, length: int) -> None:
    numbers = random.Random(3)
    kinds = [bytes(numbers.choices(range(97, 123), k=length)) for _ in range(80)]
    data = b"".join(b"Error: 1%s\n" % kinds[n % 80] for n in range(120_000))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime

    found = cut(tmp_path, data)

    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 2
    assert data[-length:] in text(found)
