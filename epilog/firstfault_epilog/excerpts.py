"""Which parts of one log go into the record: head, tail, and lines around anchors.

Chunked: a line of 100 MB takes no more memory than any other.
"""

import bisect
import os
import sys
from typing import List, NamedTuple, Optional, Tuple

from firstfault_epilog import grep
from firstfault_epilog.anchors import STACK_HEADS, Anchors
from firstfault_epilog.record import Excerpt
from firstfault_epilog.search import Found, Hit, search

WHOLE_MAX = 64 << 10
HEAD = 8 << 10
TAIL = 16 << 10
CHUNK = 1 << 20
LINES_BEFORE = 3
LINES_AFTER = 10
STACK_LINES = 200
# A window around one anchor, whatever its lines' length.
WINDOW_MAX = 24 << 10
# How far back a window may look for the start of its first line.
BACK_MAX = 4 << 10
# In lines longer than this the anchor itself is looked for, and that so many times.
SHORT_LINE = 1 << 10
LOCATED_MAX = 40


class Cut(NamedTuple):
    """The parts taken of one file; ``note`` says what was not searched, and why."""

    complete: bool
    excerpts: Tuple[Excerpt, ...]
    note: Optional[str]


# ``keep`` is the offset that the excerpt must hold, whatever its line starts like.
class _Window(NamedTuple):
    begin: int
    end: int
    keep: int


def cut(handle: int, size: int, budget: int, anchors: Anchors, stop_at: float) -> Cut:
    """The parts of the open file ``handle`` (of ``size`` bytes), together about ``budget`` bytes.

    A file of 64 KiB or less is taken whole where the budget allows it. ``stop_at`` is the time
    (monotonic, seconds) after which the search ends; head and tail are taken even then. Only an
    excerpt within a line longer than it does not start at the start of a line. Raises OSError.
    """
    if size <= min(WHOLE_MAX, budget):
        data = _read(handle, 0, size)
        whole = len(data) == size
        note = None if whole else f"it shrank from {size} to {len(data)} bytes while it was read"
        return Cut(whole, (Excerpt(0, 1, data),) if data else (), note)
    head, tail = (HEAD, TAIL) if budget >= 2 * (HEAD + TAIL) else (budget // 6, budget // 3)
    found = search(handle, size, anchors, stop_at)
    windows = [_Window(0, head, 0), _Window(size - tail, size, size)]
    room = budget - head - tail
    located = 0
    # The first occurrences tell the cause more often than the last ones.
    for hits, share in ((found.first, 0.65), (found.last, 1.0)):
        limit = budget - head - tail - int((budget - head - tail) * share)
        for hit in hits:
            if room <= limit:
                break
            if hit.length > SHORT_LINE and located < LOCATED_MAX:
                located += 1
                hit = _located(handle, hit, anchors, stop_at)
            window = _window(handle, size, hit, min(room, WINDOW_MAX))
            room -= _new_bytes(windows, window)
            windows.append(window)
    excerpts = tuple(_excerpt(handle, w, found) for w in _merged(handle, size, windows))
    return Cut(False, tuple(e for e in excerpts if e.data), found.note)


def head(handle: int, size: int, budget: int) -> Cut:
    """The beginning of a file that is data for a program, all of it where the budget allows."""
    data = _read(handle, 0, min(size, budget))
    whole = len(data) == size
    note = None if whole else f"of {size} bytes the first {len(data)} were taken"
    return Cut(whole, (Excerpt(0, None, data),) if data else (), note)


def ends(handle: int, size: int, count: int) -> bytes:
    """The first and the last ``count`` bytes of a file, with a line's end between them."""
    if size <= 2 * count:
        return _read(handle, 0, size)
    return _read(handle, 0, count) + b"\n" + _read(handle, size - count, count)


def _read(handle: int, offset: int, count: int) -> bytes:
    parts = []
    while count > 0:
        part = os.pread(handle, min(count, CHUNK), offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        count -= len(part)
    return b"".join(parts)


# In a long line, where the anchor stands.
def _located(handle: int, hit: Hit, anchors: Anchors, stop_at: float) -> Hit:
    program = grep.path()
    patterns = anchors.patterns.encode("ascii")
    at, length = hit.offset, hit.length
    if program is not None and length > grep.LINE_MAX:
        parts: List[grep.Row] = []

        def take(row: grep.Row) -> bool:
            parts.append(row)
            return False

        grep.run(program, handle, at, at + length, patterns, (), take, stop_at, True)
        if parts:
            at, length = parts[0].offset, len(parts[0].text)
    line = _read(handle, at, min(length, grep.LINE_MAX))
    if program is None:
        match = anchors.expression.search(line)
        place = match.start() if match is not None else None
    else:
        place = grep.first_match(program, line, patterns)
    return hit if place is None else Hit(at + place, line[place : place + 160], length - place)


def _window(handle: int, size: int, hit: Hit, room: int) -> _Window:
    start = max(0, hit.offset - BACK_MAX)
    above = _read(handle, start, hit.offset - start)
    begin = hit.offset - min(len(_last_lines(above)), room // 2)
    after = _read(handle, hit.offset, room)
    stack = any(head in hit.text for head in STACK_HEADS)
    left = STACK_LINES if stack else LINES_AFTER
    end = 0
    while left > 0 and end < len(after):
        newline = after.find(b"\n", end)
        end = newline + 1 if newline >= 0 else len(after)
        left -= 1
        if stack and _stack_ends(after, end):
            # The exception's own message stands below its stack.
            left = min(left, LINES_AFTER)
            stack = False
    return _Window(begin, min(size, hit.offset + end), hit.offset)


# A few lines; all of a stack that stands there.
def _last_lines(above: bytes) -> bytes:
    head = above.rfind(STACK_HEADS[0])
    if head >= 0 and above.find(b'  File "', head) > head:
        return above[above.rfind(b"\n", 0, head) + 1 :]
    return b"\n".join(above.split(b"\n")[-(LINES_BEFORE + 1) :])


# A stack is over where no indented or framed line follows soon: others' lines may stand between.
def _stack_ends(data: bytes, at: int) -> bool:
    following = data[at : at + (4 << 10)].split(b"\n")[:12]
    return len(following) == 12 and not any(
        b'  File "' in line or b"Traceback" in line or b"    " in line for line in following
    )


def _new_bytes(windows: List[_Window], window: _Window) -> int:
    begin, end, _ = window
    for other_begin, other_end, _ in windows:
        if other_begin <= begin < other_end:
            begin = min(end, other_end)
        if other_begin < end <= other_end:
            end = max(begin, other_begin)
    return end - begin


# Ordered, not overlapping, each from the start of a line.
def _merged(handle: int, size: int, windows: List[_Window]) -> List[Tuple[int, int]]:
    result: List[Tuple[int, int]] = []
    for window in sorted(windows):
        aligned = _line_start(handle, window)
        stop = min(size, _line_end(handle, window.end, size))
        if result and aligned <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], stop))
        else:
            result.append((aligned, stop))
    return result


def _line_start(handle: int, window: _Window) -> int:
    begin = window.begin
    if begin == 0 or _read(handle, begin - 1, 1) == b"\n":
        return begin
    back = max(0, begin - BACK_MAX)
    newline = _read(handle, back, begin - back).rfind(b"\n")
    if newline >= 0:
        return back + newline + 1
    newline = _read(handle, begin, min(window.keep - begin, WINDOW_MAX)).find(b"\n")
    return begin + newline + 1 if newline >= 0 and begin + newline + 1 < window.end else begin


def _line_end(handle: int, end: int, size: int) -> int:
    if end >= size or _read(handle, end - 1, 1) == b"\n":
        return end
    newline = _read(handle, end, BACK_MAX).find(b"\n")
    return end + newline + 1 if newline >= 0 else end


def _excerpt(handle: int, window: Tuple[int, int], found: Found) -> Excerpt:
    begin, end = window
    data = _read(handle, begin, end - begin)
    before = begin > 0 and _read(handle, begin - 1, 1) != b"\n"
    behind = data[-1:] != b"\n" and bool(_read(handle, begin + len(data), 1))
    return Excerpt(begin, _line_number(handle, begin, found), data, (before, behind))


# From the nearest place whose line is known; None where that is far.
def _line_number(handle: int, at: int, found: Found) -> Optional[int]:
    index = bisect.bisect_right(found.newlines, (at, sys.maxsize))
    near = found.newlines[max(0, index - 1) : index + 1]
    if not near:
        return None
    offset, before = min(near, key=lambda place: abs(place[0] - at))
    if abs(offset - at) > CHUNK:
        return None
    first, last = min(offset, at), max(offset, at)
    between = _read(handle, first, last - first).count(b"\n")
    return 1 + before + (between if offset <= at else -between)
