"""Failures and nodes as CSV (RFC 4180), for spreadsheets: what users wrote acts in none of them."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Iterable, Sequence

MEDIA_TYPE = "text/csv; charset=utf-8; header=present"

# What a spreadsheet takes for the beginning of a formula, a tab and a line's end before it too.
# https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def lines(rows: Iterable[Sequence[object]]) -> bytes:
    """Rows as CSV, each ended by CR LF. Times are RFC 3339, an absent value is an empty field."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(
        [_cell(value) for value in row] for row in rows
    )
    return text.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return _inert("; ".join(f"{name} {count}" for name, count in value.items()))
    return _inert(str(value))


# An apostrophe makes it text, and is what spreadsheets themselves write there. NULs end a file for
# some readers.
def _inert(text: str) -> str:
    text = text.replace("\x00", "")
    return "'" + text if text.lstrip(" ").startswith(_FORMULA) else text
