"""What may stand in a request's address: how it is read, and how the OpenAPI document tells it.

One table for both, so that what is documented is what is taken. What is not in it is refused by
name: a filter that was misspelt and ignored would be a wrong answer.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import msgspec
from starlette.requests import Request

from firstfault.model.board import Reader
from firstfault.web.problems import In, refused

Schema = Mapping[str, object]

LONGEST_WORD = 256
# 32 bits: what each store takes for a number of its own.
LARGEST_NUMBER = 2**31 - 1
# No job ended outside of these, and arithmetic with them does not overflow.
EARLIEST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LATEST = dt.datetime(2200, 1, 1, tzinfo=dt.UTC)

# ECMA 262, as JSON Schema has it, and Python's, alike. Control characters are nobody's name, and a
# NUL is no text to PostgreSQL.
WORD_PATTERN = r"^[^\u0000-\u001f\u007f]+$"
# In a path: no "/", which would end it.
SEGMENT_PATTERN = r"^[^\u0000-\u001f\u007f/]+$"

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NUMBER = re.compile(r"-?[0-9]{1,20}")
# RFC 3339, section 5.6. Python's own reader takes much more.
_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_MOMENT = re.compile(
    rf"{_DATE}(?:[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d)))?", re.ASCII
)


class Parameter(msgspec.Struct, frozen=True):
    """One value of a request; ``read`` makes it of its text and raises ValueError with what is
    wrong with it. ``default`` is what counts where it is not given."""

    name: str
    said: str
    schema: Schema
    read: Callable[[str], Any]
    place: Literal["query", "path"] = "query"
    default: Any = None
    allowed: tuple[str, ...] | None = None


def word(name: str, said: str) -> Parameter:
    """A text without control characters."""
    schema = {
        "type": "string",
        "minLength": 1,
        "maxLength": LONGEST_WORD,
        "pattern": WORD_PATTERN,
    }
    return Parameter(name, said, schema, partial(_word, LONGEST_WORD))


def segment(name: str, said: str) -> Parameter:
    """A text that is a part of the path."""
    schema = {
        "type": "string",
        "minLength": 1,
        "maxLength": LONGEST_WORD,
        "pattern": SEGMENT_PATTERN,
    }
    return Parameter(name, said, schema, partial(_word, LONGEST_WORD), "path")


def cursor(name: str, said: str) -> Parameter:
    """What an earlier answer gave to go on from."""
    schema = {"type": "string", "minLength": 1, "maxLength": 2000, "pattern": WORD_PATTERN}
    return Parameter(name, said, schema, partial(_word, 2000))


def choice(name: str, said: str, allowed: Sequence[str], default: str | None = None) -> Parameter:
    """One of some words."""
    schema: dict[str, object] = {"type": "string", "enum": list(allowed)}
    if default is not None:
        schema["default"] = default
    read = partial(_choice, tuple(allowed))
    return Parameter(name, said, schema, read, default=default, allowed=tuple(allowed))


def flag(name: str, said: str) -> Parameter:
    """Yes or no; no where it is not given."""
    allowed = ("true", "false")
    schema = {"type": "boolean", "default": False}

    def read(text: str) -> bool:
        return _choice(allowed, text) == "true"

    return Parameter(name, said, schema, read, default=False, allowed=allowed)


def number(
    name: str,
    said: str,
    least: int,
    most: int,
    default: int | None = None,
    place: Literal["query", "path"] = "query",
) -> Parameter:
    """A whole number."""
    schema: dict[str, object] = {"type": "integer", "minimum": least, "maximum": most}
    if default is not None:
        schema["default"] = default
    read = partial(_number, least, most)
    return Parameter(name, said, schema, read, place, default, (f"{least} to {most}",))


def moment(name: str, said: str) -> Parameter:
    """A time by RFC 3339, or a day, which is its midnight in UTC."""
    schema = {
        "anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]
    }
    return Parameter(name, said, schema, _moment)


class Asked(msgspec.Struct, frozen=True):
    """A request that was read: who asks, and each parameter's value or default by its name."""

    request: Request
    reader: Reader
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """The value of a parameter."""
        return self.values[name]


def asked(request: Request, reader: Reader, parameters: Sequence[Parameter]) -> Asked:
    """What a request asks. Raises `Refused`, which names the parameter that is wrong."""
    query = {each.name: each for each in parameters if each.place == "query"}
    values = {each.name: each.default for each in parameters}
    given: set[str] = set()
    for name, text in request.query_params.multi_items():
        if name not in query:
            raise refused(
                400,
                f"There is no parameter {_quoted(name)} here.{_meant(name, query)}",
                name[:LONGEST_WORD],
                "query",
                tuple(query),
            )
        if name in given:
            raise refused(400, f"{name} is given more than once.", name, "query")
        given.add(name)
        values[name] = _value(query[name], text, "query")
    for each in parameters:
        if each.place == "path":
            values[each.name] = _value(each, request.path_params[each.name], "path")
    return Asked(request, reader, values)


def _value(parameter: Parameter, text: str, place: In) -> Any:
    try:
        if not text:
            raise ValueError("is empty: leave it out")
        return parameter.read(text)
    except ValueError as error:
        detail = f"{parameter.name} {error}."
        raise refused(400, detail, parameter.name, place, parameter.allowed) from error


def _meant(name: str, known: Mapping[str, Parameter]) -> str:
    near = difflib.get_close_matches(name[:LONGEST_WORD], known, n=1)
    if near:
        return f" Did you mean {near[0]}?"
    return f" There are {', '.join(known)}." if known else " There is none."


def _quoted(text: str) -> str:
    shown = text if len(text) <= 60 else text[:60] + "..."
    return '"' + "".join(c if c.isprintable() else "?" for c in shown) + '"'


def _word(longest: int, text: str) -> str:
    if len(text) > longest:
        raise ValueError(f"has {len(text)} characters; it may have {longest}")
    if _CONTROL.search(text):
        raise ValueError("holds control characters")
    return text


def _choice(allowed: tuple[str, ...], text: str) -> str:
    if text not in allowed:
        raise ValueError(f"is {_quoted(text)}; it may be {', '.join(allowed)}")
    return text


def _number(least: int, most: int, text: str) -> int:
    if _NUMBER.fullmatch(text) is None or not least <= int(text) <= most:
        raise ValueError(f"is {_quoted(text)}; it may be a whole number from {least} to {most}")
    return int(text)


def _moment(text: str) -> dt.datetime:
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(
            f"is {_quoted(text)}; it may be a time as 2026-11-30T16:00:00Z (in an address a + is "
            f"written %2B), or a day as 2026-11-30"
        )
    year, month, day, hour, minute, second, fraction, sign, off_h, off_m = found.groups()
    microsecond = int(f"{fraction or 0:0<6}"[:6])
    leap = second == "60"
    try:
        at = dt.datetime(
            max(int(year), 1),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            59 if leap else int(second or 0),
            999_999 if leap else microsecond,
            tzinfo=dt.UTC,
        )
        offset = dt.timedelta(hours=int(off_h or 0), minutes=int(off_m or 0))
    except ValueError as error:
        raise ValueError(f"is {_quoted(text)}, and there is no such time: {error}") from error
    if int(off_h or 0) > 23 or int(off_m or 0) > 59:
        raise ValueError(f"is {_quoted(text)}, and there is no such zone")
    try:
        at = at + offset if sign == "-" else at - offset
    except OverflowError:
        at = EARLIEST if at < EARLIEST else LATEST
    return min(max(at, EARLIEST), LATEST)
