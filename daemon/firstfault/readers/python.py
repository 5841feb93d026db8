"""Python's own words: tracebacks (chained ones too) and faulthandler's fatal errors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.model.event import FatalError, Frame, Traceback
from firstfault.model.line import Line, Place, Speaker

HEADER = "Traceback (most recent call last):"
_CHAINS = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
# A SyntaxError's own place has no function.
_FRAME = re.compile(
    r'\s{0,200}File "(?P<file>[^"]{1,4096})", line (?P<line>\d{1,9})(?:, in (?P<name>.{1,200}))?$'
)
_NO_COMMA_FRAME = re.compile(
    r'\s{0,200}File "(?P<file>[^"]{1,4096})", line (?P<line>\d{1,9}) in (?P<name>.{1,200})$'
)
_EXCEPTION = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w{0,100}\.){0,12}[A-Za-z_]\w{0,100})(?::|: (?P<message>.*))?$",
    re.DOTALL,
)
# What other writers' lines begin with: "INFO: ...", "step: 7 ...".
_LEVELS = frozenset({"CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTE", "WARN", "WARNING"})
_BARE = re.compile(
    r"((?:[\w.]{1,200}\.)?[A-Z]\w{0,100}(?:Error|Exception|Interrupt)): (.*)$", re.DOTALL
)
_FATAL = re.compile(
    r"Fatal Python error: (Segmentation fault|Aborted|Bus error|Floating[- ]point exception|"
    r"Illegal instruction)"
)
_SIGNALS = {
    "Segmentation fault": 11,
    "Aborted": 6,
    "Bus error": 7,
    "Floating-point exception": 8,
    "Floating point exception": 8,
    "Illegal instruction": 4,
}
# A traceback deeper than this is a recursion: its frames repeat, its end is what counts.
_DEEPEST = 4_000


class _Reading:
    """One traceback on its way."""

    def __init__(self, indent: int, causes: tuple[tuple[str, str], ...]) -> None:
        self.indent = indent
        self.causes = causes
        self.frames: list[Frame] = []


class TracebackReader:
    """Takes one stream's lines and gives its tracebacks as they end."""

    def __init__(self) -> None:
        self._reading: _Reading | None = None
        self._ended: Traceback | None = None
        self._chained = False

    def feed(self, line: Line) -> Iterator[Traceback]:
        """What ``line`` ends."""
        text = line.text.rstrip()
        if self._reading is not None:
            if self._inside(text, line):
                return
            self._reading = None
        if not text.strip():
            return
        if self._ended is not None and text.strip() in _CHAINS:
            self._chained = True
            return
        if text.endswith(HEADER):
            yield from self._begin(text)
            return
        if _FRAME.match(text) and self._ended is None:
            self._reading = _Reading(_indent(text) - 2, ())
            self._inside(text, line)
            return
        if self._ended is not None and self._chained:
            return
        yield from self.flush()
        if line.hooked and (bare := _BARE.match(text)):
            # The traceback's head was cut off; torch's own prefix tells that it was one.
            self._ended = Traceback(
                line.place, line.speaker, None, bare[1], bare[2][:2_000], (), hooked=True
            )

    def flush(self) -> Iterator[Traceback]:
        """The traceback that nothing followed."""
        if self._ended is not None:
            yield self._ended
        self._ended, self._chained = None, False

    def _begin(self, text: str) -> Iterator[Traceback]:
        causes: tuple[tuple[str, str], ...] = ()
        ended = self._ended
        if ended is not None and (self._chained or text.strip() == f"Original {HEADER}"):
            causes = (*ended.causes, (ended.type, ended.message))
        elif ended is not None:
            yield ended
        self._ended, self._chained = None, False
        # A progress bar or a label may be glued before the header: then its indent is not known.
        lead = text[: -len(HEADER)]
        self._reading = _Reading(len(lead) if not lead.strip() else 0, causes)

    # True while the line belongs to the traceback that is being read.
    def _inside(self, text: str, line: Line) -> bool:
        reading = self._reading
        assert reading is not None
        if not text.strip():
            return False
        if _indent(text) > reading.indent:
            frame = _FRAME.match(text)
            if frame is not None and len(reading.frames) < _DEEPEST:
                name = (frame["name"] or "<module>").strip()
                reading.frames.append(Frame(frame["file"], int(frame["line"]), name))
            return True
        found = parse_exception(text)
        if found is None:
            return False
        self._ended = Traceback(
            place=line.place,
            speaker=line.speaker,
            at=None,
            type=found[0],
            message=found[1][:2_000],
            frames=tuple(reading.frames),
            causes=reading.causes,
            hooked=line.hooked,
        )
        self._reading = None
        return True


class FatalErrorReader:
    """Takes one stream's lines and gives faulthandler's fatal errors as they end."""

    def __init__(self) -> None:
        self._place: Place | None = None
        self._speaker = Speaker()
        self._signal = 0
        self._frames: list[Frame] = []
        self._current = False

    def feed(self, line: Line) -> Iterator[FatalError]:
        """What ``line`` ends."""
        if match := _FATAL.search(line.text):
            yield from self.flush()
            self._place, self._speaker = line.place, line.speaker
            self._signal = _SIGNALS[match[1]]
            return
        if self._place is None:
            return
        text = line.text.strip()
        if text.startswith("Current thread") and "most recent call first" in text:
            self._current = True
        elif self._current and (frame := _NO_COMMA_FRAME.match(line.text)):
            self._frames.append(Frame(frame["file"], int(frame["line"]), frame["name"].strip()))
        elif self._current and (not text or text.startswith("Extension modules")):
            yield from self.flush()

    def flush(self) -> Iterator[FatalError]:
        """The fatal error that nothing followed."""
        if self._place is not None:
            # faulthandler prints the innermost frame first, tracebacks last: keep one order.
            frames = tuple(reversed(self._frames[:200]))
            yield FatalError(self._place, self._speaker, self._signal, frames)
        self._place, self._frames, self._current = None, [], False


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def parse_exception(text: str) -> tuple[str, str] | None:
    """Type and message of a traceback's last line, None for any other text.

    A type is a class's name: it has a capital, or a module before it (``zlib.error``).
    """
    match = _EXCEPTION.match(text.strip())
    if match is None or match["type"] in _LEVELS:
        return None
    if match["type"].islower() and "." not in match["type"]:
        return None
    return match["type"], match["message"] or ""


def parse_traceback(text: str) -> tuple[tuple[Frame, ...], str, str] | None:
    """Frames, type and message of the last traceback in ``text`` (an error.json's callstack)."""
    reader = TracebackReader()
    last: Traceback | None = None
    for number, raw in enumerate(text.split("\n")):
        for found in reader.feed(Line(Place("", number, None, ""), Speaker(), raw)):
            last = found
    for found in reader.flush():
        last = found
    return None if last is None else (last.frames, last.type, last.message)
