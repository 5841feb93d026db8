"""The daemon's log: one line an event, safe to read in a terminal, and free of secrets.

As logfmt (``key=value``) or as JSON. Whatever a value, an exception or another library's message
quotes, what `hide` was told does not come out.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import sys
import threading
from types import TracebackType
from typing import Literal

LOGGER = logging.getLogger("firstfault")

Format = Literal["logfmt", "json"]

_PLAIN = re.compile(r"[A-Za-z0-9_./:+@\[\],-]+")
_LONGEST = 1000
_LONGEST_TRACE = 4000
# Shorter, and ordinary words would go missing from the log.
_SHORTEST_SECRET = 6

_hidden: set[str] = set()


def say(level: int, event: str, **values: object) -> None:
    """Logs ``event`` with its values; absent ones (None) are left out."""
    LOGGER.log(level, event, extra={"values": values})


def trouble(event: str, **values: object) -> None:
    """Logs ``event`` as an error, with the trace of the exception that is being handled."""
    LOGGER.error(event, exc_info=True, extra={"values": values})


def hide(*secrets: str) -> None:
    """Keeps these texts out of every line from now on."""
    _hidden.update(secret for secret in secrets if len(secret) >= _SHORTEST_SECRET)


def shown(value: object) -> str:
    """``value`` as one word, quoted and escaped where it is not plain; nothing acts in a terminal."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = _text(value)
    if _PLAIN.fullmatch(text):
        return text
    escaped = "".join(_escaped(character) for character in text)
    return f'"{escaped}"'


def start(level: str, form: Format = "logfmt") -> None:
    """Sends the log to standard error, and with it what other libraries warn of and what ends a
    thread or the program by surprise."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Logfmt())
    # A line that cannot be written must not be answered with more lines, unmasked.
    logging.raiseExceptions = False
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False
    logging.getLogger().handlers[:] = [handler]
    logging.getLogger().setLevel(logging.WARNING)
    # It warns of each malformed request that a stranger sends.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    sys.excepthook = _crashed
    threading.excepthook = _thread_crashed


class _Logfmt(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={shown(value)}" for key, value in _fields(self, record).items())


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        plain = {
            key: value if isinstance(value, bool | int | float) else _text(value)
            for key, value in _fields(self, record).items()
        }
        return json.dumps(plain)  # ASCII: nothing acts in a terminal here either


class _Trace(str):
    """A text of which the end matters and the beginning may go."""


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = {
        "time": dt.datetime.fromtimestamp(record.created, dt.UTC),
        "level": record.levelname.lower(),
    }
    values = getattr(record, "values", None)
    if values is None:
        fields |= {"event": "library", "logger": record.name, "message": record.getMessage()}
    else:
        fields["event"] = record.msg
        fields |= {key: value for key, value in values.items() if value is not None}
    if record.exc_info:
        fields["trace"] = _Trace(formatter.formatException(record.exc_info))
    return fields


def _text(value: object) -> str:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = str(value)
    # Before it is cut: half a secret is one, too. The longest first: one may hold another.
    for secret in sorted(_hidden, key=len, reverse=True):
        text = text.replace(secret, "[hidden]")
    if isinstance(value, _Trace):
        return text[-_LONGEST_TRACE:]
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character == "\n":
        return "\\n"
    return character if character.isprintable() else f"\\u{ord(character):04x}"


def _crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    LOGGER.critical("crashed", exc_info=(kind, error, trace), extra={"values": {}})


def _thread_crashed(arguments: threading.ExceptHookArgs) -> None:
    name = arguments.thread.name if arguments.thread else None
    error = arguments.exc_value or arguments.exc_type()
    LOGGER.critical("crashed", exc_info=error, extra={"values": {"thread": name}})
