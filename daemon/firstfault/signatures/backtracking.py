"""Whether a pattern can be made to cost much by a line that it does not match."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.signatures.grammar import Piece, UnreadablePattern, Way, ways

# A repeat that may take more characters than this is wide: it may read a whole line.
WIDE = 1_000
# How many lengths of neighbouring repeats may be tried together from one place.
MOST_TRIES = 10_000


def fault(pattern: str) -> str | None:
    """Why ``pattern`` is refused, None if each line costs it time in proportion to its length.

    Refused are repeats in repeats, two wide repeats between which no character stands that the
    first cannot hold (each length of the one is tried with each of the other), and a wide repeat
    that can begin anew at each place of what it reads. ``pattern`` is one that `re` compiles.
    """
    try:
        found = ways(pattern)
    except UnreadablePattern as error:
        return str(error)
    for way in found:
        if reason := _fault(way):
            return reason
    return None


def _fault(way: Way) -> str | None:
    last = max((n for n, piece in enumerate(way.pieces) if piece.least), default=-1)
    tries = 1
    for n, piece in enumerate(way.pieces):
        # What ends a pattern matches whatever it finds: nothing is tried again.
        if not piece.varies or n >= last:
            continue
        if not _wide(piece):
            tries *= (
                1 if _ended(piece, way.pieces[n + 1 :]) else (piece.most or 0) - piece.least + 1
            )
            continue
        # What stands before cannot stand within what it reads: it begins once for each such.
        if not way.anchored and not _separated(piece, way.pieces[:n]):
            return f"a repeat of {_most(piece)} characters can begin at each place of a line"
        for m in range(n + 1, last):
            if _wide(way.pieces[m]) and not _separated(piece, way.pieces[n + 1 : m]):
                return "two repeats without an end, and nothing between them that parts them"
    if tries > MOST_TRIES:
        return f"its repeats can be tried in {tries} ways at each place of a line"
    return None


# Whether the repeat ends where it must, before another repeat begins.
def _ended(piece: Piece, following: Sequence[Piece]) -> bool:
    for each in following:
        if each.varies:
            return False
        if not each.chars & piece.chars:
            return True
    return False


def _wide(piece: Piece) -> bool:
    return piece.most is None or piece.most - piece.least > WIDE


def _most(piece: Piece) -> str:
    return "any number of" if piece.most is None else f"up to {piece.most}"


def _separated(piece: Piece, between: Sequence[Piece]) -> bool:
    return any(each.least and not each.chars & piece.chars for each in between)
