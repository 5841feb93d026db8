"""Any bytes become lines with their places and speakers."""

from __future__ import annotations

import tracemalloc

import pytest

from firstfault.model.document import Document, Excerpt
from firstfault.model.line import Speaker
from firstfault.streams.lines import LONGEST_QUOTE, RunFolder, lines, raw_lines, run_folder
from tests.readers.logs import document


def texts(data: str | bytes) -> list[str]:
    return [line.text for line in lines(document(data))]


def test_a_line_knows_its_first_byte_and_its_number() -> None:
    places = [place for place, _ in raw_lines(document("eins\nzwölf\n\ndrei"))]

    assert [(place.offset, place.line, place.text) for place in places] == [
        (0, 1, "eins"),
        (5, 2, "zwölf"),
        (12, 3, ""),
        (13, 4, "drei"),
    ]


def test_an_excerpt_keeps_its_place_in_the_file() -> None:
    cut = Document(
        "a", (Excerpt(0, 1, b"head\n"), Excerpt(5_000, 90, b"x\ny\n"), Excerpt(9, None, b"z"))
    )

    assert [(p.offset, p.line, p.text) for p, _ in raw_lines(cut)] == [
        (0, 1, "head"),
        (5_000, 90, "x"),
        (5_002, 91, "y"),
        (9, None, "z"),
    ]


def test_windows_line_ends_are_no_part_of_a_line() -> None:
    assert texts("[rank0]: a\r\n[rank0]: b\r\n") == ["a", "b"]


def test_a_progress_bars_states_are_lines_of_their_own() -> None:
    found = list(lines(document("\r 10%|#\r 20%|##\rTraceback (most recent call last):\nnext\n")))

    assert [line.text for line in found] == [
        "",
        " 10%|#",
        " 20%|##",
        "Traceback (most recent call last):",
        "next",
    ]
    assert {line.place.line for line in found} == {1, 2}


def test_a_message_after_a_long_progress_bar_is_still_read_and_quoted() -> None:
    bar = "\r".join(f"{step:6d}/9999 [00:01<00:02, 3.1it/s]" for step in range(5_000))

    *_, last = lines(document(f"{bar}\rRuntimeError: boom\n"))

    assert last.text == "RuntimeError: boom"
    assert last.place.text == "RuntimeError: boom"
    assert last.place.line == 1


def test_a_short_line_with_a_progress_bar_is_quoted_whole() -> None:
    *_, last = lines(document("  5%|#\rboom\n"))

    assert last.place.text == "  5%|#\rboom"
    assert last.place.offset == 0


def test_nul_bytes_terminal_codes_and_invalid_utf8_hide_nothing() -> None:
    assert texts(b"\x00\x00\x00[rank1]: \x1b[31mboom\x1b[0m \xff\xfe!\n") == ["boom \ufffd\ufffd!"]


def test_a_tee_prefix_after_a_carriage_return_stays_where_it_was_glued() -> None:
    found = list(lines(document("[default0]:  5%|#\r 10%|##\n")))

    assert [line.text for line in found] == ["  5%|#", " 10%|##"]


def test_a_huge_line_is_cut_and_the_next_one_found() -> None:
    found = list(raw_lines(document(b"x" * 5_000_000 + b"\nnext\n")))

    assert found[0][0].text == "x" * LONGEST_QUOTE
    assert sum(len(text) for place, text in found if place.line == 1) < 200_000
    assert (found[-1][0].offset, found[-1][1]) == (5_000_001, "next")


@pytest.mark.slow
def test_a_line_of_100_mb_takes_no_memory_of_its_size() -> None:
    huge = document(b"\r 10%|####" * 10_000_000 + b"\rRuntimeError: boom\nnext\n")
    tracemalloc.start()

    last = ""
    for _, text in raw_lines(huge):
        last = text
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert last == "next"
    assert peak < 20_000_000


def test_a_rank_is_known_by_its_place_in_torchruns_folders() -> None:
    name = "logs/14_y65n6__z/attempt_2/5/stderr.log"

    assert run_folder(name) == RunFolder("14_y65n6__z", 2, 5)
    assert run_folder(f"n4:/tmp/{name}") == RunFolder("14_y65n6__z", 2, 5)
    assert run_folder("logs/none_0/attempt_0/11/error.json") == RunFolder("none_0", 0, 11)


@pytest.mark.parametrize(
    "name", ["slurm.out", "attempt_0/1/stderr.log", "a/attempt_x/1/stdout.log"]
)
def test_other_files_are_in_no_run_folder(name: str) -> None:
    assert run_folder(name) is None


def test_a_rank_files_lines_are_its_own_even_where_they_look_labelled() -> None:
    text = "3: [rank7]: boom\n3: x\n3: y\n"
    found = list(lines(document(text, "logs/r/attempt_1/4/stderr.log", host="n2")))

    assert found[0].speaker == Speaker(host="n2", local_rank=4, run="r", attempt=1)
    assert found[0].text == "3: [rank7]: boom"


def test_the_files_host_is_its_lines_host_unless_a_prefix_names_another() -> None:
    found = list(lines(document("[rank1]: a\n[n9:0]:b\n", host="n2")))

    assert [line.speaker.host for line in found] == ["n2", "n9"]


def test_labels_are_peeled_where_the_file_has_them() -> None:
    found = list(lines(document("0: [default0]:a\n1: [default0]:b\n0: [default0]:c\nsrun: x\n")))

    assert [line.speaker.task for line in found] == [0, 1, 0, None]
