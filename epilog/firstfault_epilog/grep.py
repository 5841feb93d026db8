"""The node's own grep over a range of an open file, within limits.

grep is some hundred times faster than Python's re at this. It reads a pipe, not the file: so a
range has an end while the file grows, and a line longer than `LINE_MAX` can be broken, for grep
keeps a whole line in memory. The bytes go from the file to the pipe within the kernel.
"""

import bisect
import fcntl
import os
import re
import resource
import select
import subprocess
import time
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

PATHS = ("/usr/bin/grep", "/bin/grep")
CHUNK = 256 << 10
LINE_MAX = 64 << 10
# A grep that needs more has met a line of megabytes; then long lines are broken.
MEMORY_MAX = 32 << 20
# From linux/fcntl.h; Python knows it since 3.10.
F_SETPIPE_SZ = 1031
PIPE_SIZE = 1 << 20
_SPECIAL = re.compile(rb"[\\.^$*+?()\[{|]")


class Row(NamedTuple):
    """A line that matched: where it starts, the newlines before it from the range's start on,
    and its text (of a broken line, its part)."""

    offset: int
    newlines: int
    text: bytes


class Range(NamedTuple):
    """How far a search came: ``at`` is the first byte that was not searched.

    ``newlines`` counts those between the start and ``at``, None where the search was stopped.
    ``fault`` says what went wrong.
    """

    at: int
    newlines: Optional[int]
    fault: Optional[str]


# Takes a row; whether more are wanted.
Take = Callable[[Row], bool]


def path() -> Optional[str]:
    """The node's grep, None where there is none."""
    return next((each for each in PATHS if os.access(each, os.X_OK)), None)


def line_pattern(parts: Sequence[bytes], whole: bool) -> bytes:
    """For ``excluded`` of `run`: lines of ``parts`` with a number between any two of them.

    ``whole`` is False where more may follow.
    """
    text = b"[0-9]+".join(_SPECIAL.sub(rb"\\\g<0>", part) for part in parts)
    return b"^[0-9]+:[0-9]+:" + text + (b"$" if whole else b"")


def run(
    grep: str,
    handle: int,
    begin: int,
    end: int,
    patterns: bytes,
    excluded: Sequence[bytes],
    take: Take,
    stop_at: float,
    long_lines: bool,
) -> Range:
    """Gives ``take`` each line of the range that matches one of ``patterns`` (one a line).

    Lines that match one of ``excluded`` (see `line_pattern`) are not given. Ends early where
    ``take`` says so and at ``stop_at`` (monotonic, seconds). Without ``long_lines`` a line of
    some megabytes is a fault. Raises OSError where the file cannot be read.
    """
    end_mark = b"firstfault-end-" + os.urandom(8).hex().encode("ascii")
    feed = _Breaking(handle, begin, end) if long_lines else _Sending(handle, begin, end)
    feed.last = end_mark + b"\n"
    argv: List[List[bytes]] = [[os.fsencode(grep), b"-abnE", b"-e", patterns + b"\n" + end_mark]]
    if excluded:
        argv.append([os.fsencode(grep), b"-avE", b"-e", b"\n".join(excluded)])
    processes = _started(argv, None if long_lines else MEMORY_MAX)
    reading = _Reading(feed, take, end_mark)
    try:
        _pump(processes, reading, stop_at)
    finally:
        statuses = _ended(processes, kill=not reading.over)
    bad = [status for status in statuses if status not in (0, 1)]
    if reading.over and bad:
        return Range(begin, None, f"grep failed with status {bad[0]}")
    if reading.newlines is None:
        return Range(min(reading.at, feed.at), None, None)
    return Range(feed.end, reading.newlines, None)


def first_match(grep: str, data: bytes, patterns: bytes) -> Optional[int]:
    """Where in the one line ``data`` the first of ``patterns`` stands, None where none does."""
    try:
        done = subprocess.run(  # noqa: S603 (argv is fixed)
            [grep, "-aboE", "-m1", "-e", patterns],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C"},
            timeout=5,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    offset = done.stdout.partition(b":")[0]
    return int(offset) if offset.isdigit() else None


def _started(argv: List[List[bytes]], memory: Optional[int]) -> List["subprocess.Popen[bytes]"]:
    processes: List["subprocess.Popen[bytes]"] = []
    source: Optional[int] = subprocess.PIPE
    for each in argv:
        process = subprocess.Popen(  # noqa: S603 (argv is fixed)
            each,
            stdin=source if not processes else processes[-1].stdout,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C"},
            bufsize=0,
        )
        if processes and processes[-1].stdout is not None:
            processes[-1].stdout.close()
        if memory is not None:
            try:
                resource.prlimit(process.pid, resource.RLIMIT_AS, (memory, memory))
            except (OSError, ValueError):
                # It has ended, or its limit is lower.
                pass
        processes.append(process)
    return processes


# Their statuses. One that was killed, or whose reader is gone, has none that matters.
def _ended(processes: List["subprocess.Popen[bytes]"], kill: bool) -> List[int]:
    for process in processes:
        if kill:
            process.kill()
        for file in (process.stdin, process.stdout):
            if file is not None and not file.closed:
                file.close()
    return [process.wait() for process in processes]


# The bytes of a file between two offsets, to a pipe; `last` is what follows them.
class _Sending:
    def __init__(self, handle: int, begin: int, end: int) -> None:
        self.handle, self.begin, self.end, self.at = handle, begin, end, begin
        self.last = b""
        self.pending = memoryview(b"")
        # Offsets, in what grep is given, of the newlines that are not the file's.
        self.broken: List[int] = []
        self._in_kernel = True

    # Whether there was anything left to give. Raises BlockingIOError.
    def give(self, pipe: int) -> bool:
        if not self.pending and self.at < self.end:
            if self._in_kernel and self._sent(pipe):
                return True
            self.pending = memoryview(self.chunk())
        if not self.pending and self.at >= self.end and self.last:
            # An unfinished last line is ended, so that the mark stands on a line of its own.
            if self.end > self.begin and os.pread(self.handle, 1, self.end - 1) != b"\n":
                self.broken.append(self.end - self.begin + len(self.broken))
                self.last = b"\n" + self.last
            self.pending, self.last = memoryview(self.last), b""
        if not self.pending:
            return False
        self.pending = self.pending[os.write(pipe, self.pending) :]
        return True

    def _sent(self, pipe: int) -> bool:
        try:
            count = os.sendfile(pipe, self.handle, self.at, min(PIPE_SIZE, self.end - self.at))
        except BlockingIOError:
            raise
        except BrokenPipeError:
            raise
        except OSError:
            # Some file systems cannot.
            self._in_kernel = False
            return False
        if count == 0:
            # It shrank.
            self.end = self.at
        self.at += count
        return count > 0

    def chunk(self) -> bytes:
        data = os.pread(self.handle, min(CHUNK, self.end - self.at), self.at)
        if not data:
            self.end = self.at
        self.at += len(data)
        return data

    # From an offset in what grep was given to one in the file, and the false newlines before it.
    def place(self, given: int) -> Tuple[int, int]:
        false = bisect.bisect_left(self.broken, given)
        return self.begin + given - false, false


# The same with long lines broken.
class _Breaking(_Sending):
    def __init__(self, handle: int, begin: int, end: int) -> None:
        super().__init__(handle, begin, end)
        self._in_kernel = False
        self._open_line = 0

    def chunk(self) -> bytes:
        given = self.at - self.begin + len(self.broken)
        data = super().chunk()
        breaks: List[int] = []
        start, reach = 0, LINE_MAX - self._open_line
        while len(data) - start > reach:
            newline = data.rfind(b"\n", start, start + reach)
            start = newline + 1 if newline >= 0 else start + reach
            reach = LINE_MAX
            if newline < 0:
                breaks.append(start)
        newline = data.rfind(b"\n", start)
        self._open_line = LINE_MAX - reach + len(data) - start
        if newline >= 0:
            self._open_line = len(data) - newline - 1
        if not breaks:
            return data
        self.broken.extend(given + place + number for number, place in enumerate(breaks))
        return b"\n".join(data[i:j] for i, j in zip([0, *breaks], [*breaks, len(data)]))  # noqa: B905 (3.10)


# What grep printed so far.
class _Reading:
    def __init__(self, feed: _Sending, take: Take, end_mark: bytes) -> None:
        self.feed, self.take, self.end_mark = feed, take, end_mark
        self.at = feed.end
        self.newlines: Optional[int] = None
        self.over = False
        self._rest = b""

    # Whether more is wanted.
    def add(self, data: bytes) -> bool:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            fields = line.split(b":", 2)
            if len(fields) < 3 or not (fields[0].isdigit() and fields[1].isdigit()):
                continue
            given = int(fields[1])
            offset, false = self.feed.place(given)
            newlines = int(fields[0]) - 1 - false
            if not self.feed.begin <= offset <= self.feed.end:
                # A user may write to the pipe of a process of the same user.
                continue
            if fields[2] == self.end_mark:
                self.newlines = newlines
            elif not self.take(Row(offset, newlines, fields[2])):
                self.at = self.feed.place(given + len(fields[2]) + 1)[0]
                return False
        return True


def _pump(processes: List["subprocess.Popen[bytes]"], reading: _Reading, stop_at: float) -> None:
    stdin, stdout = processes[0].stdin, processes[-1].stdout
    assert stdin is not None and stdout is not None
    into, out = stdin.fileno(), stdout.fileno()
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
    while time.monotonic() < stop_at:
        for number, _ in poll.poll(1000):
            if number == out:
                data = os.read(out, CHUNK)
                if not data:
                    reading.over = True
                    return
                if not reading.add(data):
                    return
                continue
            try:
                more = reading.feed.give(into)
            except BlockingIOError:
                continue
            except BrokenPipeError:
                more = False
            if not more:
                poll.unregister(into)
                stdin.close()
