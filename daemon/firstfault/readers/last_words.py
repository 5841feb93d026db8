"""The last that each speaker said: when, and how far it had come.

What stands before the job's end counts, and nothing that tells of the end itself. Formats of times
at a line's beginning: Python's logging, ISO 8601 with and without a zone, Megatron-LM's brackets,
glog's and absl's "I1130 15:56:26.041000".
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from firstfault.model.document import Document
from firstfault.model.event import LastWords
from firstfault.model.line import Line, Speaker
from firstfault.readers.advance import progress
from firstfault.readers.times import Zone, glog, moment

# So many of a speaker's last lines are looked at.
KEPT = 6
_SEARCHED = 160
# So many pauses between lines that count steps tell how long one is.
_PAUSES = 2
# Lines that two processes write at once may change places.
_MIXED = dt.timedelta(seconds=2)
_STAMP = re.compile(
    r"(?<![\d-])(20\d\d)[-/](\d\d)[-/](\d\d)([T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
    r"(Z|[+-]\d\d:?\d\d)?"
)
_GLOG = re.compile(r"(?:^|[\s\[:])[IWEF](\d{4}) (\d\d:\d\d:\d\d\.\d{1,9})\b")
# What a program says when its steps are done, or between them: then it may be long at work.
_CLOSING = re.compile(
    r"(?i)\b(?:finish|done\b|complet|sav(?:e|ing)\b|checkpoint|evaluat|validat|test(?:ing)?\b|export"
    r"|upload|generat|consolidat|download|compil|preprocess|tokeniz|warm)"
)
# What a program says that was told to stop: Lightning, Megatron-LM, submitit, one's own handler.
_SIGNALLED = re.compile(
    r"(?i)\bSIG(?:TERM|USR[12]|INT|HUP|XCPU)\b|\bsignal(?: number|:)? (?:2|10|12|15)\b|\bpreempt"
)
# Python and C write whole buffers of these many bytes into a file: what is in the last one is lost.
_BLOCK = 4_096
# A line as short as this may be a beginning of another by chance.
_SHORTEST = 3


class LastLines:
    """A speaker's last lines and how many it said."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque(maxlen=KEPT)
        self._count = 0

    def feed(self, line: Line) -> None:
        """Takes a line that says something and is no launcher's or Slurm's word."""
        self._lines.append(line)
        self._count += 1

    def pass_over(self, last: Sequence[Line], count: int) -> None:
        """Takes ``count`` such lines at once, of which ``last`` are the last ones."""
        self._lines.extend(last[-KEPT:])
        self._count += count

    def flush(
        self, document: Document, zone: Zone, *, torn: bool, flushed: bool
    ) -> LastWords | None:
        """What the lines tell, None where there were none; the next ones begin anew.

        ``torn`` says that another's word stands in the middle of the document's last line,
        ``flushed`` that the document's lines were written as they were said.
        """
        lines, count = list(self._lines), self._count
        self._lines.clear()
        self._count = 0
        if not lines:
            return None
        said = _told(lines, count, document, zone)
        return msgspec.structs.replace(said, cut=said.cut or torn, flushed=flushed)


class _Step(NamedTuple):
    number: int
    total: int | None
    at: dt.datetime | None


def _told(lines: Sequence[Line], count: int, document: Document, zone: Zone) -> LastWords:
    last = lines[-1]
    steps = [
        _Step(*counted, stamp(line.place.text, zone))
        for line in lines
        if (counted := progress(line.text)) is not None
    ]
    times = [step.at for step in steps if step.at is not None]
    pauses = [(later - at).total_seconds() for at, later in itertools.pairwise(times)]
    step = steps[-1] if steps else None
    done = step is not None and step.number == step.total
    return LastWords(
        place=last.place,
        speaker=last.speaker,
        at=stamp(last.place.text, zone),
        lines=count,
        pause_s=max(pauses) if len(pauses) >= _PAUSES and len(times) == len(steps) else None,
        step=step.number if step else None,
        total=step.total if step else None,
        steps_per_s=_pace([each for each in steps if each.at is not None]),
        closing=done or bool(_CLOSING.search(last.text[:_SEARCHED])),
        cut=_is_cut(lines, document),
        written_at=document.modified_at,
        line_bytes=sum(len(line.place.text) + 1 for line in lines) / len(lines),
        signalled=any(_SIGNALLED.search(line.text[:_SEARCHED]) for line in lines),
    )


# Steps in a second between the first and the last of the lines that count them.
def _pace(steps: Sequence[_Step]) -> float | None:
    if not steps:
        return None
    first, last = steps[0], steps[-1]
    if first.at is None or last.at is None or last.at <= first.at or last.number <= first.number:
        return None
    return (last.number - first.number) / (last.at - first.at).total_seconds()


# Output that was not flushed ends anywhere: within a line, or where a buffer ended.
def _is_cut(lines: Sequence[Line], document: Document) -> bool:
    if len(lines) > 1:
        shape, before = (re.sub(r"\d+", "0", line.text) for line in (lines[-1], lines[-2]))
        if _SHORTEST < len(shape) < len(before) and before.startswith(shape.rstrip("0")):
            return True
    if document.what == "job-output" or not document.excerpts or not document.size:
        return False
    return document.size % _BLOCK == 0 and not document.excerpts[-1].data.endswith(b"\n")


def are_flushed(lines: Sequence[Line], zone: Zone) -> bool:
    """Whether several writers' lines stand in the order of their times.

    Lines that are held back come in blocks of one writer, each of which begins in the past again.
    """
    begun: dt.datetime | None = None
    writers: set[tuple[Speaker, int | None]] = set()
    repeated = False
    for line in lines:
        at = stamp(line.place.text, zone)
        counted = progress(line.text)
        if at is None or counted is None:
            continue
        if begun is not None and at < begun - _MIXED:
            return False
        begun = at if begun is None else max(at, begun)
        key = (line.speaker, counted[0])
        repeated = repeated or key in writers
        writers.add(key)
    return repeated or len({who for who, _ in writers}) > 1


def stamp(text: str, zone: Zone) -> dt.datetime | None:
    """The moment that a line says at its beginning; None where it says none."""
    text = text[:_SEARCHED]
    if ":" not in text:
        return None
    if "20" in text and (match := _STAMP.search(text)):
        own = zone
        if match[5]:
            own = Zone(_offset_s(match[5]), True, zone.year)
        return moment(f"{match[1]}-{match[2]}-{match[3]}{match[4]}", own)
    if match := _GLOG.search(text):
        return glog(match[1], match[2], zone)
    return None


def _offset_s(text: str) -> int:
    if text == "Z":
        return 0
    sign = -1 if text[0] == "-" else 1
    return sign * (int(text[1:3]) * 3_600 + int(text[-2:]) * 60)
