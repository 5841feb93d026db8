"""Parts of a file: which there is room for, and how they are read as whole lines."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import BinaryIO

from firstfault.model.document import Excerpt

# How far a part reaches beyond its end to have its last line whole.
LONGEST_LINE = 64 << 10
_STEP = 1 << 20


class Regions:
    """Parts that were asked for, in order and apart, as long as there is room for ``room`` bytes."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._parts: list[tuple[int, int]] = []
        self.size = 0

    @property
    def parts(self) -> Sequence[tuple[int, int]]:
        """Their (begin, end) offsets."""
        return self._parts

    def add(self, begin: int, end: int) -> None:
        """Adds a part unless what is new of it is more than there is room for."""
        at = bisect.bisect_left(self._parts, (begin, begin))
        if at and self._parts[at - 1][1] >= begin:
            at -= 1
        stop = at
        had = 0
        while stop < len(self._parts) and self._parts[stop][0] <= end:
            low, high = self._parts[stop]
            begin, end = min(begin, low), max(end, high)
            had += high - low
            stop += 1
        if self.size + end - begin - had <= self._room:
            self.size += end - begin - had
            self._parts[at:stop] = [(begin, end)]


class LineReader:
    """Reads parts of a stream in their order, each of whole lines, and counts the lines.

    ``marks`` are (offset, number of the line there) in order, from (0, 1) on. A stream that can
    be sought in is; another is read through.
    """

    def __init__(self, stream: BinaryIO, marks: Sequence[tuple[int, int]]) -> None:
        self._stream = stream
        self._marks = marks
        self._at, self._line = 0, 1
        # Read from the stream, but not yet taken.
        self._ahead = b""
        self._seekable = bool(getattr(stream, "seekable", lambda: False)())

    def part(self, begin: int, end: int) -> Excerpt | None:
        """The lines that begin between ``begin`` and ``end``; None where there are none."""
        follows = begin <= self._at
        if not follows:
            # The byte before tells whether a line begins here.
            self._skip_to(begin - 1)
        offset, line = self._at, self._line
        data = self._take(end - offset)
        if not data.endswith(b"\n"):
            data += self._rest_of_line()
        if not follows:
            newline = data.find(b"\n")
            # A line longer than the part: what there is of it.
            skipped = newline + 1 if 0 <= newline < len(data) - 1 else 1
            offset, line = offset + skipped, line + data.count(b"\n", 0, skipped)
            data = data[skipped:]
        return Excerpt(offset, line, data) if data else None

    def _skip_to(self, offset: int) -> None:
        mark = self._marks[bisect.bisect_right(self._marks, (offset, 1 << 62)) - 1]
        if self._seekable and mark[0] > self._at + len(self._ahead):
            self._stream.seek(mark[0])
            self._at, self._line = mark
            self._ahead = b""
        while self._at < offset and self._take(min(_STEP, offset - self._at)):
            pass

    def _take(self, count: int) -> bytes:
        parts = [self._ahead[:count]]
        self._ahead = self._ahead[count:]
        left = count - len(parts[0])
        while left > 0 and (part := self._stream.read(min(left, _STEP))):
            parts.append(part)
            left -= len(part)
        data = b"".join(parts)
        self._at += len(data)
        self._line += data.count(b"\n")
        return data

    def _rest_of_line(self) -> bytes:
        if not self._ahead:
            self._ahead = self._stream.read(LONGEST_LINE)
        newline = self._ahead.find(b"\n")
        return self._take(newline + 1 if newline >= 0 else len(self._ahead))
