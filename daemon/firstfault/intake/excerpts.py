"""From a file's bytes to excerpts: small files whole, huge ones where a failure can show.

A file of more than `WHOLE` bytes is read through in chunks; kept are its head, its tail and
the lines around whatever looks like a failure, the first ones before the last ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from firstfault.model.document import Excerpt

WHOLE = 32 << 20
_HEAD = 1 << 20
_TAIL = 4 << 20
_CHUNK = 4 << 20
_BEFORE = 16 << 10
_AFTER = 64 << 10
_MOST_BETWEEN = 24 << 20

# What begins or names a failure, in the fewest words. Plain strings: a search for one runs at
# memory's speed, a regular expression of all of them at a hundredth of it.
ANCHORS = (
    b"Traceback (most recent",
    b"exitcode",
    b"Root Cause",
    b"ChildFailedError",
    b"death signal",
    b"closing signal",
    b"Fatal Python error",
    b"oom-kill",
    b"oom_kill",
    b"Out Of Memory",
    b"ut of memory",
    b"CANCELLED AT",
    b"Node failure on",
    b"srun: error",
    b"slurmstepd",
    b"segfault at",
    b"Killed process",
    b"NVRM: Xid",
    b"CUDA error",
    b"NCCL WARN",
    b"NCCL error",
    b"Watchdog caught",
    b"terminate called",
    b"killed by signal",
    b"Error: ",
)


class Cut(msgspec.Struct, frozen=True):
    """What was kept of a file, and its whole size in bytes."""

    excerpts: tuple[Excerpt, ...]
    complete: bool
    size: int


def cut(stream: BinaryIO) -> Cut:
    """What to keep of ``stream``, which is read to its end."""
    start = _read(stream, WHOLE + 1)
    if len(start) <= WHOLE:
        return Cut((Excerpt(0, 1, start),) if start else (), True, len(start))
    kept = _Kept()
    size = 0
    line = 1
    for chunk in _chunks(start, stream):
        kept.look(chunk, size, line)
        size += len(chunk)
        line += chunk.count(b"\n")
    return Cut(kept.excerpts(), False, size)


def _read(stream: BinaryIO, count: int) -> bytes:
    parts = []
    while count > 0 and (part := stream.read(min(count, _CHUNK))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


# Chunks that end at a line's end, but for lines longer than a chunk.
def _chunks(start: bytes, stream: BinaryIO) -> Iterator[bytes]:
    rest = start
    while True:
        while len(rest) >= _CHUNK:
            end = rest.rfind(b"\n", 0, _CHUNK) + 1 or _CHUNK
            yield rest[:end]
            rest = rest[end:]
        more = stream.read(_CHUNK)
        if not more:
            break
        rest += more
    if rest:
        yield rest


class _Kept:
    """Head, tail and what lies between, as the chunks go by."""

    def __init__(self) -> None:
        self._found: list[Excerpt] = []
        self._bytes = 0
        self._end = 0
        self._tail: list[Excerpt] = []

    def look(self, chunk: bytes, offset: int, line: int) -> None:
        if offset == 0:
            end = chunk.rfind(b"\n", 0, _HEAD) + 1 or _HEAD
            self._keep(chunk, 0, end, offset, line)
        found = {anchor: chunk.find(anchor) for anchor in ANCHORS} if self._has_room() else {}
        while self._has_room() and (hits := [at for at in found.values() if at >= 0]):
            start = min(hits)
            if offset + start >= self._end:
                low = max(0, start - _BEFORE, self._end - offset)
                low = chunk.rfind(b"\n", 0, low) + 1 if low else 0
                high = chunk.find(b"\n", start + _AFTER) + 1 or len(chunk)
                self._keep(chunk, max(low, self._end - offset), high, offset, line)
            after = max(self._end - offset, start + 1)
            for anchor, at in found.items():
                if 0 <= at < after:
                    found[anchor] = chunk.find(anchor, after)
        self._tail.append(Excerpt(offset, line, chunk))
        while len(self._tail) > 2 and sum(len(each.data) for each in self._tail[1:]) > _TAIL:
            self._tail.pop(0)

    def _has_room(self) -> bool:
        return self._bytes <= _MOST_BETWEEN

    def _keep(self, chunk: bytes, low: int, high: int, offset: int, line: int) -> None:
        number = line + chunk.count(b"\n", 0, low)
        self._found.append(Excerpt(offset + low, number, chunk[low:high]))
        self._bytes += high - low
        self._end = offset + high

    def excerpts(self) -> tuple[Excerpt, ...]:
        result = list(self._found)
        for each in self._tail:
            skip = max(0, self._end - each.offset)
            if skip < len(each.data):
                number = None if each.line is None else each.line + each.data.count(b"\n", 0, skip)
                result.append(Excerpt(each.offset + skip, number, each.data[skip:]))
                self._end = each.offset + len(each.data)
        return tuple(result)
