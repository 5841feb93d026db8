"""Words of trouble near a log's end that no reader and no signature knows.

They prove no cause. But a log that ends in them is not one in which nothing went wrong.
"""

from __future__ import annotations

import re
from collections import deque

from firstfault.model.document import Document
from firstfault.model.line import Line, Place
from firstfault.streams.lines import lines

# So many lines at a log's end are looked at: what work went on after was no end.
_TAIL = 15
_TAIL_BYTES = 16_384
_WORDS = re.compile(
    r"(?i)\b(?:errors?|exception|fatal|abort(?:ed|ing)?|killed|segmentation fault|core dumped|"
    r"panic(?:ked)?|cannot|can't|could not|couldn't|failed|failure|refused|denied|timed? ?out|"
    r"not found|no such|unable to|terminated|unrecognized|undefined|oom)\b|(?-i:[a-z]Error\b)"
)
# Metrics, counts of none, and what a level says is no error.
_HARMLESS = re.compile(
    r"(?i)\b(?:no|0|zero|without) (?:errors?|failures?)\b|\berrors?\b ?(?:rate|norm|bars?)?"
    r"(?: ?[:=] ?| )[-+]?\.?\d|\b0 failed\b|\bfailed[:=] ?0\b|"
    r"\b(?:INFO|DEBUG|WARN|WARNING)\b|"
    r"^\W{0,20}[WI]\d{4} |^\W{0,30}\[[WI]\d{3,4} |\b\w{1,40}Warning\b"
)
# A frame in rich's box, an agent that warns of its workers, and words of a process's end.
_TRACES = re.compile(
    r"\b(?:exit(?:ed with)?|return(?:ed)?) (?:exit )?(?:code|status):? {0,3}[1-9]\d{0,2}\b|"
    r"\breceived by PID \d|\binterrupted by signal \d|"
    r"❱ {0,8}\d{1,9} │|\.py:\d{1,9} in \S{1,200} {0,200}│|"
    r"^[WE]\d{4} .{1,60}/elastic/multiprocessing/api\.py:\d{1,6}\]"
)
_FINISHED = re.compile(
    r"(?i)\b(?:training|job|run|script|experiment)\b.{0,20}\b(?:finished|completed?|done)\b"
)


def alarms(document: Document) -> tuple[Place, ...]:
    """The lines with words of trouble near the end of an output, if no work went on after them."""
    if not document.excerpts:
        return ()
    last = document.excerpts[-1]
    tail = deque((each for each in lines(document) if each.text.strip()), maxlen=_TAIL)
    ended = last.offset + len(last.data)
    found: list[Place] = []
    for line in tail:
        if _FINISHED.search(line.text):
            found = []
        elif line.place.offset >= ended - _TAIL_BYTES and _is_alarming(line):
            found.append(line.place)
    return tuple(found)


def _is_alarming(line: Line) -> bool:
    text = line.text[:1_000]
    if _TRACES.search(text):
        return True
    return _WORDS.search(text) is not None and _HARMLESS.search(text) is None
