"""Where the lines that matter stand in a large log, in bounded time and memory.

Lines are of one kind where they differ in numbers alone. Once a kind has come often, grep is told
to leave lines of that kind out: a log in which each second line is a warning is searched whole,
and what is rare in it is found.
"""

import collections
import os
import re
import time
from typing import Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

from firstfault_epilog import grep
from firstfault_epilog.anchors import Anchors

# Without grep: this much of the file's start and of its end.
SLOW_SEARCHED = 1 << 20
SLOW_HITS_MAX = 5000
# Where lines were left out, the end of the file is searched once more for the last of them.
END_SEARCHED = 1 << 20
# After so many lines grep is started anew and told what came often; that is done a few times.
ROWS_MAX = 3000
RUNS_MAX = 32
OFTEN = 50
# Longer together, these patterns make grep a hundred times slower: its table of states overflows.
EXCLUDED_BYTES_MAX = 800
# Where too many lines of too many kinds match, this part of the file is passed over at a time.
PASSED_SHARE = 16
# Of one kind so many first lines are enough, and so many last ones of all kinds.
KIND_MAX = 12
KINDS_MAX = 4000
LAST_MAX = 64
TEXT_MAX = 160
_NUMBER = re.compile(rb"[0-9]+")


class Hit(NamedTuple):
    """A line that matched: ``text`` is its beginning, ``length`` that of the line (or, of a
    line of more than 64 KiB, of a part of it)."""

    offset: int
    text: bytes
    length: int


class Found(NamedTuple):
    """``first`` are the first lines of each kind: each kind's first, then each kind's second...

    ``last`` are others, the last one first. ``newlines`` are (offset, newlines before it), in
    order. ``note`` says what of the file was not searched, None where all of it was.
    """

    first: Tuple[Hit, ...]
    last: Tuple[Hit, ...]
    newlines: Tuple[Tuple[int, int], ...]
    note: Optional[str]


def search(handle: int, size: int, anchors: Anchors, stop_at: float) -> Found:
    """The lines of the first ``size`` bytes of the open file ``handle`` that match an anchor.

    Ends at ``stop_at`` (monotonic, seconds) whatever is left. Raises OSError where the file
    cannot be read.
    """
    kinds = _Kinds()
    program = grep.path()
    if program is None:
        _slowly(handle, 0, min(size, SLOW_SEARCHED), anchors, kinds)
        _slowly(handle, max(0, size - SLOW_SEARCHED), size, anchors, kinds)
        return kinds.found("there is no grep: only its start and end were searched")
    searching = _Searching(program, handle, size, anchors.patterns.encode("ascii"), kinds, stop_at)
    searching.all()
    return kinds.found(searching.note)


# What was found so far, by kinds.
class _Kinds:
    def __init__(self) -> None:
        self.first: Dict[Tuple[bytes, ...], List[Hit]] = {}
        self.last: Dict[Tuple[bytes, ...], Hit] = {}
        self.counts: Dict[Tuple[bytes, ...], int] = {}
        self.recent: Deque[Hit] = collections.deque(maxlen=LAST_MAX)
        self.whole: Dict[Tuple[bytes, ...], bool] = {}
        self.newlines: List[Tuple[int, int]] = [(0, 0)]

    def add(self, hit: Hit, newlines: Optional[int]) -> None:
        kind = tuple(_NUMBER.split(hit.text))
        count = self.counts.get(kind, 0) + 1
        if count == 1 and len(self.counts) >= KINDS_MAX:
            self.recent.append(hit)
            return
        self.counts[kind] = count
        if count <= KIND_MAX:
            self.first.setdefault(kind, []).append(hit)
            self.whole[kind] = hit.length == len(hit.text)
            if newlines is not None:
                self.newlines.append((hit.offset, newlines))
            return
        self.last[kind] = hit
        self.recent.append(hit)

    # Of a second search of the file's end. More are always wanted.
    def add_late(self, hit: Hit) -> bool:
        if not self.recent or hit.offset > self.recent[-1].offset:
            self.last[tuple(_NUMBER.split(hit.text))] = hit
            self.recent.append(hit)
        return True

    # The kinds that came often, as grep is to leave them out.
    def often(self) -> List[bytes]:
        names = [kind for kind, count in self.counts.items() if count > OFTEN]
        names.sort(key=lambda kind: -self.counts[kind])
        found: List[bytes] = []
        room = EXCLUDED_BYTES_MAX
        for kind in names:
            pattern = grep.line_pattern(kind, self.whole[kind])
            if b"\0" not in pattern and len(pattern) <= room:
                room -= len(pattern)
                found.append(pattern)
        return found

    def found(self, note: Optional[str]) -> Found:
        order = [(number, hit) for hits in self.first.values() for number, hit in enumerate(hits)]
        order.sort(key=lambda item: (item[0], item[1].offset))
        last = {hit.offset: hit for hit in (*self.last.values(), *self.recent)}
        ends = sorted(last.values(), reverse=True)[: 2 * LAST_MAX]
        return Found(
            tuple(hit for _, hit in order), tuple(ends), tuple(sorted(self.newlines)), note
        )


class _Searching:
    def __init__(
        self,
        program: str,
        handle: int,
        size: int,
        patterns: bytes,
        kinds: _Kinds,
        stop_at: float,
    ) -> None:
        self.program, self.handle, self.size = program, handle, size
        self.patterns, self.kinds, self.stop_at = patterns, kinds, stop_at
        self.note: Optional[str] = None
        self.at = 0
        # Newlines before `at`.
        self.newlines: Optional[int] = 0
        self.long_lines = False
        self.passed = 0

    def all(self) -> None:
        excluded: List[bytes] = []
        for number in range(RUNS_MAX):
            if not self._on(excluded) or self.at >= self.size:
                break
            if time.monotonic() >= self.stop_at:
                self.note = f"only {self.at} of {self.size} bytes were searched: time ran out"
                break
            often = self.kinds.often() if number < RUNS_MAX // 2 else excluded
            if len(often) > len(excluded):
                excluded = often
            else:
                self._pass_over()
        self.passed += max(0, self.size - self.at)
        if self.note is None and self.passed:
            self.note = (
                f"too many lines match: {self.passed} of {self.size} bytes were not searched"
            )
        if excluded or self.passed:
            begin = max(0, self.size - END_SEARCHED)
            self._grep(begin, (), lambda row: self.kinds.add_late(_hit(row)))

    # Searches on from `at`; False where grep failed.
    def _on(self, excluded: List[bytes]) -> bool:
        before = self.newlines
        below: Optional[int] = None
        left = ROWS_MAX

        def take(row: grep.Row) -> bool:
            nonlocal left, below
            left -= 1
            newlines = None if before is None else before + row.newlines
            below = None if newlines is None else newlines + 1
            self.kinds.add(_hit(row), newlines)
            return left > 0

        came = self._grep(self.at, excluded, take)
        if came.fault is not None and not self.long_lines:
            self.long_lines = True
            came = self._grep(self.at, excluded, take)
        if came.fault is not None:
            self.note = came.fault
            return False
        self.at = came.at
        # Where it was stopped, the last line that matched stands above.
        self.newlines = below if left <= 0 else None
        if came.newlines is not None:
            # It may have shrunk.
            self.size = came.at
            if before is not None:
                self.kinds.newlines.append((came.at, before + came.newlines))
        return True

    def _grep(self, begin: int, excluded: Sequence[bytes], take: grep.Take) -> grep.Range:
        return grep.run(
            self.program,
            self.handle,
            begin,
            self.size,
            self.patterns,
            excluded,
            take,
            self.stop_at,
            self.long_lines,
        )

    def _pass_over(self) -> None:
        aim = min(self.size, self.at + max(1 << 20, self.size // PASSED_SHARE))
        self.passed += aim - self.at
        while self.at < aim and time.monotonic() < self.stop_at:
            data = os.pread(self.handle, min(grep.CHUNK, aim - self.at), self.at)
            if not data:
                self.size = aim = self.at
            if self.newlines is not None:
                self.newlines += data.count(b"\n")
            self.at += len(data)


def _hit(row: grep.Row) -> Hit:
    return Hit(row.offset, row.text[:TEXT_MAX], len(row.text))


def _slowly(handle: int, begin: int, end: int, anchors: Anchors, kinds: _Kinds) -> None:
    data = os.pread(handle, end - begin, begin)
    place = number = 0
    for line in data.split(b"\n"):
        if number < SLOW_HITS_MAX and anchors.expression.search(line[: grep.LINE_MAX]):
            number += 1
            kinds.add(Hit(begin + place, line[:TEXT_MAX], len(line)), None)
        place += len(line) + 1
