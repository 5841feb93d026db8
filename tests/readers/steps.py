"""How much work a call does, in lines of Python that it runs: the same on every machine.

What a regular expression does within itself is not counted: `tests.bench.hostile` shows that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


class TooMuch(Exception):
    """More lines than allowed were run."""


def steps(call: Callable[[], object], most: int = 100_000_000) -> int:
    """The lines that ``call`` runs. Raises `TooMuch` above ``most`` of them."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        if count > most:
            raise TooMuch
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
