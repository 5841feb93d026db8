"""What is passed over would have told nothing: an output is read the same line by line."""

from __future__ import annotations

import random

import pytest

from firstfault.model.document import Document, Excerpt
from firstfault.readers.output import read_output
from firstfault.readers.times import zone
from tests.diagnosis import fuzz
from tests.diagnosis.case_files import NAMES, case

FILLER = (
    b"step 12 loss 0.25",
    b"",
    b"epoch 3 batch 7 done",
    b"  12%|## | 12/100",
    b"   ",
    b"\tx",
    b"    indented",
    b"foo.bar: baz",
    b"ValueError",
    b"2026-11-30 12:00:01,123 INFO x: step 15/100",
    b"saving checkpoint",
    b"step 13",
    b"step 14 of 100",
    b"\x0b",
    b"\x1c",
    b"\xc2\x85",
    b"gr\xc3\xbc\xc3\x9fe",
    b"x" * 2_100,
    b"[12:00:01] step 5",
    b"a]: b",
)


def is_read_the_same(document: Document) -> bool:
    hours = zone(document)
    return read_output(document, hours) == read_output(document, hours, one_by_one=True)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(8))
def test_recorded_output_is_read_the_same(first: int) -> None:
    for name in NAMES[first::8]:
        for document in case(name).documents:
            assert is_read_the_same(document), (name, document.name)


@pytest.mark.parametrize("seed", range(40))
def test_telling_lines_among_plain_ones_are_read_the_same(seed: int) -> None:
    for number in range(10):
        document = made(random.Random(f"{seed}/{number}"))

        assert is_read_the_same(document), (seed, number)


def made(chance: random.Random) -> Document:
    known = fuzz.lines()
    parts: list[bytes] = []
    for _ in range(chance.choice((1, 2, 3, 5, 8, 13))):
        for _ in range(chance.choice((0, 1, 3, 4, 10, 40, 250))):
            parts.append(chance.choice(FILLER if chance.random() < 0.2 else FILLER[:3]))
        at = chance.randrange(len(known))
        parts += known[at : at + chance.choice((1, 1, 2, 4, 9))]
    data = chance.choice((b"\n", b"\n", b"\n", b"\r\n")).join(parts)
    excerpts = [Excerpt(0, 1, data)]
    if chance.random() < 0.3:
        cut = chance.randrange(len(data) + 1)
        excerpts = [
            Excerpt(0, 1, data[:cut]),
            Excerpt(cut + chance.choice((0, 77)), None, data[cut:]),
        ]
    return Document(
        chance.choice(("slurm.out", "a_b/attempt_0/1/stderr.log", "ab_1/attempt_1/0/stdout.log")),
        tuple(excerpts),
        host=chance.choice((None, "n1")),
        what=chance.choice((None, "job-output", "rank-log")),
        size=len(data),
    )
