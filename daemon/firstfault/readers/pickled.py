"""Plain values out of a pickle, without `pickle`: nothing is imported, called or built from it.

What torch's C++ pickler writes of dictionaries, lists, tuples, strings and numbers (protocol 2,
torch/csrc/jit/serialization/pickler.cpp), and what Python's writes of the same. Any other opcode is
refused. A pickle that was cut gives what stands before the cut.
"""

from __future__ import annotations

import pickletools
from typing import Any

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = frozenset(
    {"BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"}
)
_EMPTY = {"EMPTY_DICT": dict, "EMPTY_LIST": list}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUT = frozenset({"BINPUT", "LONG_BINPUT"})
_GET = frozenset({"BINGET", "LONG_BINGET"})
_NOTHING = frozenset({"PROTO", "FRAME"})


class NotPlain(ValueError):
    """The bytes are no pickle, or one that would build more than plain values."""


def plain(data: bytes) -> Any:
    """The value pickled in ``data``. A part of it may stand in it twice, or in itself.

    Raises `NotPlain` for anything but plain values.
    """
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                break
            machine.step(opcode.name, argument)
    except ValueError as error:
        # pickletools says so where the bytes end, or are none of a pickle.
        if isinstance(error, NotPlain) or not machine.has_begun:
            raise NotPlain(str(error)) from error
        return machine.cut_off()
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise NotPlain(f"not a pickle: {error!r}") from error
    return machine.value()


class _Machine:
    """The stack, in levels: a mark begins one."""

    def __init__(self) -> None:
        self._levels: list[list[Any]] = [[]]
        self._memo: dict[int, Any] = {}

    @property
    def has_begun(self) -> bool:
        return bool(self._levels[0])

    def step(self, name: str, argument: Any) -> None:
        stack = self._levels[-1]
        if name in _VALUES:
            stack.append(argument)
        elif name in _PUT:
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in _GET:
            stack.append(self._memo[argument])
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MARK":
            self._levels.append([])
        elif name in _TUPLES:
            count = _TUPLES[name]
            items = [stack.pop() for _ in range(count)]
            stack.append(tuple(reversed(items)))
        elif name not in _NOTHING:
            self._gather(name)

    def _gather(self, name: str) -> None:
        if name in ("APPEND", "SETITEM"):
            count = 1 if name == "APPEND" else 2
            items = self._levels[-1][-count:]
            del self._levels[-1][-count:]
        elif name in ("APPENDS", "SETITEMS", "TUPLE"):
            items = self._levels.pop()
        else:
            raise NotPlain(f"{name} stands in it, which plain values do not need")
        if name == "TUPLE":
            self._levels[-1].append(tuple(items))
        else:
            _put_in(self._levels[-1][-1], items)

    def value(self) -> Any:
        if len(self._levels) != 1 or len(self._levels[0]) != 1:
            raise NotPlain("not a pickle of one value")
        return self._levels[0][0]

    def cut_off(self) -> Any:
        """The value as far as it goes, each part closed where it was cut."""
        while len(self._levels) > 1:
            items = self._levels.pop()
            if self._levels[-1]:
                _put_in(self._levels[-1][-1], items)
        return self._levels[0][0] if self._levels[0] else None


def _put_in(container: Any, items: list[Any]) -> None:
    if isinstance(container, list):
        container.extend(items)
    elif isinstance(container, dict):
        pairs = zip(items[::2], items[1::2], strict=False)
        container.update((key, value) for key, value in pairs if isinstance(key, str))
    elif items:
        raise NotPlain("items of what is no list and no dictionary")
