"""Where the anchors stand in a large file: the node's own grep, fed chunk by chunk.

grep is some hundred times faster than Python's re at this. It reads a pipe, not the file, in
which a line longer than `LINE_MAX` is broken: grep keeps a whole line in memory.
"""

import bisect
import fcntl
import os
import re
import select
import subprocess
import time
from typing import Counter, List, NamedTuple, Optional, Pattern, Sequence, Tuple

from firstfault_epilog.anchors import Anchors

GREPS = ("/usr/bin/grep", "/bin/grep")
CHUNK = 256 << 10
LINE_MAX = 64 << 10
# From linux/fcntl.h; Python knows it since 3.10.
F_SETPIPE_SZ = 1031
PIPE_SIZE = 1 << 20
# Enough for what fits into a record; a log in which each line is an error does not get further.
HITS_MAX = 5000
# When the hits were too many the end of the file is searched by itself.
END_SEARCHED = 4 << 20
# Without grep: this much of the file's start and of its end.
SLOW_SEARCHED = 1 << 20
# Of one kind of line, so many first ones are enough; kinds differ in more than digits.
KIND_MAX = 12
LAST_MAX = 64


class Hit(NamedTuple):
    """An anchor's place; ``text`` is what matched."""

    offset: int
    text: bytes


class Found(NamedTuple):
    """``first`` are the first few hits of each kind, ``last`` the last ones of the others.

    ``newlines`` are (offset of a chunk, newlines before it). ``note`` says what of the file was
    not searched, None where all of it was.
    """

    first: Tuple[Hit, ...]
    last: Tuple[Hit, ...]
    newlines: Tuple[Tuple[int, int], ...]
    note: Optional[str]


def search(handle: int, size: int, anchors: Anchors, stop_at: float) -> Found:
    """The anchors in the first ``size`` bytes of the open file ``handle``.

    Ends at ``stop_at`` (monotonic, seconds) whatever is left. Raises OSError where the file
    cannot be read.
    """
    grep = next((path for path in GREPS if os.access(path, os.X_OK)), None)
    newlines: List[Tuple[int, int]] = []
    if grep is None:
        hits = _slowly(handle, 0, min(size, SLOW_SEARCHED), anchors.expression)
        hits += _slowly(handle, max(0, size - SLOW_SEARCHED), size, anchors.expression)
        return _found(hits, newlines, "there is no grep: only its start and end were searched")
    argv = (grep, "-aboE", "-e", anchors.patterns)
    hits, at, fault = _grep(argv, handle, 0, size, stop_at, newlines)
    if len(hits) >= HITS_MAX:
        begin = max(at, size - END_SEARCHED)
        more, end, fault = _grep(argv, handle, begin, size, stop_at, None)
        hits, at = hits + more, end
        if fault is None and begin > 0:
            fault = f"too many lines match: the middle, up to offset {begin}, was not searched"
    if fault is None and at < size:
        fault = f"only {at} of {size} bytes were searched: time ran out"
    return _found(hits, newlines, fault)


def _found(hits: Sequence[Hit], newlines: List[Tuple[int, int]], note: Optional[str]) -> Found:
    kinds: Counter[bytes] = Counter()
    first: List[Hit] = []
    last: List[Hit] = []
    for hit in hits:
        kind = re.sub(rb"[0-9]+", b"#", hit.text[:80])
        kinds[kind] += 1
        (first if kinds[kind] <= KIND_MAX else last).append(hit)
    return Found(tuple(first), tuple(last[-LAST_MAX:]), tuple(newlines), note)


# (hits, how far it came, what went wrong). ``newlines``, where given, is filled.
def _grep(
    argv: Sequence[str],
    handle: int,
    begin: int,
    end: int,
    stop_at: float,
    newlines: Optional[List[Tuple[int, int]]],
) -> Tuple[List[Hit], int, Optional[str]]:
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"LC_ALL": "C"},
        bufsize=0,
    )
    assert process.stdin is not None and process.stdout is not None
    feed = _Feed(handle, begin, end, newlines)
    try:
        output = _pump(process.stdin.fileno(), process.stdout.fileno(), feed, stop_at, process)
    finally:
        if not process.stdin.closed:
            process.stdin.close()
        # Killed where it was stopped on the way; its own status matters where it was not.
        if feed.at < end or feed.stopped:
            process.kill()
        process.stdout.close()
        status = process.wait()
    hits = [Hit(feed.offset(number), text) for number, text in output]
    if status > 1:
        return hits, feed.at, f"grep failed with status {status}"
    return hits, feed.at, None


# The bytes of a file between two offsets, long lines broken.
class _Feed:
    def __init__(
        self, handle: int, begin: int, end: int, newlines: Optional[List[Tuple[int, int]]]
    ) -> None:
        self.handle, self.begin, self.end, self.newlines = handle, begin, end, newlines
        self.at = begin
        self.stopped = False
        self.count = 0
        self.open_line = 0
        # Offsets, in what grep is given, of the newlines that are not the file's.
        self.broken: List[int] = []

    def chunk(self) -> bytes:
        data = os.pread(self.handle, min(CHUNK, self.end - self.at), self.at)
        if not data:
            # It shrank.
            self.end = self.at
            return b""
        if self.newlines is not None:
            self.newlines.append((self.at, self.count))
            self.count += data.count(b"\n")
        given = self.at - self.begin + len(self.broken)
        self.at += len(data)
        breaks: List[int] = []
        start, reach = 0, LINE_MAX - self.open_line
        while len(data) - start > reach:
            newline = data.rfind(b"\n", start, start + reach)
            start = newline + 1 if newline >= 0 else start + reach
            reach = LINE_MAX
            if newline < 0:
                breaks.append(start)
        newline = data.rfind(b"\n", start)
        self.open_line = LINE_MAX - reach + len(data) - start
        if newline >= 0:
            self.open_line = len(data) - newline - 1
        if not breaks:
            return data
        self.broken.extend(given + place + number for number, place in enumerate(breaks))
        return b"\n".join(data[i:j] for i, j in zip([0, *breaks], [*breaks, len(data)]))  # noqa: B905 (3.10)

    def offset(self, given: int) -> int:
        return self.begin + given - bisect.bisect_left(self.broken, given)


def _pump(
    into: int, out: int, feed: _Feed, stop_at: float, process: "subprocess.Popen[bytes]"
) -> List[Tuple[int, bytes]]:
    try:
        fcntl.fcntl(into, F_SETPIPE_SZ, PIPE_SIZE)
    except OSError:
        # A user's pipes may be limited: smaller ones do.
        pass
    for number in (into, out):
        fcntl.fcntl(number, fcntl.F_SETFL, os.O_NONBLOCK)
    poll = select.poll()
    poll.register(into, select.POLLOUT)
    poll.register(out, select.POLLIN)
    pending = memoryview(b"")
    result: List[Tuple[int, bytes]] = []
    rest = b""
    while time.monotonic() < stop_at and len(result) < HITS_MAX:
        for number, _ in poll.poll(1000):
            if number == out:
                data = os.read(out, CHUNK)
                if not data:
                    return result
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    offset, colon, text = line.partition(b":")
                    if colon and offset.isdigit():
                        result.append((int(offset), text))
                continue
            pending = pending or memoryview(feed.chunk())
            if not pending:
                poll.unregister(into)
                assert process.stdin is not None
                process.stdin.close()
                continue
            try:
                pending = pending[os.write(into, pending) :]
            except BrokenPipeError:
                poll.unregister(into)
    feed.stopped = True
    return result


def _slowly(handle: int, begin: int, end: int, expression: Pattern[bytes]) -> List[Hit]:
    data = os.pread(handle, end - begin, begin)
    return [Hit(begin + m.start(), m.group()) for m in expression.finditer(data)][:HITS_MAX]
