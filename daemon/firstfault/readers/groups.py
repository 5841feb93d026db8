"""Exception groups: tracebacks behind a margin (CPython 3.11 and later, Lib/traceback.py).

::

      + Exception Group Traceback (most recent call last):
      |   File "train.py", line 3, in <module>
      | ExceptionGroup: two things (2 sub-exceptions)
      +-+---------------- 1 ----------------
        | ValueError: one
        +---------------- 2 ----------------
        | Traceback (most recent call last):
        |   File "train.py", line 1, in f
        | TypeError: two
        +------------------------------------
"""

from __future__ import annotations

import re

import msgspec

from firstfault.model.event import Frame
from firstfault.model.line import Line
from firstfault.readers.stack_lines import HEADER, frame, is_link, parse_exception

GROUP_HEADER = f"+ Exception Group {HEADER}"
_MARGIN = re.compile(r"\s{0,200}\|(?: (?P<text>.*))?$", re.DOTALL)
_RULE = re.compile(r"\s{0,200}\+(?:-\+)?-{10,}")
_MOST = 1_000


class Part(msgspec.Struct, frozen=True):
    """One exception of a group: ``line`` is where it is named."""

    line: Line
    type: str
    message: str
    frames: tuple[Frame, ...]


class GroupReader:
    """Takes the lines of one group, behind its header."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._frames: list[Frame] = []
        self._open = True

    def feed(self, text: str, line: Line) -> bool:
        """Whether ``line`` belongs to the group; ``text`` is its text, right end stripped."""
        if _RULE.match(text):
            self._frames, self._open = [], True
            return True
        margin = _MARGIN.match(text)
        if margin is None:
            return False
        inner = margin["text"] or ""
        if inner.endswith(HEADER):
            self._frames, self._open = [], True
        elif is_link(inner.strip()):
            # What led to the next exception is none of the group's.
            self.parts = self.parts[:-1]
        elif self._open and (found := frame(inner)):
            self._frames.append(found)
        elif self._open and inner[:1].strip() and (named := parse_exception(inner)):
            if len(self.parts) < _MOST:
                self.parts.append(Part(line, *named, tuple(self._frames)))
            self._open = False
        return True

    def group(self) -> Part | None:
        """The group itself, None where its line is missing."""
        return self.parts[0] if self.parts else None

    def leaves(self) -> list[Part]:
        """The exceptions in the group and in the groups within it."""
        return [part for part in self.parts[1:] if not part.type.endswith("ExceptionGroup")]
