"""Tracebacks in boxes, as rich prints them (rich/traceback.py), and so typer and Lightning.

::

    ╭──────────── Traceback (most recent call last) ────────────╮
    │ /home/u/train.py:59 in main                               │
    │                                                           │
    │ ❱ 59     loss.backward()                                  │
    ╰───────────────────────────────────────────────────────────╯
    ValueError: bad

A path too long for its line goes on in the next. Where the terminal is none, the box may be of
``+``, ``-`` and ``|``.
"""

from __future__ import annotations

import re

from firstfault.model.event import Frame

_TITLE = re.compile(r"[╭┌+][─-]{2,500} Traceback \(most recent call last\) [─-]{2,500}[╮┐+]$")
_FRAME = re.compile(r"(?P<file>[/<.\w].{0,4000}):(?P<line>\d{1,9}) in (?P<name>[\w<>.]{1,200})$")
_PATH = re.compile(r"[/.~]|[\w-]{1,200}/")


class BoxReader:
    """Takes the lines of one box, behind its title."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.closed = False
        self._begun = ""

    def feed(self, text: str) -> bool:
        """Whether ``text`` (right end stripped) belongs to the box."""
        first = text[:1]
        if first in ("╰", "└") or text.startswith("+--"):
            self.closed = True
            return True
        if first not in ("│", "|"):
            return False
        content = text[1:].rstrip("│| ")[1:]
        whole = self._begun + content
        self._begun = ""
        if match := (_FRAME.match(whole) or _FRAME.match(content)):
            self.frames.append(Frame(match["file"], int(match["line"]), match["name"]))
        elif _PATH.match(whole) and len(whole) < 4_096:
            self._begun = whole
        return True


def box_title(text: str) -> bool:
    """Whether ``text`` (stripped) is the upper border of a traceback's box."""
    return "Traceback (m" in text and bool(_TITLE.search(text[-1_200:]))
