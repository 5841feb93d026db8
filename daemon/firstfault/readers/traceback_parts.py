"""What a reader of tracebacks holds of those that it has not given yet."""

from __future__ import annotations

from collections.abc import Iterable

from firstfault.model.event import Frame
from firstfault.model.line import Line
from firstfault.readers.boxes import BoxReader
from firstfault.readers.groups import GroupReader

# A message's line is cut here; more than this proves nothing more.
LONGEST = 2_000

Causes = tuple[tuple[str, str], ...]


class Reading:
    """One traceback on its way, or several that were written into each other."""

    def __init__(self, indent: int, causes: Causes, line: Line) -> None:
        self.indent = indent
        self.causes = causes
        self.last = line
        self.before: list[End] = []
        self.frames: list[Frame] = []
        self.headers = 1
        self.last_header = 0
        self.strays = 0
        self.links = 0
        self.headless = False
        self.harmless = False
        self.remote = False
        self.linked = False
        self.thread = False
        self.child = False
        self.logged = False
        self.spawned: int | None = None
        self.inner: tuple[Frame, ...] = ()
        self.ends: list[End] = []
        self.box: BoxReader | None = None
        self.group: GroupReader | None = None


class End:
    """One exception's line, and what followed of its message."""

    def __init__(self, line: Line, found: tuple[str, str]) -> None:
        self.line = line
        self.type, self.message = found[0], found[1][:LONGEST]
        self.torn = not self.message and line.text.rstrip().endswith(":")
        self.said = 0
        self.more: list[str] = []
        self.frames: tuple[Frame, ...] = ()
        self.causes: Causes = ()
        self.mixed = False
        self.cut = False
        self.reading: Reading | None = None

    @property
    def harmless(self) -> bool:
        """Whether Python itself said that the exception was ignored."""
        return self.reading is not None and self.reading.harmless


def each_of(named: tuple[str, str]) -> Iterable[tuple[str, str]]:
    """The exceptions in one line: two ranks' equal ones may be glued."""
    kind, message = named
    half, odd = divmod(len(message) - len(kind) - 2, 2)
    if not odd and half > 0 and message[half:] == f"{kind}: {message[:half]}":
        return ((kind, message[:half]),) * 2
    return (named,)
