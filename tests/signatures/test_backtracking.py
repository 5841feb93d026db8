"""A pattern that a line could make slow is refused, and none of the package's own is slow."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from firstfault.signatures import TARGETS, Compiled, signatures
from firstfault.signatures.backtracking import fault
from firstfault.signatures.grammar import Piece, Way, ways, words
from firstfault.streams.lines import LONGEST_TEXT

ALL = [each for target in TARGETS for each in signatures(target)]


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+b",
        r"(?:a|a)*b",
        r"(?:a|ab)*c",
        r"(?:\w+\.)*x",
        r"(?:.{0,400}){1,400}x",
        r"\w+\w+x",
        r"\w+-?\w+x",
        r"^.*foo.*bar",
        r"^(?:\S+ )?.*,.*x",
        r"foo.*x",
        r"\d+x",
        r"x\w+$",
        r"foo .{0,5000}bar",
        r".{0,300}a.{0,300}b",
        r"(a)\1",
        r"(?=\w+x)y",
    ],
)
def test_what_may_be_tried_in_many_ways_is_refused(pattern: str) -> None:
    assert fault(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"foo",
        r"(?i)\bfoo\b.{0,60}\bbar\b",
        r"foo \d+ms",
        r"^\S+ \S+ x",
        r"^.*foo",
        r"foo\w+",
        r"(?:[a-z]{1,20}\.){0,5}x",
        r"x(?:foo|bar)+y",
        r"gloo/\S{1,100}\] (?:a|.{0,300}b)",
        r"^(?:[\w.]+\.)?FooError\b",
    ],
)
def test_what_each_line_costs_little_is_not_refused(pattern: str) -> None:
    assert fault(pattern) is None


def test_the_words_of_a_pattern_are_those_of_which_each_match_holds_one() -> None:
    assert words(r"^(?:foo|bar\d+baz)\b") == ("bar", "foo")
    assert words(r"foo|\d+") == ()
    assert words(r"(?i)foo") == ()
    assert words(r"(?i)foo - bar") == ()
    assert words(r"(?i)Foo \d", folded=True) == ("foo ",)


def hostile(way: Way) -> Iterator[str]:
    """Lines of 64 KiB of what ``way`` matches, each time broken off where it may vary."""
    begun = ""
    for piece in way.pieces:
        if piece.varies:
            char = example(piece)
            yield begun + char * LONGEST_TEXT
            yield (begun + char) * LONGEST_TEXT
            yield (begun + char * 200) * LONGEST_TEXT
        begun += example(piece) * max(piece.least, 1)
    yield begun[:-1] * LONGEST_TEXT


def example(piece: Piece) -> str:
    preferred = [ord(char) for char in "a0 .:/-_"]
    return chr(next(code for code in [*preferred, *sorted(piece.chars)] if code in piece.chars))


@pytest.mark.parametrize("each", ALL, ids=[each.signature.id for each in ALL])
def test_a_line_made_of_a_patterns_own_words_costs_it_little(each: Compiled) -> None:
    begun = time.process_time()
    slowest = ("", 0.0)
    for text in {
        text[:LONGEST_TEXT] for way in ways(each.signature.pattern) for text in hostile(way)
    }:
        before = time.process_time()
        re.search(each.regex, text)
        slowest = max(slowest, (text[:60], time.process_time() - before), key=lambda pair: pair[1])
        if time.process_time() - begun > 5:
            break

    assert slowest[1] < 1, slowest[0]
