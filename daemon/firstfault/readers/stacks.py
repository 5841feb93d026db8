"""Stacks of processes that go on: faulthandler's dumps, and what ``py-spy dump`` prints.

Formats: CPython 3.6 to 3.14, Python/traceback.c and Modules/faulthandler.c ("Timeout (0:00:30)!",
"Thread 0x... (most recent call first):", "Current thread 0x..."); py-spy 0.3 and 0.4, src/dump.rs.
Of each dump the main thread's stack is kept: faulthandler prints it last, py-spy names it.
faulthandler's word of a fatal signal is `firstfault.readers.fatal`'s.
"""

from __future__ import annotations

import re

import msgspec

from firstfault.model.event import Frame, Stack
from firstfault.model.line import Line, Place, Speaker

_THREAD = re.compile(
    r"(?:Current thread|Thread) 0x[0-9a-f]{1,16}(?: \[.{0,100}\])? \(most recent call first\):$"
)
_FRAME = re.compile(
    r'\s{0,40}File "(?P<file>[^"]{1,4096})", line (?P<line>\d{1,9}) in (?P<name>.{1,200})$'
)
_PROCESS = re.compile(r"Process (\d{1,10}): \S")
_SPY_THREAD = re.compile(
    r"Thread (?:0x[0-9A-Fa-f]{1,16}|\d{1,19}) \([\w+]{1,40}\)(?:: \"(?P<name>[^\"]{0,200})\")?$"
)
_SPY_FRAME = re.compile(
    r"\s{1,12}(?P<name>\S.{0,199}) \((?P<file>[^()]{1,4096}):(?P<line>\d{1,9})\)$"
)
_SPY_NATIVE = re.compile(r"\s{1,12}\S.{0,199} \([^()]{0,4096}\)$")
_RANK = re.compile(r"(?i)\brank[_.-]?(\d{1,7})(?!\d)")
_NO_FRAMES = ("<no Python frame>", "  ...", "<truncated rest of calls>")
_MAIN = "MainThread"
# A line that begins a dump, or tells of one, begins with one of these.
BEGINNINGS = ("Thread ", "Current thread 0x", "Timeout (", "Process ", "Fatal")
_MOST_FRAMES = 200
# So many dumps of one stream are kept, the last ones: a program may dump its stacks each minute.
_KEPT = 3


class StackReader:
    """Takes one stream's lines; `flush` gives its last dumps."""

    def __init__(self) -> None:
        self._found: list[Stack] = []
        self._fatal = False
        self._spy = False
        self._pid: int | None = None
        # The thread that is being read, and whether it is the main one by its name.
        self._head: Line | None = None
        self._speaker = Speaker()
        self._place: Place | None = None
        self._frames: list[Frame] = []
        self._named = False

    @property
    def active(self) -> bool:
        """Whether a dump has begun: then every line may belong to it."""
        return self._head is not None or self._pid is not None

    def feed(self, line: Line) -> bool:
        """Whether ``line`` belongs to a dump."""
        text = line.text
        if not self.active:
            if not text.startswith(BEGINNINGS):
                return False
            if text.startswith("Fatal Python error"):
                self._fatal = True
                return False
        return self._feed(line, text.rstrip())

    def _feed(self, line: Line, text: str) -> bool:
        if process := _PROCESS.match(text):
            self._close()
            self._pid, self._spy = int(process[1]), True
            return True
        if _THREAD.match(text):
            # Threads of one dump follow one another: the last is the main one.
            self._open(line, spy=False, main=True)
            return True
        if self._spy and (thread := _SPY_THREAD.match(text)):
            self._open(line, spy=True, main=thread["name"] == _MAIN)
            return True
        if text.startswith("Timeout ("):
            self._close()
            return True
        if self._head is None:
            if self._spy and (not text or text.startswith("Python v")):
                return True
            self._close()
            return False
        if found := (_SPY_FRAME if self._spy else _FRAME).match(text):
            if self._place is None:
                self._place = line.place
            if len(self._frames) < _MOST_FRAMES:
                frame = Frame(found["file"], int(found["line"]), found["name"].strip())
                self._frames.append(frame)
            return True
        if not text or text.endswith(_NO_FRAMES) or (self._spy and _SPY_NATIVE.match(text)):
            return True
        self._close()
        return False

    def flush(self) -> tuple[Stack, ...]:
        """The last dumps, in their order."""
        self._close()
        return tuple(self._found)

    def _open(self, line: Line, *, spy: bool, main: bool) -> None:
        if spy:
            self._keep()
        self._spy = spy
        self._speaker = _named_rank(line) if spy else line.speaker
        self._head, self._place, self._frames, self._named = line, None, [], main

    # Of threads that faulthandler dumped, only the last is kept: each new one takes its place.
    def _keep(self) -> None:
        if self._head is not None and self._named and self._frames and not self._fatal:
            # Innermost first, here: tracebacks print it last.
            frames = tuple(reversed(self._frames))
            place = self._place or self._head.place
            self._found.append(Stack(place, self._speaker, frames, self._pid))
            del self._found[:-_KEPT]
        self._head = None

    def _close(self) -> None:
        self._keep()
        self._fatal = self._spy = False
        self._pid = None


# py-spy knows pids only: whoever keeps its dumps calls the files by their ranks.
def _named_rank(line: Line) -> Speaker:
    who = line.speaker
    named = _RANK.search(line.place.document.rpartition("/")[2])
    if who.rank is not None or named is None:
        return who
    return msgspec.structs.replace(who, rank=int(named[1]))
