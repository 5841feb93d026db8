"""The records of a kernel log, from every form in which it is kept: lines, or a journal's fields.

| form | made by |
|---|---|
| lines, one a record | see kernel_heads.py |
| ``{"MESSAGE": "...", "_HOSTNAME": ...}``, one a line or over several | journalctl -o json, json-pretty |
| ``MESSAGE=...`` blocks between empty lines | journalctl -o export |
| ``"time": 1629.472548,`` / ``"msg": "..."`` | dmesg --json |

A log may hold several boots: a line "Linux version" or "-- Boot ID --", another ``_BOOT_ID``, or a
kernel clock that goes back begins a new one. A node's calibrated clock is of its last boot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import msgspec

from firstfault.model.document import Document
from firstfault.model.line import Place, Span
from firstfault.readers.kernel_heads import (
    KERNEL,
    KILLERS,
    PROGRAM,
    Head,
    around,
    head,
    named,
)
from firstfault.readers.times import Zone
from firstfault.streams.lines import raw_lines

# The kernel's own lines are of 1 KiB at most (LOG_LINE_MAX); what is longer is cut.
LONGEST = 2_048
# The kernel's clock is not the same on all processors at once: less than this is no new boot.
_BACK_S = 1.0
_JOURNAL_BOOT = re.compile(r"-- (?:Boot [0-9a-f]{32}|Reboot) --$")
# Parts of one boot's log that pstore keeps last part first.
_PSTORE_PART = re.compile(r"(?:Panic|Oops|Emergency|Unknown)#\d{1,6} Part\d{1,6}$")
_FIRST_LINE = "Linux version "
_LONGEST_FIELD = 16_384
# The field whose line is quoted.
_MESSAGES = ("MESSAGE", "msg")
_JSON_FIELD = re.compile(r'[ \t]{0,16}"(\w{1,64})"[ \t]{0,4}:[ \t]{0,4}(.*)$', re.DOTALL)
_JSON_HEAD = re.compile(
    r'"_TRANSPORT"[ \t]{0,4}:[ \t]{0,4}"kernel"|^\s{0,64}\{\s{0,64}"dmesg"\s{0,8}:'
)
_EXPORT_FIELD = re.compile(r"([A-Z_0-9]{1,64})=(.*)$", re.DOTALL)
_EXPORT_HEAD = re.compile(r"(?m)^_TRANSPORT=kernel\r?$")


class Record(msgspec.Struct, frozen=True):
    """One message. ``boot`` counts the boots of the log from 1; ``headed`` is False for a line
    that has no head of its own. ``writer`` as in `firstfault.readers.kernel_heads.Head`.
    """

    place: Place
    text: str
    at: Span | None = None
    since_boot_s: float | None = None
    host: str | None = None
    writer: str = KERNEL
    boot: int = 1
    headed: bool = True


def looks_like_json(text: str) -> bool:
    """Whether ``text`` is the head of a journal or of dmesg's output in JSON, of the kernel's."""
    return _JSON_HEAD.search(text) is not None


def looks_like_export(text: str) -> bool:
    """Whether ``text`` is the head of a journal in the export format, of the kernel's."""
    return text.startswith(("__CURSOR=", "__REALTIME_TIMESTAMP=")) and bool(
        _EXPORT_HEAD.search(text)
    )


def records(document: Document, zone: Zone) -> Iterator[Record]:
    """The records of ``document`` in their order, with their times where these can be told."""
    clock = document.clock
    if clock is None or clock.kernel_offset_s is None:
        yield from _records(document, zone)
        return
    last = max((each.boot for each in _records(document, zone)), default=1)
    wide = max(clock.uncertainty_s, 1e-6)
    for each in _records(document, zone):
        if each.at is None and each.since_boot_s is not None and each.boot == last:
            at = around(clock.kernel_offset_s + each.since_boot_s, wide)
            yield msgspec.structs.replace(each, at=at)
        else:
            yield each


def _records(document: Document, zone: Zone) -> Iterator[Record]:
    start = document.excerpts[0].data[:65_536] if document.excerpts else b""
    text = start.decode("utf-8", "replace").lstrip("\x00\x1e \t\r\n")
    if text.startswith("{") and looks_like_json(text):
        yield from _of_fields(_json_objects(document), document)
    elif looks_like_export(text):
        yield from _of_fields(_export_blocks(document), document)
    else:
        yield from _of_lines(document, zone)


def _of_lines(document: Document, zone: Zone) -> Iterator[Record]:
    boot = 1
    begun = False
    clock: float | None = None
    for place, raw in raw_lines(document):
        line = raw[:LONGEST]
        found = head(line, zone)
        if found is None:
            if _JOURNAL_BOOT.match(line.strip()):
                boot, clock, begun = boot + begun, None, False
            elif _PSTORE_PART.match(line.strip()):
                clock = None
            # A file that a collector took as the kernel's is the kernel's to its last word.
            writer = KERNEL if document.what == "kernel" else PROGRAM
            yield Record(place, line, None, None, document.host, writer, boot, headed=False)
            continue
        text = line[found.end :]
        if begun and _is_new(found, text, clock):
            boot, clock = boot + 1, None
        if found.since_boot_s is not None:
            clock = max(clock or 0.0, found.since_boot_s)
        begun = True
        host = found.host or document.host
        yield Record(place, text, found.at, found.since_boot_s, host, found.writer, boot)


def _is_new(found: Head, text: str, clock: float | None) -> bool:
    if found.writer != KERNEL:
        return False
    if text.startswith(_FIRST_LINE):
        return True
    seconds = found.since_boot_s
    return seconds is not None and clock is not None and seconds + _BACK_S < clock


def _of_fields(
    found: Iterable[tuple[Place, dict[str, str]]], document: Document
) -> Iterator[Record]:
    boots: dict[str, int] = {}
    for place, fields in found:
        text = fields.get("MESSAGE", fields.get("msg"))
        if text is None:
            continue
        name = fields.get("_BOOT_ID", "")
        boot = boots.setdefault(name, len(boots) + 1)
        yield Record(
            place,
            text[:LONGEST],
            _received(fields),
            _number(fields.get("time")),
            named(fields.get("_HOSTNAME")) or document.host,
            _writer(fields),
            boot,
        )


# journald takes a kernel's line soon after it was said; how soon depends on the node's load.
def _received(fields: dict[str, str]) -> Span | None:
    micros = _number(fields.get("__REALTIME_TIMESTAMP"))
    if micros is None:
        return None
    return around(micros / 1e6 - 0.5, 0.5)


def _number(text: str | None) -> float | None:
    if text is None or len(text) > 24:
        return None
    try:
        return float(text)
    except ValueError:
        return None


# "_TRANSPORT" and "_COMM" are journald's own words, which no program can write.
def _writer(fields: dict[str, str]) -> str:
    if "msg" in fields:
        kernels = fields.get("fac", "kern") == "kern"
        return KERNEL if kernels and (_number(fields.get("pri")) or 0) < 8 else PROGRAM
    if fields.get("_TRANSPORT") == "kernel":
        return KERNEL
    name = fields.get("_COMM", "")
    return name if name in KILLERS else PROGRAM


def _json_objects(document: Document) -> Iterator[tuple[Place, dict[str, str]]]:
    fields: dict[str, str] = {}
    first: Place | None = None
    for place, raw in raw_lines(document):
        line = raw.lstrip("\x1e \t")
        if line.startswith('{"') and line.rstrip(" ,\r").endswith("}"):
            yield place, _json_line(line.rstrip(" ,\r"))
        elif match := _JSON_FIELD.match(line):
            if first is None or match[1] in _MESSAGES:
                first = place
            if len(fields) < 200:
                fields[match[1]] = _json_value(match[2].rstrip(" ,\r"))
        elif line.startswith("}"):
            if first is not None:
                yield first, fields
            fields, first = {}, None
    if first is not None:
        yield first, fields


def _json_line(line: str) -> dict[str, str]:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(key): text for key, value in found.items() if (text := _text(value)) is not None}


def _json_value(text: str) -> str:
    try:
        return _text(json.loads(text[:_LONGEST_FIELD])) or ""
    except (ValueError, RecursionError):
        return ""


# A message that is no text is a list of its bytes.
def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list):
        numbers = [each for each in value[:LONGEST] if isinstance(each, int) and 0 <= each < 256]
        return bytes(numbers).decode("utf-8", "replace")
    return None


def _export_blocks(document: Document) -> Iterator[tuple[Place, dict[str, str]]]:
    fields: dict[str, str] = {}
    first: Place | None = None
    for place, line in raw_lines(document):
        if not line.strip():
            if first is not None:
                yield first, fields
            fields, first = {}, None
        elif match := _EXPORT_FIELD.match(line):
            if first is None or match[1] in _MESSAGES:
                first = place
            if len(fields) < 200:
                fields[match[1]] = match[2].rstrip("\r")
    if first is not None:
        yield first, fields
