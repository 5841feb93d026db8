"""Ranks as people write them: "0-16,18"."""

from __future__ import annotations

from collections.abc import Sequence


def ranges(numbers: Sequence[int]) -> str | None:
    """The ascending ``numbers`` as "0-16,18"; None for no number."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] + 1 == number:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    text = ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in parts)
    return text or None
