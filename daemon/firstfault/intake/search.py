"""The lines of a huge file that hold an anchor: by the system's grep, or by Python without it.

grep is some twenty times faster. It is fed through a pipe, chunk by chunk, so that packed files
and pipes are searched like others, and lines longer than `LINE_MAX` are broken: grep keeps a
whole line in memory.
"""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import os
import subprocess
import threading
from collections.abc import Callable
from functools import cache
from typing import IO, BinaryIO

from firstfault.signatures import known_anchors
from firstfault.signatures.grammar import words

GREPS = ("/usr/bin/grep", "/bin/grep")
CHUNK = 1 << 20
LINE_MAX = 64 << 10

# A line's offset in the file, and its text.
Found = Callable[[int, bytes], None]
# Every chunk as it goes by, with its offset.
Passed = Callable[[int, bytes], None]


class GrepFailed(Exception):
    """grep ended with an error; the message says which."""


def grep() -> str | None:
    """The system's grep, None if there is none."""
    return next((path for path in GREPS if os.access(path, os.X_OK)), None)


def search_with(program: str, stream: BinaryIO, found: Found, passed: Passed) -> None:
    """Calls ``found`` for each line of ``stream`` with an anchor, in order, from a thread.

    ``passed`` is called for each chunk. A line longer than `LINE_MAX` counts as several. Raises
    `GrepFailed`, and OSError where ``stream`` cannot be read.
    """
    anchors = "\n".join(_anchors())
    try:
        process = subprocess.Popen(  # noqa: S603 - argv list, absolute path, no shell
            [program, "-abE", "-e", anchors],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C"},
            bufsize=0,
        )
    except OSError as error:
        raise GrepFailed(str(error)) from error
    assert process.stdin is not None and process.stdout is not None
    # A user's pipes may be limited: smaller ones do.
    with contextlib.suppress(OSError):
        fcntl.fcntl(process.stdin, fcntl.F_SETPIPE_SZ, CHUNK)
    breaks = _Breaks()
    listener = threading.Thread(target=_listen, args=(process.stdout, breaks, found), daemon=True)
    listener.start()
    try:
        _feed(process.stdin.fileno(), stream, breaks, passed)
    except BaseException:
        process.kill()
        raise
    finally:
        process.stdin.close()
        listener.join()
        process.stdout.close()
        status = process.wait()
    if status > 1:
        raise GrepFailed(f"grep ended with status {status}")


def _anchors() -> tuple[str, ...]:
    return tuple(anchor for each in known_anchors().values() for anchor in each)


def _feed(into: int, stream: BinaryIO, breaks: _Breaks, passed: Passed) -> None:
    offset = 0
    while data := stream.read(CHUNK):
        passed(offset, data)
        offset += len(data)
        rest = memoryview(breaks.broken(data))
        # It ended too early: its status tells.
        with contextlib.suppress(BrokenPipeError):
            while rest:
                rest = rest[os.write(into, rest) :]


def _listen(output: IO[bytes], breaks: _Breaks, found: Found) -> None:
    rest = b""
    while data := output.read(CHUNK):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            offset, _, text = line.partition(b":")
            found(breaks.offset(int(offset)), text)


class _Breaks:
    """Newlines put into lines too long, and where what grep was given stands in the file."""

    def __init__(self) -> None:
        # Offsets, in what grep is given, of the newlines that are not the file's.
        self._added: list[int] = []
        self._given = 0
        self._open = 0

    def broken(self, data: bytes) -> bytes:
        """``data``, which follows what was given before, without too long a line."""
        places = []
        start, reach = 0, LINE_MAX - self._open
        while len(data) - start > reach:
            newline = data.rfind(b"\n", start, start + reach)
            start = newline + 1 if newline >= 0 else start + reach
            reach = LINE_MAX
            if newline < 0:
                places.append(start)
        last = data.rfind(b"\n", start)
        self._open = LINE_MAX - reach + len(data) - start if last < 0 else len(data) - last - 1
        self._added.extend(self._given + place + number for number, place in enumerate(places))
        self._given += len(data) + len(places)
        if not places:
            return data
        parts = zip([0, *places], [*places, len(data)], strict=True)
        return b"\n".join(data[low:high] for low, high in parts)

    def offset(self, given: int) -> int:
        """The place in the file of a line's start in what grep was given."""
        return given - bisect.bisect_left(self._added, given)


def search_without(stream: BinaryIO, found: Found, passed: Passed) -> None:
    """What `search_with` does, by Python alone; ``found`` may be called for other lines, too."""
    offset = 0
    rest = b""
    while data := stream.read(CHUNK):
        passed(offset + len(rest), data)
        data = rest + data
        end = data.rfind(b"\n") + 1
        if not end and len(data) > LINE_MAX:
            end = len(data)
        _find(data[:end], offset, found)
        offset += end
        rest = data[end:]
    _find(rest, offset, found)


def _find(data: bytes, offset: int, found: Found) -> None:
    starts = set()
    for word in _words(_anchors()):
        at = data.find(word)
        while at >= 0:
            starts.add(data.rfind(b"\n", 0, at) + 1)
            end = data.find(b"\n", at)
            at = data.find(word, end) if end >= 0 else -1
    for start in sorted(starts):
        end = data.find(b"\n", start, start + LINE_MAX)
        found(offset + start, data[start : end if end >= 0 else start + LINE_MAX])


# One of these is in every line that holds an anchor.
@cache
def _words(anchors: tuple[str, ...]) -> tuple[bytes, ...]:
    every = {word for anchor in anchors for word in words(anchor)}
    shortest: list[str] = []
    for word in sorted(every, key=len):
        if not any(other in word for other in shortest):
            shortest.append(word)
    return tuple(word.encode() for word in shortest)
