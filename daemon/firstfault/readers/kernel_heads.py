"""The head of a kernel line: its time, its host, and who wrote it.

| form | made by |
|---|---|
| ``6,500,1629472548,-;TEXT`` | /dev/kmsg (Documentation/ABI/testing/dev-kmsg) |
| ``[ 1629.472548] TEXT``, with ``[T123]`` or ``[C0]`` | dmesg; printk's caller (CONFIG_PRINTK_CALLER) |
| ``[ 1629.472548 <    0.000010>] ``, ``[<  0.000010>] ``, ``[ +0.000010] ``, ``[Nov30 15:56] `` | dmesg -d, -e, --time-format delta |
| ``<4>[ 1629.472548] ``, ``<4>[ 1629.47] `` | dmesg -r, pstore, a serial console |
| ``[Mon Nov 30 15:56:25 2026] `` | dmesg -T, a console server |
| ``kern  :err   : `` before any of these | dmesg -x |
| ``2026-11-30T15:56:25,423000+00:00 `` | dmesg --time-format iso |
| ``[ 1629.472548] HOST kernel: `` | journalctl -o short-monotonic |
| ``Nov 30 15:56:25 HOST kernel: ``, with a fraction | syslog, journalctl -o short, short-precise |
| ``2026-11-30T15:56:25+0000 HOST kernel: `` | journalctl -o short-iso, rsyslog |
| ``Mon 2026-11-30 15:56:25 UTC HOST kernel: `` | journalctl -o short-full |
| ``1796054185.423000 HOST kernel: `` | journalctl -o short-unix |
| ``<4>1 2026-11-30T15:56:25Z HOST kernel - - - `` | RFC 5424 |
| nothing, or ``kernel: ``, before ``NVRM: `` and ``nvidia-nvswitch0: `` | journalctl -o cat, a cut line |

After the host, another program's name in place of ``kernel`` makes it that program's line.
"""

from __future__ import annotations

import datetime as dt
import re

import msgspec

from firstfault.model.line import Span
from firstfault.readers.times import Zone, epoch, within_second

KERNEL = "kernel"
PROGRAM = "program"
# Programs that kill for want of memory: what they write is evidence of their own.
KILLERS = frozenset({"systemd-oomd", "earlyoom"})

_DELTA = r"(?: <[ +-]{0,12}\d{1,12}\.\d{6}>)?"
_KMSG = re.compile(r"(\d{1,4}),(\d{1,19}),(\d{1,19}),[^;]{0,64};")
_FACILITY = re.compile(
    r"(?P<name>kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]) {0,8}"
    r":[a-z]{2,8} {0,8}: "
)
# What grep puts before the lines of several files, or with -n.
_GREP = re.compile(
    r"(?:[\w./-]{1,100}:)?(?:\d{1,9}[:-])?(?=[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d "
    r"|\[ {0,12}\d{1,12}\.\d{6}\]|20\d\d-\d\d-\d\dT\d\d:)"
)
# A console server's or a terminal's own time stands before the kernel's.
_CAPTURE = re.compile(
    r"\[?20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?:? {0,4}"
    r"(?=(?:<\d{1,3}>)?\[ {0,12}\d{1,12}\.\d{6}\])"
)
_BOOT = re.compile(
    r"(?:<(?P<level>\d{1,3})>)?\[ {0,12}(?P<seconds>\d{1,12}\.\d{6})" + _DELTA + r"\]"
    r"(?:\[ {0,9}[TC]\d{1,9}\])? ?(?:(?P<host>[\w.-]{1,253}) (?P<program>kernel): )?"
)
_PSTORE = re.compile(r"<(?P<level>\d{1,3})>\[ {0,12}(?P<seconds>\d{1,12}\.\d{1,6})\] ?")
_WALL = re.compile(
    r"\[(\w{3} \w{3} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4})" + _DELTA + r"\] ?"
    r"(?:\[ {0,12}\d{1,12}\.\d{6}\] ?)?"
)
_RELATIVE = re.compile(
    r"\[(?:\w{3} {0,1}\d{1,2} \d\d:\d\d| {0,12}\+\d{1,12}\.\d{6}|< {0,12}[+-]?\d{1,12}\.\d{6}>)\] "
)
# dmesg's comma: with a point it is any program's time.
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d),(\d{6})([+-]\d\d:?\d\d) ")
_WHO = (
    r"(?P<host>[\w.:-]{1,253}) (?P<program>[\w.@/-]{1,64})(?:\[(?P<pid>\d{1,10})\])?: "
    r"(?:\[ {0,12}(?P<seconds>\d{1,12}\.\d{6})\] ?)?"
)
_SYSLOG = re.compile(r"(?:<\d{1,3}>)?(\w{3} {1,2}\d{1,2} \d\d:\d\d:\d\d)(?:\.\d{1,6})? " + _WHO)
_SYSLOG_ISO = re.compile(
    r"(?:<\d{1,3}>)?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?([+-]\d\d:?\d\d|Z) " + _WHO
)
_FULL = re.compile(
    r"\w{3} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d{1,6})? ([A-Z][A-Za-z]{1,5}|[+-]\d\d) " + _WHO
)
_UNIX = re.compile(r"(\d{9,11}\.\d{6}) " + _WHO)
_RFC5424 = re.compile(
    r"<(?P<level>\d{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?([+-]\d\d:\d\d|Z) "
    r"(?P<host>[\w.:-]{1,253}) (?P<program>[\w.@/-]{1,64}) \S{1,128} \S{1,32} "
    r"(?:-|\[[^\]]{0,400}\]) (?:\ufeff)?(?:\[ {0,12}(?P<seconds>\d{1,12}\.\d{6})\] ?)?"
)
# What NVIDIA's drivers say begins with their own names: such lines are passed around without heads.
_CARDS = ("NVRM: ", "kernel: NVRM: ", "nvidia-nvswitch", "kernel: nvidia-nvswitch")
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"


class Head(msgspec.Struct, frozen=True):
    """``since_boot_s`` is the kernel's own clock; ``writer`` is `KERNEL`, one of `KILLERS`, or
    `PROGRAM` for any other; ``end`` is where the text begins. ``program`` is the writer's own
    name, in the forms that give one.
    """

    end: int
    at: Span | None = None
    since_boot_s: float | None = None
    host: str | None = None
    writer: str = KERNEL
    program: str | None = None


def head(raw: str, zone: Zone) -> Head | None:
    """The head of ``raw``, None where it has none of the forms above.

    What grep puts before a line is passed over.
    """
    start = len(raw) - len(raw.lstrip(" \t"))
    if start > 16:
        return None
    if start == 0 and not raw.startswith("[") and (grep := _GREP.match(raw)):
        start = grep.end()
    if start == 0 and (match := _KMSG.match(raw)):
        return Head(match.end(), None, int(match[3]) / 1e6, writer=_by_level(match[1]))
    if raw.startswith(_CARDS, start):
        return Head(start + len("kernel: ") * raw.startswith("kernel: ", start))
    first = raw[start : start + 1]
    if not first.isascii() or not (first.isalnum() or first in ("[", "<")):
        return None
    writer = KERNEL
    if facility := _FACILITY.match(raw, start):
        writer = KERNEL if facility["name"] == "kern" else PROGRAM
        start = facility.end()
    elif first.islower():
        return None
    elif capture := _CAPTURE.match(raw, start):
        start = capture.end()
    return _by_clock(raw, start, zone, writer) or _by_host(raw, start, zone)


def has_grep_prefix(raw: str) -> bool:
    """Whether a name or a number with a colon stands before ``raw``'s head: grep's, or a rank's."""
    match = _GREP.match(raw)
    return match is not None and match.end() > 0


# The forms in which the kernel's line has no host.
def _by_clock(raw: str, start: int, zone: Zone, writer: str) -> Head | None:
    if match := _BOOT.match(raw, start) or _PSTORE.match(raw, start):
        if match["level"] is not None and writer == KERNEL:
            writer = _by_level(match["level"])
        host = match.groupdict().get("host")
        return Head(match.end(), None, float(match["seconds"]), named(host), writer)
    if match := _WALL.match(raw, start):
        return Head(match.end(), _ctime(match[1], zone), writer=writer)
    if match := _ISO.match(raw, start):
        return Head(match.end(), _zoned(match[1], match[2], match[3]), writer=writer)
    if match := _RELATIVE.match(raw, start):
        return Head(match.end(), writer=writer)
    return None


def _by_host(raw: str, start: int, zone: Zone) -> Head | None:
    at: Span | None
    if match := _SYSLOG_ISO.match(raw, start):
        at = _zoned(match[1], match[2] or "0", match[3])
    elif match := _SYSLOG.match(raw, start):
        at = _ctime(f"{match[1]} {zone.year}", zone) if zone.year else None
    elif match := _RFC5424.match(raw, start):
        at = _zoned(match[2], match[3] or "0", match[4])
    elif match := _FULL.match(raw, start):
        at = within_second(match[1], Zone(0, True) if match[2] in ("UTC", "GMT") else zone)
    elif match := _UNIX.match(raw, start):
        at = around(float(match[1]))
    else:
        return None
    seconds = match["seconds"]
    program = match["program"].rpartition("/")[2]
    writer = program if program == KERNEL or program in KILLERS else PROGRAM
    clock = float(seconds) if seconds and writer == KERNEL else None
    return Head(match.end(), at, clock, named(match["host"]), writer, program)


def named(host: str | None) -> str | None:
    """``host``, None where it is no machine's name."""
    return None if not host or host.partition(".")[0] == "localhost" else host


def around(seconds: float, uncertain_s: float = 0.0) -> Span | None:
    """A moment of UNIX time in seconds, None where it is no sane date."""
    first, last = epoch(seconds - uncertain_s), epoch(seconds + uncertain_s)
    return None if first is None or last is None else Span(first, last)


# "<4>" and /dev/kmsg's first number: facility times 8 plus level; the kernel's facility is 0.
def _by_level(level: str) -> str:
    return KERNEL if int(level) < 8 else PROGRAM


# "Sun Feb 23 16:24:18 2025" or "Feb 23 16:24:18 2025"; month names are English in both.
def _ctime(text: str, zone: Zone) -> Span | None:
    words = text.split()
    year, clock, day, month = words[-1], words[-2], words[-3], words[-4]
    number = _MONTHS.find(month) // 3 + 1
    if _MONTHS.find(month) % 3:
        return None
    return within_second(f"{year}-{number:02d}-{int(day):02d} {clock}", zone)


def _zoned(text: str, fraction: str, offset: str) -> Span | None:
    try:
        at = dt.datetime.fromisoformat(f"{text}.{fraction.ljust(6, '0')}{offset}")
        at = at.astimezone(dt.UTC)
    except (OverflowError, ValueError):
        return None
    return Span(at, at)
