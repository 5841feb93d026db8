"""faulthandler's word of a fatal signal, in CPython 3.6 to 3.14 (Python/traceback.c).

``Timeout (0:00:30)!`` dumps stacks of a process that goes on: no fatal error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from firstfault.model.event import FatalError, Frame
from firstfault.model.line import Line, Place, Speaker

_FATAL = re.compile(
    r"Fatal Python error: (Segmentation fault|Aborted|Bus error|Floating[- ]point exception|"
    r"Illegal instruction)"
)
_FRAME = re.compile(
    r'\s{0,200}File "(?P<file>[^"]{1,4096})", line (?P<line>\d{1,9}) in (?P<name>.{1,200})$'
)
_SIGNALS = {
    "Segmentation fault": 11,
    "Aborted": 6,
    "Bus error": 7,
    "Floating-point exception": 8,
    "Floating point exception": 8,
    "Illegal instruction": 4,
}
_MOST_FRAMES = 200
WORD = "Fatal Python error: "


class FatalErrorReader:
    """Takes one stream's lines and gives faulthandler's fatal errors as they end."""

    def __init__(self) -> None:
        self._place: Place | None = None
        self._speaker = Speaker()
        self._signal = 0
        self._frames: list[Frame] = []
        self._current = False

    @property
    def idle(self) -> bool:
        """Whether a line without `WORD` is nothing to it."""
        return self._place is None

    def feed(self, line: Line) -> Sequence[FatalError]:
        """What ``line`` ends."""
        if WORD in line.text and (match := _FATAL.search(line.text)):
            ended = self.flush()
            self._place, self._speaker = line.place, line.speaker
            self._signal = _SIGNALS[match[1]]
            return ended
        if self._place is None:
            return ()
        text = line.text.strip()
        if text.startswith("Current thread") and "most recent call first" in text:
            # Newer ones print the C stack below a second such line.
            self._current = "C stack" not in text
        elif self._current and (frame := _FRAME.match(line.text)):
            if len(self._frames) < _MOST_FRAMES:
                self._frames.append(Frame(frame["file"], int(frame["line"]), frame["name"].strip()))
        elif self._current and (not text or text.startswith(("Extension modules", "Thread 0x"))):
            return self.flush()
        return ()

    def flush(self) -> Sequence[FatalError]:
        """The fatal error that nothing followed."""
        found: tuple[FatalError, ...] = ()
        if self._place is not None:
            # faulthandler prints the innermost frame first, tracebacks last: keep one order.
            frames = tuple(reversed(self._frames))
            found = (FatalError(self._place, self._speaker, self._signal, frames),)
        self._place, self._frames, self._current = None, [], False
        return found
