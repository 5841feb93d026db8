"""A regular expression taken apart: the ways through it, each a row of pieces.

What is read is CPython's own parse of a pattern (``re._parser``, Python 3.11 and later), so that
nothing is understood otherwise than `re` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

# No annotations of it exist; its form is the same in Python 3.11 to 3.14.
from re import _constants as c  # type: ignore[attr-defined]  # isort: skip
from re import _parser  # type: ignore[attr-defined]  # isort: skip

# Characters are told apart up to 127; others only by what they are to \d, \s and \w.
_DIGIT, _SPACE, _WORD, _OTHER = 128, 129, 130, 131
ANY = frozenset(range(132))
_CATEGORIES = {
    c.CATEGORY_DIGIT: frozenset([*range(48, 58), _DIGIT]),
    c.CATEGORY_SPACE: frozenset([*range(9, 14), *range(28, 33), _SPACE]),
    c.CATEGORY_WORD: frozenset(
        [*(n for n in range(128) if chr(n).isalnum() or n == 95), _DIGIT, _WORD]
    ),
}
_NEGATED = {
    c.CATEGORY_NOT_DIGIT: c.CATEGORY_DIGIT,
    c.CATEGORY_NOT_SPACE: c.CATEGORY_SPACE,
    c.CATEGORY_NOT_WORD: c.CATEGORY_WORD,
}
# More ways than this are not looked at one by one.
MOST_WAYS = 4_000
SHORTEST_WORD = 3


class UnreadablePattern(ValueError):
    """A construction that cannot be judged: the message names it."""


class Piece(msgspec.Struct, frozen=True):
    """Characters of which ``least`` to ``most`` follow one another; ``most`` None: without end."""

    chars: frozenset[int]
    least: int = 1
    most: int | None = 1

    @property
    def varies(self) -> bool:
        return self.most != self.least


# The end of a text, or of a word: something that must come, and that nothing is parted by.
PLACE = Piece(ANY)


class Way(msgspec.Struct, frozen=True):
    """One way through a pattern; ``anchored`` if it can begin only at the text's start."""

    pieces: tuple[Piece, ...]
    anchored: bool = False


def ways(pattern: str) -> list[Way]:
    """The ways through ``pattern``.

    Raises `UnreadablePattern` for what no signature needs (references to groups, conditions, a
    repeat in a look-around, a repeat in a repeat that can match one text in several ways) and
    for a pattern of more than `MOST_WAYS` ways.
    """
    parsed = _parser.parse(pattern)
    folded = bool(parsed.state.flags & c.SRE_FLAG_IGNORECASE)
    dotall = bool(parsed.state.flags & c.SRE_FLAG_DOTALL)
    return _sequence(parsed, folded, dotall)


def _sequence(items: Iterable[tuple[Any, Any]], folded: bool, dotall: bool) -> list[Way]:
    found = [Way(())]
    for op, value in items:
        each = _item(op, value, folded, dotall)
        if len(found) * len(each) > MOST_WAYS:
            raise UnreadablePattern(f"more than {MOST_WAYS} ways lead through it")
        found = [
            Way(
                before.pieces + after.pieces,
                before.anchored or (not before.pieces and after.anchored),
            )
            for before in found
            for after in each
        ]
    return found


def _item(op: Any, value: Any, folded: bool, dotall: bool) -> list[Way]:
    if op in (c.LITERAL, c.NOT_LITERAL, c.IN, c.ANY):
        return [Way((Piece(_chars(op, value, folded, dotall)),))]
    if op is c.SUBPATTERN:
        _, add, remove, body = value
        inner = (folded or bool(add & c.SRE_FLAG_IGNORECASE)) and not remove & c.SRE_FLAG_IGNORECASE
        return _sequence(body, inner, dotall or bool(add & c.SRE_FLAG_DOTALL))
    if op is c.BRANCH:
        return [way for branch in value[1] for way in _sequence(branch, folded, dotall)]
    if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
        least, most, body = value
        return _repeat(_sequence(body, folded, dotall), least, most)
    if op is c.ATOMIC_GROUP:
        return _sequence(value, folded, dotall)
    if op is c.AT:
        begins = value in (c.AT_BEGINNING, c.AT_BEGINNING_STRING)
        return [Way((), anchored=True) if begins else Way((PLACE,))]
    if op in (c.ASSERT, c.ASSERT_NOT):
        for way in _sequence(value[1], folded, dotall):
            if any(piece.varies for piece in way.pieces):
                raise UnreadablePattern("a look-around with a repeat in it")
        return [Way(())]
    raise UnreadablePattern(f"{str(op).lower()} is not allowed")


def _repeat(body: list[Way], least: int, most: Any) -> list[Way]:
    last = None if most is c.MAXREPEAT else int(most)
    if last is not None and last <= 1:
        return body if least else [Way(()), *body]
    if len(body) == 1 and len(body[0].pieces) == 1 and not body[0].pieces[0].varies:
        return [Way((msgspec.structs.replace(body[0].pieces[0], least=least, most=last),))]
    for way in body:
        _refuse_ambiguous(way.pieces)
    firsts = [way.pieces[0].chars for way in body]
    if any(one & other for n, one in enumerate(firsts) for other in firsts[:n]):
        raise UnreadablePattern("a repeat of alternatives that begin alike")
    union = frozenset(char for way in body for piece in way.pieces for char in piece.chars)
    shortest = min(sum(piece.least for piece in way.pieces) for way in body)
    longest = max(length(way.pieces) or 0 for way in body)
    endless = last is None or any(length(way.pieces) is None for way in body)
    return [Way((Piece(union, shortest * least, None if endless else longest * (last or 0)),))]


# Within a repeat, each repeat must be ended by a character that it cannot hold itself.
def _refuse_ambiguous(pieces: Sequence[Piece]) -> None:
    if not pieces or all(piece.least == 0 for piece in pieces):
        raise UnreadablePattern("a repeat of what may be empty")
    for n, piece in enumerate(pieces):
        if piece.varies and (n + 1 == len(pieces) or piece.chars & pieces[n + 1].chars):
            raise UnreadablePattern("a repeat in a repeat that nothing separates")
        if piece.varies and not pieces[n + 1].least:
            raise UnreadablePattern("a repeat in a repeat that nothing separates")


def length(pieces: Sequence[Piece]) -> int | None:
    """The most characters that ``pieces`` match, None without end."""
    total = 0
    for piece in pieces:
        if piece.most is None:
            return None
        total += piece.most
    return total


def _chars(op: Any, value: Any, folded: bool, dotall: bool) -> frozenset[int]:
    if op is c.ANY:
        return ANY if dotall else ANY - {10}
    if op is c.LITERAL:
        return _fold({_class(value)}, folded)
    if op is c.NOT_LITERAL:
        return ANY - _fold({_class(value)} if value < 128 else set(), folded)
    found: set[int] = set()
    negated = False
    for kind, each in value:
        if kind is c.NEGATE:
            negated = True
        elif kind is c.LITERAL:
            found.add(_class(each))
        elif kind is c.RANGE:
            low, high = each
            found.update(range(low, min(high, 127) + 1))
            found.update([_DIGIT, _SPACE, _WORD, _OTHER] if high > 127 else [])
        else:
            found.update(_category(each))
    chars = _fold(found, folded)
    return ANY - chars if negated else chars


def _category(name: Any) -> frozenset[int]:
    if name in _NEGATED:
        return ANY - _CATEGORIES[_NEGATED[name]]
    return _CATEGORIES[name]


def _class(code: int) -> int:
    if code < 128:
        return code
    char = chr(code)
    return (
        _DIGIT
        if char.isdigit()
        else _SPACE
        if char.isspace()
        else _WORD
        if char.isalnum()
        else _OTHER
    )


def _fold(chars: set[int] | frozenset[int], folded: bool) -> frozenset[int]:
    if not folded:
        return frozenset(chars)
    swapped = {ord(chr(each).swapcase()) for each in chars if each < 128}
    return frozenset(chars) | swapped


def literal_runs(way: Way, *, folded: bool = False) -> Iterator[str]:
    """The words that every text of ``way`` holds; ``folded``, in small letters, if it holds them
    in small letters or large ones."""
    run = ""
    for piece in way.pieces:
        char = _letter(piece, folded)
        if char is not None and piece.least == piece.most:
            run += char * piece.least
            continue
        if run:
            yield run
        run = ""
    if run:
        yield run


# The one character that a piece is of, None where it may be another.
def _letter(piece: Piece, folded: bool) -> str | None:
    if max(piece.chars, default=128) > 127 or len(piece.chars) > 2:
        return None
    letters = {chr(code).lower() if folded else chr(code) for code in piece.chars}
    return letters.pop() if len(letters) == 1 else None


def words(pattern: str, *, folded: bool = False) -> tuple[str, ...]:
    """Words of which each match of ``pattern`` holds one; none where no words are known.

    ``folded``: of which each match holds one once it is put in small letters.
    """
    try:
        longest = {
            max(literal_runs(way, folded=folded), key=len, default="") for way in ways(pattern)
        }
    except UnreadablePattern:
        return ()
    # Shorter ones are in most lines.
    if any(len(word.strip()) < SHORTEST_WORD for word in longest):
        return ()
    return tuple(sorted(longest))
