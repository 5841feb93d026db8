"""The patterns that make a line of a log worth a place in the record (anchors.txt)."""

import pkgutil
import re
from typing import List, Pattern

# Lines of a Python stack, and what may follow it, are kept after such an anchor.
STACK_HEADS = (b"Traceback (most recent call last)", b"Fatal Python error", b"Root Cause")


def patterns() -> List[str]:
    """The patterns of anchors.txt, extended regular expressions."""
    text = pkgutil.get_data("firstfault_epilog", "anchors.txt")
    assert text is not None
    lines = text.decode("ascii").split("\n")
    return [line for line in lines if line and not line.startswith("#")]


def compiled() -> Pattern[bytes]:
    """One expression that matches where any of the patterns does, line by line."""
    return re.compile("|".join(f"(?:{p})" for p in patterns()).encode("ascii"), re.MULTILINE)
