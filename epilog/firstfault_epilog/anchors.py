"""The patterns that make a line of a log worth a place in the record (anchors.txt)."""

import pkgutil
import re
from typing import List, NamedTuple, Pattern

# Lines of a Python stack, and what may follow it, are kept after such an anchor.
STACK_HEADS = (b"Traceback (most recent call last)", b"Fatal Python error", b"Root Cause")


class Anchors(NamedTuple):
    """The same patterns for grep -E (one a line) and for Python."""

    patterns: str
    expression: Pattern[bytes]


def read() -> Anchors:
    """The patterns of anchors.txt."""
    text = pkgutil.get_data("firstfault_epilog", "anchors.txt")
    assert text is not None
    return of(text.decode("ascii").split("\n"))


def of(lines: List[str]) -> Anchors:
    """The patterns in ``lines``, of which those that are empty or start with # are none."""
    patterns = [line for line in lines if line and not line.startswith("#")]
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    return Anchors("\n".join(patterns), re.compile(joined.encode("ascii"), re.MULTILINE))
