"""The daemon's log: one line an event, ``key=value``, safe to read in a terminal."""

from __future__ import annotations

import datetime as dt
import logging
import re
import sys

LOGGER = logging.getLogger("firstfault")

_PLAIN = re.compile(r"[A-Za-z0-9_./:+@\[\],-]+")


def say(level: int, event: str, **values: object) -> None:
    """Logs ``event`` with its values; absent ones (None) are left out."""
    if LOGGER.isEnabledFor(level):
        parts = [f"event={event}"]
        parts += [f"{key}={shown(value)}" for key, value in values.items() if value is not None]
        LOGGER.log(level, "%s", " ".join(parts))


def shown(value: object) -> str:
    """``value`` as one word, quoted and escaped where it is not plain; nothing acts in a terminal."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = str(value)
    if len(text) > 1000:
        text = text[:1000] + "..."
    if _PLAIN.fullmatch(text):
        return text
    escaped = "".join(_escaped(character) for character in text)
    return f'"{escaped}"'


def start(level: str) -> None:
    """Sends the log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = dt.datetime.fromtimestamp(record.created, dt.UTC)
        line = f"time={shown(at)} level={record.levelname.lower()} {record.getMessage()}"
        if record.exc_info:
            line += f" trace={shown(self.formatException(record.exc_info)[-4000:])}"
        return line


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character == "\n":
        return "\\n"
    return character if character.isprintable() else f"\\u{ord(character):04x}"
