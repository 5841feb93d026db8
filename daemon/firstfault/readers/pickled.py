"""Plain values out of a pickle, without `pickle`: nothing is imported, called or built from it.

What torch's C++ pickler writes of dictionaries, lists, tuples, strings and numbers (protocol 2,
torch/csrc/jit/serialization/pickler.cpp), and what Python's writes of the same; the opcodes are those
of Python's Lib/pickletools.py. Any other is refused. A pickle that was cut gives what stands before
the cut; so does one that is too long to be read to its end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

# Values take some sixty times the bytes that a hostile file needs to make them.
_MOST_STEPS = 1_000_000
# A dump has lists in dictionaries in lists.
_DEEPEST = 64


class NotPlain(ValueError):
    """The bytes are no pickle, or one that would build more than plain values."""


class Plain(NamedTuple):
    """A value; ``whole`` is False where it was cut, or where more stands in the file."""

    value: Any
    whole: bool


class _Cut(Exception):
    """The bytes end within an opcode."""


def plain(data: bytes) -> Plain:
    """The value pickled in ``data``. A part of it may stand in it twice, or in itself.

    Raises `NotPlain` for anything but plain values.
    """
    machine = _Machine(data)
    try:
        return Plain(machine.run(), True)
    except _Cut:
        return Plain(machine.cut_off(), False)
    except (IndexError, KeyError, TypeError) as error:
        raise NotPlain(f"not a pickle: {error!r}") from error


class _Machine:
    """The stack, in levels (a mark begins one), and how far the bytes were read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._levels: list[list[Any]] = [[]]
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        """The value, at the opcode that ends it."""
        data, steps = self._data, _STEPS
        for _ in range(_MOST_STEPS):
            if self._at >= len(data):
                raise _Cut
            code = data[self._at]
            self._at += 1
            if code == _STOP:
                return self._value()
            step = steps.get(code)
            if step is None:
                raise NotPlain(f"the opcode {code:#x} stands in it, which plain values do not need")
            step(self)
        raise _Cut

    def cut_off(self) -> Any:
        """The value as far as it goes, each part closed where it was cut."""
        while len(self._levels) > 1:
            items = self._levels.pop()
            if self._levels[-1]:
                _put_in(self._levels[-1][-1], items)
        if not self._levels[0]:
            raise NotPlain("nothing stands in it")
        return self._levels[0][0]

    def _value(self) -> Any:
        if len(self._levels) != 1 or len(self._levels[0]) != 1:
            raise NotPlain("not a pickle of one value")
        return self._levels[0][0]

    def _take(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        if len(part) < count:
            raise _Cut
        self._at += count
        return part

    def _number(self, count: int) -> int:
        return int.from_bytes(self._take(count), "little")

    def push(self, value: Any) -> None:
        self._levels[-1].append(value)

    def push_unsigned(self, count: int) -> None:
        self.push(self._number(count))

    def push_signed(self, count: int) -> None:
        self.push(int.from_bytes(self._take(count), "little", signed=True))

    def push_long(self) -> None:
        self.push_signed(self._number(1))

    def push_float(self) -> None:
        self.push(struct.unpack(">d", self._take(8))[0])

    def push_text(self, count: int) -> None:
        self.push(self._take(self._number(count)).decode("utf-8", "replace"))

    def skip(self, count: int) -> None:
        self._take(count)

    def mark(self) -> None:
        if len(self._levels) >= _DEEPEST:
            raise NotPlain(f"more than {_DEEPEST} levels stand in each other")
        self._levels.append([])

    def keep(self, count: int) -> None:
        self._memo[self._number(count) if count else len(self._memo)] = self._levels[-1][-1]

    def repeat(self, count: int) -> None:
        self.push(self._memo[self._number(count)])

    def join(self, count: int) -> None:
        """A tuple of the last ``count`` values."""
        stack = self._levels[-1]
        items = [stack.pop() for _ in range(count)]
        stack.append(tuple(reversed(items)))

    def join_all(self) -> None:
        items = tuple(self._levels.pop())
        self._levels[-1].append(items)

    def put(self, count: int) -> None:
        """The last ``count`` values, into what stands before them."""
        stack = self._levels[-1]
        items = [stack.pop() for _ in range(count)]
        _put_in(stack[-1], items[::-1])

    def put_all(self) -> None:
        items = self._levels.pop()
        _put_in(self._levels[-1][-1], items)


def _put_in(container: Any, items: list[Any]) -> None:
    if isinstance(container, list):
        container.extend(items)
    elif isinstance(container, dict):
        pairs = zip(items[::2], items[1::2], strict=False)
        container.update((key, value) for key, value in pairs if isinstance(key, str))
    elif items:
        raise NotPlain("items of what is no list and no dictionary")


_STOP = ord(".")
_STEPS: dict[int, Callable[[_Machine], None]] = {
    ord("("): _Machine.mark,
    ord("}"): lambda m: m.push({}),
    ord("]"): lambda m: m.push([]),
    ord(")"): lambda m: m.push(()),
    ord("N"): lambda m: m.push(None),
    0x88: lambda m: m.push(True),
    0x89: lambda m: m.push(False),
    ord("K"): lambda m: m.push_unsigned(1),
    ord("M"): lambda m: m.push_unsigned(2),
    ord("J"): lambda m: m.push_signed(4),
    0x8A: _Machine.push_long,
    ord("G"): _Machine.push_float,
    0x8C: lambda m: m.push_text(1),
    ord("X"): lambda m: m.push_text(4),
    ord("q"): lambda m: m.keep(1),
    ord("r"): lambda m: m.keep(4),
    0x94: lambda m: m.keep(0),
    ord("h"): lambda m: m.repeat(1),
    ord("j"): lambda m: m.repeat(4),
    ord("a"): lambda m: m.put(1),
    ord("s"): lambda m: m.put(2),
    ord("e"): _Machine.put_all,
    ord("u"): _Machine.put_all,
    ord("t"): _Machine.join_all,
    0x85: lambda m: m.join(1),
    0x86: lambda m: m.join(2),
    0x87: lambda m: m.join(3),
    0x80: lambda m: m.skip(1),
    0x95: lambda m: m.skip(8),
}
"""What each opcode does: PROTO and FRAME (the last two) nothing."""
