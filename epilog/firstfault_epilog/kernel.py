"""The kernel log: reading it, and the offset of its clock.

A line is as /dev/kmsg gives it, ``prefix,sequence,microseconds,flags;text``, possibly followed by
lines that start with a blank (Documentation/ABI/testing/dev-kmsg).
"""

import errno
import json
import os
import re
import select
import stat
import time
from typing import List, NamedTuple, Optional, Tuple

from firstfault_epilog import command
from firstfault_epilog.record import Clock, Coverage

DEVICE = "/dev/kmsg"
BYTES_MAX = 64 << 20
FALLBACK_DEADLINE_S = 10.0
RESTRICTED = "/proc/sys/kernel/dmesg_restrict"
# What stands in for the device, by the name in the record: where the program may be, and its
# arguments.
JOURNAL = (
    "journalctl -k",
    ("/usr/bin/journalctl", "/bin/journalctl"),
    ("-k", "-b", "-o", "json", "--no-pager", "-q"),
)
# By way of syslog(2): from /dev/kmsg dmesg of util-linux 2.38 prints <5> for <12>, and a program's
# line would pass for the kernel's.
DMESG = ("dmesg --raw", ("/usr/bin/dmesg", "/bin/dmesg"), ("--raw", "--syslog"))
MARKER = b"firstfault: clock "
_HEAD = re.compile(rb"([0-9]+),([0-9]+),([0-9]+),[^;]*;")
# The thread or processor after the time: CONFIG_PRINTK_CALLER.
_RAW_DMESG = re.compile(
    rb"<([0-9]{1,4})>\[ *([0-9]{1,12})\.([0-9]{6})\](?:\[ *[TC][0-9]{1,9}\])? ?(.*)"
)


class Line(NamedTuple):
    """One record: ``offset`` and ``number`` (from 1) are its place in what was read."""

    offset: int
    number: int
    data: bytes
    prefix: int
    sequence: int
    microseconds: int
    text: bytes


class Log(NamedTuple):
    """What was read of the kernel log; ``name`` is the file or command that gave it."""

    name: str
    size: int
    lines: Tuple[Line, ...]
    coverage: Tuple[Coverage, ...]


def read(path: str) -> Log:
    """The kernel log at ``path``; for /dev/kmsg, journalctl and dmesg stand in where it fails."""
    try:
        data, lost = _device(path)
    except OSError as error:
        reason = errno.errorcode.get(error.errno or 0, "EIO")
        if path == DEVICE:
            return _fallback(reason)
        detail = f"the kernel log cannot be read: {os.strerror(error.errno or errno.EIO)}"
        return Log(path, 0, (), (Coverage("kernel", path, "none", reason, detail),))
    coverage = Coverage("kernel", path, "full")
    if lost:
        detail = f"records were overwritten while it was read ({lost} times)"
        coverage = Coverage("kernel", path, "partial", "EPIPE", detail)
    return Log(path, len(data), parse(data), (coverage,))


def parse(data: bytes) -> Tuple[Line, ...]:
    """The records in ``data``, in the format of /dev/kmsg; lines of no record are left out."""
    result: List[Line] = []
    offset = 0
    for number, raw in enumerate(re.findall(rb"[^\n]*\n|[^\n]+", data), 1):
        match = _HEAD.match(raw)
        if match is not None:
            prefix, sequence, microseconds = (int(group) for group in match.groups())
            text = raw[match.end() :].rstrip(b"\r\n")
            result.append(Line(offset, number, raw, prefix, sequence, microseconds, text))
        elif raw.startswith(b" ") and result:
            last = result[-1]
            if last.offset + len(last.data) == offset:
                result[-1] = last._replace(data=last.data + raw)
        offset += len(raw)
    return tuple(result)


def calibrate(path: str, configured_s: Optional[float], now_s: float) -> Clock:
    """The node's clocks: a marker is written to /dev/kmsg and read back.

    Where that is not possible the kernel's monotonic clock stands in. ``configured_s`` is the
    offset for a file that stands in for /dev/kmsg; without it such a file has none.
    """
    utc_offset = time.localtime(now_s).tm_gmtoff
    if path != DEVICE:
        method = None if configured_s is None else "configured"
        return Clock(now_s, configured_s, 0.05, utc_offset, method)
    try:
        found = _marker()
    except OSError:
        found = None
    if found is not None:
        wall_s, kernel_s, uncertainty_s = found
        return Clock(wall_s, round(wall_s - kernel_s, 6), uncertainty_s, utc_offset, "kmsg-marker")
    wall_s = time.time()
    offset = wall_s - time.clock_gettime(time.CLOCK_MONOTONIC)
    return Clock(wall_s, round(offset, 6), 2.0, utc_offset, "uptime")


def _device(path: str) -> Tuple[bytes, int]:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        is_file = stat.S_ISREG(os.fstat(handle).st_mode)
        parts: List[bytes] = []
        size = lost = 0
        while size < BYTES_MAX:
            try:
                # A record of /dev/kmsg comes whole, in one read, or not at all.
                part = os.read(handle, (1 << 20) if is_file else (1 << 14))
            except BlockingIOError:
                break
            except BrokenPipeError:
                lost += 1
                continue
            if not part:
                break
            parts.append(part)
            size += len(part)
    finally:
        os.close(handle)
    return b"".join(parts), lost


def _marker() -> Optional[Tuple[float, float, float]]:
    reader = os.open(DEVICE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.lseek(reader, 0, os.SEEK_END)
        token = MARKER + os.urandom(8).hex().encode("ascii")
        writer = os.open(DEVICE, os.O_WRONLY | os.O_CLOEXEC)
        try:
            before = time.time()
            # user.info, so that nobody takes it for the kernel's; without a newline the record
            # would wait for its continuation.
            os.write(writer, b"<14>" + token + b"\n")
            after = time.time()
        finally:
            os.close(writer)
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        stop_at = time.monotonic() + 0.5
        while time.monotonic() < stop_at:
            try:
                data = os.read(reader, 1 << 14)
            except BlockingIOError:
                poll.poll(20)
                continue
            except BrokenPipeError:
                continue
            match = _HEAD.match(data)
            if match is not None and data[match.end() :].startswith(token):
                kernel_s = int(match.group(3)) / 1e6
                return (before + after) / 2, kernel_s, round((after - before) / 2 + 0.001, 6)
    finally:
        os.close(reader)
    return None


def _fallback(reason: str) -> Log:
    why = f"{DEVICE} cannot be read" + _restriction(reason)
    for (name, programs, arguments), read_lines in (
        (JOURNAL, _journal_lines),
        (DMESG, _dmesg_lines),
    ):
        program = next((each for each in programs if os.access(each, os.X_OK)), programs[0])
        printed = command.output((program, *arguments), FALLBACK_DEADLINE_S, BYTES_MAX)
        lines = read_lines(printed.data)
        if lines:
            detail = f"{why}: taken from {name}, the sequence numbers are made up"
            if printed.fault is not None:
                detail += f"; {printed.fault}"
            data = b"".join(lines)
            coverage = Coverage("kernel", DEVICE, "partial", reason, detail)
            return Log(name, len(data), parse(data), (coverage,))
    detail = f"{why}, and neither journalctl nor dmesg gives the kernel log"
    return Log(DEVICE, 0, (), (Coverage("kernel", DEVICE, "none", reason, detail),))


def _restriction(reason: str) -> str:
    try:
        with open(RESTRICTED, "rb") as file:
            restricted = file.read(8).strip() == b"1"
    except OSError:
        restricted = False
    if reason == "EPERM" and restricted:
        return " (kernel.dmesg_restrict is 1 and the collector has no CAP_SYSLOG)"
    return ""


class JournalRow(NamedTuple):
    """One line of the kernel's in the journal; ``boot`` is its 32 digits, ``written_at_s`` when
    journald took it (since 1970); each None where the journal does not tell."""

    prefix: int
    microseconds: int
    text: bytes
    boot: Optional[str]
    written_at_s: Optional[float]


def journal_rows(data: bytes) -> List[JournalRow]:
    """The lines in ``data``, which ``journalctl -o json`` printed; what is malformed is left out."""
    rows = []
    for raw in data.split(b"\n"):
        try:
            entry = json.loads(raw.decode("utf-8"))
            message = entry["MESSAGE"]
            at = entry.get("_SOURCE_MONOTONIC_TIMESTAMP") or entry["__MONOTONIC_TIMESTAMP"]
            text = bytes(message) if isinstance(message, list) else message.encode("utf-8")
            prefix = int(entry.get("SYSLOG_FACILITY", 0)) * 8 + int(entry.get("PRIORITY", 6))
            boot, written = entry.get("_BOOT_ID"), entry.get("__REALTIME_TIMESTAMP")
            rows.append(
                JournalRow(
                    prefix,
                    int(at),
                    text.replace(b"\n", b"\\x0a"),
                    boot if re.match(r"[0-9a-f]{32}\Z", boot or "") else None,
                    None if written is None else int(written) / 1e6,
                )
            )
        except (ValueError, KeyError, AttributeError, TypeError):
            continue
    return rows


def dmesg_rows(data: bytes) -> List[Tuple[int, int, bytes]]:
    """Prefix, microseconds and text of the lines in ``data``, as ``dmesg --raw`` prints them."""
    rows = []
    for raw in data.split(b"\n"):
        match = _RAW_DMESG.match(raw)
        if match is not None:
            prefix, seconds, fraction, text = match.groups()
            rows.append((int(prefix), int(seconds) * 1000000 + int(fraction), text))
    return rows


def numbered(rows: List[Tuple[int, int, bytes]]) -> List[bytes]:
    """Lines in the format of /dev/kmsg of ``rows`` (prefix, microseconds, text).

    Their sequence numbers are made up from the time alone, so that two readers agree on them.
    """
    result = []
    last = same = 0
    for prefix, microseconds, text in rows:
        same = same + 1 if microseconds == last else 0
        last = microseconds
        sequence = microseconds * 1024 + min(same, 1023)
        result.append(b"%d,%d,%d,-;%s\n" % (prefix, sequence, microseconds, text))
    return result


def _journal_lines(data: bytes) -> List[bytes]:
    return numbered([(row.prefix, row.microseconds, row.text) for row in journal_rows(data)])


def _dmesg_lines(data: bytes) -> List[bytes]:
    return numbered(dmesg_rows(data))
