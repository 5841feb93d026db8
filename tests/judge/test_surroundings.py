"""The lines around a quoted one: few, whole, of the right file, and nobody else's."""

from __future__ import annotations

import pytest

from firstfault.judge.surroundings import LONGEST, MOST, surroundings
from firstfault.model import verdict as v
from firstfault.model.document import Document, Excerpt, Packer

NAME = "slurm-12.out"


def quote(data: bytes, text: str, *, file: str = NAME, source: str = "job output") -> v.Evidence:
    offset = data.index(text.encode())
    return v.Evidence("cause", source, None, file, data.count(b"\n", 0, offset) + 1, offset, text)


def document(data: bytes, name: str = NAME) -> Document:
    return Document(name, (Excerpt(0, 1, data),))


def around(data: bytes, text: str) -> tuple[v.Surroundings, ...]:
    return surroundings([quote(data, text)], [document(data)])


LINES = b"".join(b"line %d\n" % number for number in range(1, 10))


def test_three_lines_stand_on_each_side() -> None:
    assert around(LINES, "line 5") == (
        v.Surroundings(0, ("line 2", "line 3", "line 4"), ("line 6", "line 7", "line 8")),
    )


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("line 1", (), ("line 2", "line 3", "line 4")),
        ("line 2", ("line 1",), ("line 3", "line 4", "line 5")),
        ("line 8", ("line 5", "line 6", "line 7"), ("line 9",)),
        ("line 9", ("line 6", "line 7", "line 8"), ()),
    ],
)
def test_a_file_may_begin_or_end_there(
    text: str, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    assert around(LINES, text) == (v.Surroundings(0, before, after),)
    assert around(LINES.rstrip(b"\n"), text) == (v.Surroundings(0, before, after),)


def test_a_line_that_is_alone_has_none() -> None:
    assert around(b"alone\n", "alone") == ()


def test_blank_lines_keep_their_place() -> None:
    assert around(b"a\n\nb\n\n\n", "b") == (v.Surroundings(0, ("a", ""), ("", "")),)


def test_no_line_is_taken_from_beyond_a_gap() -> None:
    parts = Document(NAME, (Excerpt(0, 1, b"far\n"), Excerpt(100, 9, b"near\nproof\n")))
    proof = v.Evidence("cause", "job output", None, NAME, 10, 105, "proof")

    assert surroundings([proof], [parts]) == (v.Surroundings(0, ("near",), ()),)


def test_long_lines_are_cut_and_huge_ones_end_it() -> None:
    long = b"x" * 1000
    huge = b"y" * 100_000
    data = b"\n".join([b"lost", huge, long, b"proof", long, huge, b"lost", b""])
    (found,) = around(data, "proof")

    assert found.before == (f"{'x' * (LONGEST - 1)}…",)
    assert found.after == found.before


def test_of_a_progress_bar_the_last_state_is_seen() -> None:
    assert around(b" 1%|\r 2%|\r 3%|\r\nproof\r\n", "proof") == (v.Surroundings(0, (" 3%|",)),)


@pytest.mark.parametrize("source", ["kernel log", "slurmd log", "accounting", "flight recorder"])
def test_beside_a_line_of_the_nodes_own_logs_other_jobs_are_not_shown(source: str) -> None:
    assert surroundings([quote(LINES, "line 5", source=source)], [document(LINES)]) == ()


@pytest.mark.parametrize("side", [b"%s\nproof\n", b"proof\n%s\n"])
def test_beside_a_private_key_nothing_is_shown(side: bytes) -> None:
    body = b"\n".join([b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 2] * 20)
    begin, end = (b"-----%s PRIVATE KEY-----\n" % word for word in (b"BEGIN", b"END"))

    assert around(side % (begin + body + b"\n" + end), "proof") == ()


def test_of_so_many_quotes_at_most() -> None:
    quotes = [quote(LINES, f"line {number}") for number in range(1, 10)]

    assert [each.evidence for each in surroundings(quotes, [document(LINES)])] == list(range(MOST))


def test_a_packed_document_has_the_same() -> None:
    data = LINES * 100
    proof = quote(data, "line 5")

    small = Packer(LINES).packed(document(data))
    assert small.excerpts[0].like is not None
    assert surroundings([proof], [small]) == surroundings([proof], [document(data)])


def test_two_files_of_one_name_are_told_apart_by_the_line_or_not_at_all() -> None:
    other = LINES.replace(b"line", b"LINE")
    alike = LINES.replace(b"line 4", b"LINE 4")
    proof = quote(LINES, "line 5")

    told = surroundings([proof], [document(other), document(LINES)])
    assert told == surroundings([proof], [document(LINES)])
    assert surroundings([proof], [document(alike), document(LINES)]) == ()


def test_a_quote_without_a_place_or_outside_its_file_has_none() -> None:
    nowhere = v.Evidence("cause", "job output", None, NAME, None, None, "line 5")
    beyond = v.Evidence("cause", "job output", None, NAME, 1, 10_000, "line 5")
    elsewhere = v.Evidence("cause", "job output", None, "other.out", 1, 0, "line 1")

    assert surroundings([nowhere, beyond, elsewhere], [document(LINES)]) == ()


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert around(b"\xff\xfe\x00\nproof\n", "proof") == (
        v.Surroundings(0, ("\ufffd\ufffd\x00",), ()),
    )
