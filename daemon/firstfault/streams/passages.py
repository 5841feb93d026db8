"""Lines of which no reader would say anything, found many at once.

Most lines of a log are such. Looked at one by one they cost nearly all of the time that reading
takes; one automaton finds the words that readers look for in a whole piece of the file.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec
from ahocorasick_rs import BytesAhoCorasick

from firstfault.model.line import Line, Place, Speaker

# What is searched at once: the places of all words in it are held.
_PIECE = 65_536
# What changes a line before it is read: prefixes at its start and glued ones, carriage returns, NUL,
# terminal codes. Python's text has separators that its bytes have not.
_MARKS = (b"\n[", b"\n(", b"]:", b"\r", b"\x00", b"\x1b", b"\x1c", b"\x1d", b"\x1e", b"\x1f")
_OPENS = (b"[", b"(")
# Letters may be another's small ones there ("K" is a k, too).
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
# Fewer lines are as well read one by one.
_WORTH_PASSING = 3


class Plain(msgspec.Struct, frozen=True, gc=False):
    """Lines of one speaker without prefixes and telling words: ``texts`` are all of them, in order.

    ``offset`` is where the first one begins and ``number`` its number, as in `Place`; ``said`` is
    how many of them have more than blanks. ``stretch`` is as in `Line`.
    """

    document: str
    offset: int
    number: int | None
    texts: tuple[bytes, ...]
    said: int
    speaker: Speaker = Speaker()
    stretch: int = 0

    def lines(self) -> list[Line]:
        """All lines."""
        return self._last(len(self.texts), blank=True)

    def last(self, most: int) -> list[Line]:
        """The last ``most`` lines."""
        return self._last(most, blank=True)

    def last_text(self) -> str:
        """The last line that is not empty, or "" where there is none."""
        return next((text for text in reversed(self.texts) if text), b"").decode("ascii")

    def last_said(self, most: int) -> list[Line]:
        """The last ``most`` lines that have more than blanks."""
        return self._last(most, blank=False)

    def _last(self, most: int, *, blank: bool) -> list[Line]:
        found: list[Line] = []
        at = self.offset + sum(map(len, self.texts)) + len(self.texts)
        for index in range(len(self.texts) - 1, -1, -1):
            if len(found) >= most:
                break
            raw = self.texts[index]
            at -= len(raw) + 1
            if blank or raw.strip():
                text = raw.decode("ascii")
                number = None if self.number is None else self.number + index
                place = Place(self.document, at, number, text)
                found.append(Line(place, self.speaker, text, False, self.stretch))
        found.reverse()
        return found


class Telling:
    """Finds the lines that hold one of ``words``, in letters of either case."""

    def __init__(self, words: Iterable[str]) -> None:
        sought = {word.lower().encode("utf-8", "replace") for word in words}
        self._automaton = BytesAhoCorasick(sorted({*sought, *_MARKS}))

    def parts(self, data: bytes, longest: int) -> Iterator[tuple[int, int, tuple[bytes, ...]]]:
        """``data`` in parts of whole lines: from where, to where, and the lines without their ends.

        Of a part that holds a telling line, or one above ``longest`` bytes, the lines are left out.
        """
        at = 0
        while at < len(data):
            end = data.find(b"\n", at + _PIECE) + 1 or len(data)
            whole = end
            if end - at > 2 * _PIECE:
                # A line as long as that is looked at by itself: its own words may be millions.
                whole = data.rfind(b"\n", at, at + _PIECE) + 1 or at
            if whole > at:
                yield from self._parts(data[at:whole], at, longest)
            if end > whole:
                yield whole, end, ()
            at = end

    def _parts(
        self, piece: bytes, base: int, longest: int
    ) -> Iterator[tuple[int, int, tuple[bytes, ...]]]:
        at = 0
        for low, high in self._told(piece):
            if at < low:
                yield base + at, base + low, _plain(piece[at:low], longest)
            yield base + low, base + high, ()
            at = high
        if at < len(piece):
            yield base + at, base + len(piece), _plain(piece[at:], longest)

    # Where telling lines stand, those that follow one another together.
    def _told(self, piece: bytes) -> Iterator[tuple[int, int]]:
        hits = [end - 1 for _, _, end in self._automaton.find_matches_as_indexes(piece.lower())]
        if piece.startswith(_OPENS):
            hits.append(0)
        if not piece.isascii():
            hits += _lines_not_ascii(piece)
        low = high = -1
        for hit in sorted(hits):
            if hit < high:
                continue
            start = piece.rfind(b"\n", 0, hit) + 1
            if start > high >= 0:
                yield low, high
                low = start
            elif high < 0:
                low = start
            high = piece.find(b"\n", hit) + 1 or len(piece)
        if high >= 0:
            yield low, high


# Of each such line one place.
def _lines_not_ascii(piece: bytes) -> list[int]:
    found: list[int] = []
    at = 0
    while match := _NOT_ASCII.search(piece, at):
        found.append(match.start())
        at = piece.find(b"\n", match.start()) + 1
        if not at:
            break
    return found


def _plain(part: bytes, longest: int) -> tuple[bytes, ...]:
    texts = part.removesuffix(b"\n").split(b"\n")
    if len(texts) < _WORTH_PASSING or max(map(len, texts)) > longest:
        return ()
    return tuple(texts)


class Tail:
    """The last ``most`` lines of those that are added; ``blank`` says whether blank ones count."""

    def __init__(self, most: int, *, blank: bool) -> None:
        self._most = most
        self._blank = blank
        self._parts: deque[tuple[int, Line | Plain]] = deque()
        self._count = 0

    def add(self, passage: Line | Plain) -> None:
        """Takes a line (that counts), or plain ones."""
        count = 1
        if isinstance(passage, Plain):
            count = len(passage.texts) if self._blank else passage.said
            if not count:
                return
        self._parts.append((count, passage))
        self._count += count
        while self._count - self._parts[0][0] >= self._most:
            self._count -= self._parts.popleft()[0]

    def clear(self) -> None:
        """Forgets all."""
        self._parts.clear()
        self._count = 0

    def lines(self) -> list[Line]:
        """The lines, in order."""
        found: list[Line] = []
        for _, each in self._parts:
            if not isinstance(each, Plain):
                found.append(each)
            elif self._blank:
                found += each.last(self._most)
            else:
                found += each.last_said(self._most)
        return found[-self._most :]
