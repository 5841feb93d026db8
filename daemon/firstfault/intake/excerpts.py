"""From a file's bytes to excerpts: small files whole, huge ones where a failure can show.

A file of more than `WHOLE` bytes is read through, and the lines with anchors are noted. Kept are
its head, its tail and what lies around the noted lines that count most, the whole of it never
more than a small file's size.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, cast

import msgspec

from firstfault.intake.hits import Hit, Hits
from firstfault.intake.regions import LineReader, Regions
from firstfault.intake.search import CHUNK, GrepFailed, grep, search_with, search_without
from firstfault.model.document import Excerpt

WHOLE = 32 << 20
# Of what may be kept of a huge file, one part in so many is its head, and its tail.
_HEAD_SHARE = 128
_TAIL_SHARE = 64
# Around a line that counts: so much where there is room, and so little where there is not.
_BEFORE, _AFTER = 4 << 10, 16 << 10
_LEAST_BEFORE, _LEAST_AFTER = 1 << 10, 4 << 10
# A traceback of which more lies between its first and its last line is kept at both ends.
_LONGEST_TRACEBACK = 1 << 20

# Opens anew what was read, from its start.
Again = Callable[[], AbstractContextManager[BinaryIO]]
# Is told how many bytes have been read.
Tell = Callable[[int], None]


class Cut(msgspec.Struct, frozen=True):
    """What was kept of a file, and its whole size in bytes."""

    excerpts: tuple[Excerpt, ...]
    complete: bool
    size: int


def cut(
    stream: BinaryIO,
    again: Again | None = None,
    *,
    limit: int = WHOLE,
    progress: Tell | None = None,
) -> Cut:
    """What to keep of ``stream``, which is read to its end: at most about ``limit`` bytes.

    A huge file is read twice, the second time in part: by what ``again`` opens, else from a
    copy in a temporary file. Raises OSError where either cannot be read or written.
    """
    start = _read(stream, limit + 1)
    if len(start) > limit < WHOLE and start.lstrip()[:1] == b"{":
        # A record or another's JSON tells nothing in parts.
        limit = WHOLE
        start += _read(stream, limit + 1 - len(start))
    if len(start) <= limit:
        return Cut((Excerpt(0, 1, start),) if start else (), True, len(start))
    with contextlib.ExitStack() as stack:
        if again is None:
            again = _copied(start, stream, stack)
        del start
        with again() as first:
            found = _searched(first, again, progress)
        regions = _regions(found.hits, found.size, limit)
        with again() as second:
            reader = LineReader(second, found.marks)
            parts = (reader.part(begin, end) for begin, end in regions)
            return Cut(tuple(part for part in parts if part is not None), False, found.size)


def _read(stream: BinaryIO, count: int) -> bytes:
    parts = []
    while count > 0 and (part := stream.read(min(count, 4 * CHUNK))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _copied(start: bytes, rest: BinaryIO, stack: contextlib.ExitStack) -> Again:
    copy = cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile()))  # noqa: SIM115 (entered)
    copy.write(start)
    while data := rest.read(CHUNK):
        copy.write(data)
    return _rewound(copy)


def _rewound(copy: BinaryIO) -> Again:
    @contextlib.contextmanager
    def again() -> Iterator[BinaryIO]:
        copy.seek(0)
        yield copy

    return again


class _Found:
    """What the first reading of a huge file tells."""

    def __init__(self, progress: Tell | None) -> None:
        self.hits = Hits()
        self.size = 0
        # Of each chunk, its offset and the number of the line at its start.
        self.marks: list[tuple[int, int]] = []
        self._line = 1
        self._progress = progress

    def passed(self, offset: int, data: bytes) -> None:
        self.marks.append((offset, self._line))
        self._line += data.count(b"\n")
        self.size = offset + len(data)
        if self._progress:
            self._progress(self.size)


def _searched(stream: BinaryIO, again: Again, progress: Tell | None) -> _Found:
    if program := grep():
        found = _Found(progress)
        with contextlib.suppress(GrepFailed):
            search_with(program, stream, found.hits.add, found.passed)
            return found
        with again() as anew:
            found = _Found(progress)
            search_without(anew, found.hits.add, found.passed)
            return found
    found = _Found(progress)
    search_without(stream, found.hits.add, found.passed)
    return found


def _regions(hits: Hits, size: int, limit: int) -> Sequence[tuple[int, int]]:
    """The parts of a file to keep, in order and apart: (begin, end) offsets."""
    head, tail = limit // _HEAD_SHARE, limit // _TAIL_SHARE
    kept = Regions(limit)
    kept.add(0, min(head, size))
    kept.add(max(0, size - tail), size)
    for tier in hits.ranked():
        if not tier:
            continue
        room = max(0, limit - kept.size) // len(tier)
        before = max(_LEAST_BEFORE, min(_BEFORE, room // 5))
        after = max(_LEAST_AFTER, min(_AFTER, room * 4 // 5))
        for hit in tier:
            for begin, end in _around(hit, before, after):
                kept.add(max(0, begin), min(size, end))
    return kept.parts


def _around(hit: Hit, before: int, after: int) -> list[tuple[int, int]]:
    if hit.end - hit.offset > _LONGEST_TRACEBACK:
        return [(hit.offset - before, hit.offset + after), (hit.end - before, hit.end + after)]
    return [(hit.offset - before, hit.end + after)]
