"""Which of a huge file's alarming lines count: of each speaker's each kind the first and last.

A log may hold a million alarming lines before the first fault or after it. What must not be
lost is the first line of a kind, and the last of a speaker's: a rank that died has said its
last words, whatever it cried before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

# Of one kind of one speaker, so many first lines and as many last ones.
FIRST = 3
LAST = 3
# More kinds than this are told apart no further.
MOST_KINDS = 20_000
_LABEL = re.compile(rb"(?:\d{1,6}: ?)?(?:\[[^\]\s]{1,40}\]:? ?){0,3}")
_NUMBER = re.compile(rb"[0-9]+")
_KIND_LENGTH = 48
# A line that begins what is read on, or that is a launcher's or Slurm's own word.
_STRONG = re.compile(
    rb"Traceback \(most|Fatal Python|terminate called|Root Cause|exitcode|failed \(exitcode|"
    rb"srun: |slurmstepd|CANCELLED AT|oom|Out [Oo]f [Mm]emory|Killed|Segmentation|NCCL WARN|Xid"
)
_OPENING = b"Traceback (most"


class Hit(msgspec.Struct, frozen=True):
    """An alarming line at ``offset``; what belongs to it ends with the line at ``end``."""

    offset: int
    end: int


class _Kind:
    __slots__ = ("first", "last", "strong")

    def __init__(self, strong: bool) -> None:
        self.first: list[list[int]] = []
        self.last: list[list[int]] = []
        self.strong = strong

    def add(self, hit: list[int]) -> None:
        if len(self.first) < FIRST:
            self.first.append(hit)
            return
        self.last.append(hit)
        if len(self.last) > LAST:
            self.last.pop(0)


class Hits:
    """The alarming lines as they are found, in memory that does not grow with their number."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[bytes, bytes], _Kind] = {}
        # The traceback that each speaker has begun, [offset, end].
        self._open: dict[bytes, list[int]] = {}

    def add(self, offset: int, text: bytes) -> None:
        """Notes the line ``text`` at ``offset``."""
        head = text[:256]
        label = _LABEL.match(head)
        who = label.group() if label else b""
        said = head[len(who) :].lstrip()
        hit = [offset, offset]
        if opened := self._open.pop(who, None):
            opened[1] = offset
        if said.startswith(_OPENING):
            self._open[who] = hit
        key = (who, _NUMBER.sub(b"#", said[:_KIND_LENGTH]))
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= MOST_KINDS:
                key = (who, b"") if len(self._kinds) < 2 * MOST_KINDS else (b"", b"")
            kind = self._kinds.setdefault(key, _Kind(bool(_STRONG.search(text))))
        kind.add(hit)

    def ranked(self) -> Iterator[list[Hit]]:
        """The lines in tiers, the tier that must not be lost first; each tier in their order.

        First the first of each speaker's each kind that is strong, then its last, then the first
        of each kind whoever says it, then of each speaker's each kind, the last, and the others.
        """
        strong = [kind for kind in self._kinds.values() if kind.strong]
        yield _sorted(kind.first[0] for kind in strong)
        yield _sorted(kind.last[-1] for kind in strong if kind.last)
        heard: dict[bytes, list[int]] = {}
        for (_, said), kind in self._kinds.items():
            earliest = heard.setdefault(said, kind.first[0])
            if kind.first[0] < earliest:
                heard[said] = kind.first[0]
        yield _sorted(heard.values())
        yield _sorted(kind.first[0] for kind in self._kinds.values())
        yield _sorted(kind.last[-1] for kind in self._kinds.values() if kind.last)
        yield _sorted(
            hit for kind in self._kinds.values() for hit in [*kind.first[1:], *kind.last[:-1]]
        )


def _sorted(hits: Iterable[list[int]]) -> list[Hit]:
    return [Hit(offset, end) for offset, end in sorted(hits)]
