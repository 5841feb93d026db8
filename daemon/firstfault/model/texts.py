"""Every text in a frozen value, changed alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

# JSON in UTF-8 can hold no lone surrogate, PostgreSQL's text no NUL.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def mapped(value: T, change: Callable[[str], str], kept: Collection[str] = ()) -> T:
    """``value`` (structs, tuples, texts) with ``change`` made to each text, but for those in
    fields that are named in ``kept``. What does not change stays the same object."""
    seen: dict[str, str] = {}

    def within(each: Any) -> Any:
        if isinstance(each, str):
            if each not in seen:
                seen[each] = change(each)
            return seen[each]
        if isinstance(each, tuple):
            parts = [within(part) for part in each]
            same = all(new is old for new, old in zip(parts, each, strict=True))
            return each if same else tuple(parts)
        if isinstance(each, msgspec.Struct):
            changed = {}
            for name in each.__struct_fields__:
                old = getattr(each, name)
                if not (name in kept and isinstance(old, str)):
                    new = within(old)
                    if new is not old:
                        changed[name] = new
            return msgspec.structs.replace(each, **changed) if changed else each
        return each

    result: T = within(value)
    return result


def storable(value: T) -> T:
    """``value`` with what no database and no JSON can hold spelled out: NUL as ``\\0``, a lone
    surrogate as ``\\ud83d``. A program's error.json may hold either."""
    return mapped(value, _spelled_out)


def _spelled_out(text: str) -> str:
    if not _UNSTORABLE.search(text):
        return text
    return _UNSTORABLE.sub(lambda found: _name(found.group()), text)


def _name(char: str) -> str:
    return "\\0" if char == "\x00" else f"\\u{ord(char):04x}"
