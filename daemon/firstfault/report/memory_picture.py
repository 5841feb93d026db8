"""Who held the memory that was short, as bars: how long, and what stands beside them."""

from __future__ import annotations

import msgspec

from firstfault.model import verdict as v
from firstfault.report import wording as w

NOTE = "The kernel's table of who held memory"
"""How a verdict's note begins that says the same in words."""

_MOST_BARS = 8


class Bar(msgspec.Struct, frozen=True):
    """A process, or a sum of several: ``width`` in percents of the longest bar or the limit.

    ``kind`` is "killed" for the process that the kernel chose, "own" for others of its user,
    "others" for the sum of other users'.
    """

    name: str
    size: str
    width: float
    kind: str


class MemoryPicture(msgspec.Struct, frozen=True):
    """``limit`` is the place of the limit in percents, None where the host itself was full."""

    sentence: str
    bars: tuple[Bar, ...]
    limit: float | None


def memory_picture(memory: v.Memory | None) -> MemoryPicture | None:
    """The bars for a verdict's ``memory``; None where there is none."""
    if memory is None or not memory.holders:
        return None
    held: list[tuple[str, int, str]] = [
        (_name(each), each.kib, "killed" if each.killed else "own")
        for each in memory.holders[:_MOST_BARS]
    ]
    if memory.rest is not None:
        smaller = w.count(memory.rest.processes, "smaller process", "smaller processes")
        held.append((smaller, memory.rest.kib, "own"))
    if memory.others is not None:
        several = w.count(memory.others.processes, "process", "processes")
        held.append((f"{several} of other users", memory.others.kib, "others"))
    limit = memory.limit_kib or 0
    longest = max(1, limit, *(kib for _, kib, _ in held))
    return MemoryPicture(
        sentence=_sentence(memory),
        bars=tuple(
            Bar(name, w.mebibytes(kib), round(100 * kib / longest, 2), kind)
            for name, kib, kind in held
        ),
        limit=round(100 * limit / longest, 2) if limit else None,
    )


def _name(holder: v.Holder) -> str:
    command = w.clean(holder.command, 64)
    whose = f"rank {holder.rank}, " if holder.rank is not None else ""
    return f"{command} ({whose}pid {holder.pid})"


def _sentence(memory: v.Memory) -> str:
    on = f" on {w.clean(memory.host, 100)}" if memory.host else ""
    if memory.limit_kib is None:
        return f"What processes held when the memory{on} ran out."
    of = "memory and swap" if memory.with_swap else "memory"
    used = f", {w.mebibytes(memory.used_kib)} in use" if memory.used_kib is not None else ""
    return (
        f"The limit on {of}{on}: {w.mebibytes(memory.limit_kib)}{used}. "
        "Pages that processes share count for each of them."
    )
