"""Lines that show ranks at their work: after a failure they tell that the job went on."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

import msgspec

from firstfault.model.event import (
    Cancelled,
    Event,
    ExitNoticed,
    MemoryPoll,
    NodeFailure,
    OomNoticed,
    StepEnded,
    TableEntry,
    TaskEnd,
)
from firstfault.model.line import Line, Speaker
from firstfault.streams.passages import Tail

# What loops print of their steps: a word with its number, or a progress bar.
_ADVANCE = re.compile(
    r"(?i)\b(?:step|epoch|iter(?:ation)?|batch)s?[ :=\[(#/]{1,4}(\d{1,15})|(\d{1,3})%\|"
)
# "errors=0 failed_samples: 0" are metrics.
_NO_ADVANCE = re.compile(
    r"(?i)(?:error|fail)(?!\w{0,24} ?[=:] ?\d)|warn|except|traceback|resum|load|restor|sav|from "
)
# The same with what it counts to; the narrowest word first. A bar without a name counts all steps.
_COUNTS = tuple(
    re.compile(
        rf"(?i)\b(?:{word})s?[ :=\[(#/]{{1,12}}(\d{{1,15}})"
        r"(?:[ ]{0,12}(?:/|of)[ ]{0,12}(\d{1,15}))?(?![\d.])"
    )
    for word in ("(?:global[_ ])?step", "iter(?:ation)?", "batch", "epoch")
)
_BAR = re.compile(r"\d{1,3}%\|[^|]{0,200}\| {0,3}(\d{1,15})/(\d{1,15}) \[")
_EPOCH = re.compile(r"(?i)\bepochs?\b")
# So many of one speaker after one failure are kept.
_FEW = 3
_MOST = 100_000
# So many steps after a word of an end tell that the work went on.
_WORK = 3
_RECENT = 200
_SEARCHED = 400
# What else tells of an end, though it tells no launches apart.
_ENDS = (MemoryPoll, NodeFailure, OomNoticed, StepEnded, TaskEnd)


class Advance(msgspec.Struct, frozen=True, gc=False):
    """A line that shows a rank at its work ("step 12", "45%|"), after something was ended.

    ``back`` is True where its number has gone back: the work began anew.
    """

    speaker: Speaker
    offset: int
    text: str
    back: bool = False


class Worked(msgspec.Struct, frozen=True, gc=False):
    """Where the last several steps of one speaker's work begin, -1 where none follow an end.

    ``plain`` is the same of speakers without a rank's prefix: what torchrun passes on comes late.
    """

    offset: int = -1
    plain: int = -1


class Advances:
    """Gathers lines of advance, once something ended: before that nobody asks."""

    def __init__(self) -> None:
        self.after = 0
        self.found: list[Advance] = []
        # The last lines before the first end: what they counted is looked at only then.
        self.recent = Tail(_RECENT, blank=True)
        # The last lines whose number is another than that of their speaker's line before.
        self._steps: deque[int] = deque(maxlen=_WORK)
        self._seen: dict[Speaker, set[str]] = {}
        self._counts: dict[Speaker, int] = {}
        # The same for each speaker, after any end, until one has worked on after the last.
        self._watched = False
        self._ended_at = -1
        self._work: dict[Speaker, deque[int]] = {}

    def feed(self, line: Line, events: Sequence[Event]) -> bool:
        """Takes a line and the events in it; whether these end something."""
        if any(isinstance(event, TableEntry | ExitNoticed | Cancelled) for event in events):
            if self.after == 0:
                for earlier in self.recent.lines():
                    self._count(earlier)
                self.recent.clear()
            self.after += 1
            self._watch(line)
            self._seen = {}
            return True
        if not events and self.after > 0:
            self._take(line)
        elif not events and self._watched:
            self._count(line)
        elif any(isinstance(event, _ENDS) for event in events):
            self._watch(line)
        return False

    def _watch(self, line: Line) -> None:
        self._watched = True
        self._ended_at = line.place.offset

    @property
    def watched(self) -> bool:
        """Whether something ended, and it is not known yet whether the work went on."""
        return self._watched

    def worked(self) -> Worked:
        """Where the last several steps of work after an end begin."""
        full = {who: at[0] for who, at in self._work.items() if len(at) == _WORK}
        plain = (at for who, at in full.items() if who.rank is None and who.local_rank is None)
        return Worked(max(full.values(), default=-1), max(plain, default=-1))

    def went_on(self, offset: int) -> bool:
        """Whether several steps of work stand behind ``offset``."""
        return len(self._steps) == _WORK and self._steps[0] > offset

    def _take(self, line: Line) -> None:
        last = self._counts.get(line.speaker)
        number = self._count(line)
        if number is None:
            return
        text = line.text[:_SEARCHED]
        if number != last:
            self._steps.append(line.place.offset)
        back = last is not None and number < last and number * 2 <= last
        seen = self._seen.setdefault(line.speaker, set())
        if back or (len(seen) < _FEW and text not in seen):
            seen.add(text)
            if len(self.found) < _MOST:
                self.found.append(Advance(line.speaker, line.place.offset, text, back))

    def _count(self, line: Line) -> int | None:
        number = advanced_to(line.text)
        if number is not None:
            if self._watched and number != self._counts.get(line.speaker):
                work = self._work.setdefault(line.speaker, deque(maxlen=_WORK))
                work.append(line.place.offset)
                gone_on = len(work) == _WORK and work[0] > self._ended_at
                self._watched = self.after > 0 or not gone_on
            self._counts[line.speaker] = number
        return number


def advanced_to(text: str) -> int | None:
    """The number of the step that a line of work tells, None for any other line."""
    text = text[:_SEARCHED]
    match = None if text[:1].isspace() else _ADVANCE.search(text)
    if match is None or _NO_ADVANCE.search(text):
        return None
    return int(match[1] or match[2])


def progress(text: str) -> tuple[int, int | None] | None:
    """The step that a line of work tells and how many there are to be; None for any other line.

    The number of all is left out where the line also counts epochs: it may be one epoch's.
    """
    text = text[:_SEARCHED]
    if _NO_ADVANCE.search(text):
        return None
    if "%|" in text and (bar := _BAR.search(text)):
        whole = text[: bar.start()].strip() == ""
        return int(bar[1]), int(bar[2]) if whole else None
    for pattern in _COUNTS:
        if match := pattern.search(text):
            one = pattern is _COUNTS[-1] or not _EPOCH.search(text)
            return int(match[1]), int(match[2]) if match[2] and one else None
    return None
