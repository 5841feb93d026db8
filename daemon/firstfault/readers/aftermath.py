"""What a stream says after its exceptions: whether one of them ended its process, or was survived."""

from __future__ import annotations

from collections import deque

from firstfault.model.line import Place
from firstfault.readers import stack_lines
from firstfault.readers.advance import advanced_to

# So many steps of work after an exception tell that its process may have gone on.
_WORK = 3
# A word of going on stands right behind the exception that it is about.
_BEHIND = 2
# So many lines of the log behind an exception that was logged tell that the program went on.
_LOGS = 3


class Aftermath:
    """Counts a stream's lines, those of tracebacks and launchers left out.

    ``said`` is how many there were since its first exception.
    """

    def __init__(self) -> None:
        self.said = 0
        self._step: int | None = None
        self._steps: deque[int] = deque(maxlen=_WORK)
        # Where a line right behind an exception says that its program goes on without what failed.
        self._near = 0
        self._handled: set[int] = set()
        # Exceptions that a program wrote into its log, and where the stream's last log lines are.
        self._logged: set[Place] = set()
        self._logs: deque[int] = deque(maxlen=_LOGS)
        self._marks: dict[Place, int] = {}

    @property
    def begun(self) -> bool:
        """Whether an exception was told."""
        return bool(self._marks)

    def count(self, text: str) -> None:
        """Takes the stream's next line."""
        self.said += 1
        if self.said <= self._near and stack_lines.was_handled(text):
            self._handled.add(self.said)
        if self._logged and stack_lines.is_log(text):
            self._logs.append(self.said)
        step = advanced_to(text)
        if step is not None and step != self._step:
            self._step = step
            self._steps.append(self.said)

    def ended(self) -> None:
        """Notes that an exception's line was read."""
        self._near = self.said + _BEHIND

    def mark(self, place: Place, said: int, *, logged: bool) -> None:
        """Notes the exception at ``place``, after ``said`` lines; ``logged``: by the program itself."""
        self._marks[place] = said
        if logged:
            self._logged.add(place)

    def worked(self, place: Place) -> bool:
        """Whether several steps of work followed the exception at ``place``, or a word of going on.

        Or the log went on into which the program itself wrote it.
        """
        mark = self._marks.get(place, self.said)
        if any(mark + said in self._handled for said in range(1, _BEHIND + 1)):
            return True
        if place in self._logged and len(self._logs) == _LOGS and self._logs[0] > mark:
            return True
        return len(self._steps) == _WORK and self._steps[0] > mark

    def followed(self, place: Place) -> int:
        """How many lines have followed the exception at ``place``."""
        return self.said - self._marks.get(place, self.said)
