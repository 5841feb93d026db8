"""The kernel log: OOM kills, traps and Xids, from every form in which it is kept.

Formats from the kernel's mm/oom_kill.c (``dump_header``, ``__oom_kill_process``),
mm/memcontrol.c (``mem_cgroup_print_oom_meminfo``), arch/x86/mm/fault.c
(``show_signal_msg``), Documentation/ABI/testing/dev-kmsg; cgroup paths as Slurm makes them
(src/plugins/cgroup).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

import msgspec

from firstfault.model.document import Document
from firstfault.model.event import OomKill, Trap, Xid
from firstfault.model.line import Place, Span
from firstfault.readers.times import Zone, within_second
from firstfault.streams.lines import raw_lines

# The kernel's own lines are of 1 KiB at most (LOG_LINE_MAX); what is longer is cut.
_LONGEST = 2_048
_KMSG = re.compile(r"(\d{1,4}),(\d{1,19}),(\d{1,19}),[^;]{0,64};")
_FACILITY = re.compile(
    r"(?P<name>kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]) {0,8}"
    r":[a-z]{2,8} {0,8}: "
)
_BOOT = re.compile(r"(?:<(\d{1,3})>)?\[ {0,12}(\d{1,12}\.\d{6})\](?:\[ {0,9}[TC]\d{1,9}\])? ?")
_WALL = re.compile(r"\[(\w{3} \w{3} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4})\] ?")
# dmesg's comma: with a point it is any program's time.
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d),(\d{6})([+-]\d\d:\d\d) ")
_SYSLOG = re.compile(
    r"(\w{3} {1,2}\d{1,2} \d\d:\d\d:\d\d)(?:\.\d{1,6})? ([\w.-]{1,253}) kernel: "
    r"(?:\[ {0,12}\d{1,12}\.\d{6}\] ?)?"
)
_SYSLOG_ISO = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?([+-]\d\d:?\d\d|Z) ([\w.-]{1,253}) kernel: "
    r"(?:\[ {0,12}\d{1,12}\.\d{6}\] ?)?"
)

_INVOKED = re.compile(r"(.{1,64}) invoked oom-killer: ")
_USAGE = re.compile(r"memory: usage (\d{1,18})kB, limit (\d{1,18})kB")
_CHOSEN = re.compile(
    r"oom-kill:constraint=(?P<constraint>CONSTRAINT_\w{1,20}),(?P<rest>.*),"
    r"pid=(?P<pid>\d{1,10}),uid=(?P<uid>\d{1,10})$"
)
_CHOSEN_GROUP = re.compile(r"task_memcg=(?P<cgroup>[^,]*),task=(?P<command>.*)$")
_KILLED = re.compile(
    r"(?P<where>Memory cgroup out of memory|Out of memory[^:]{0,40}): "
    r"Kill(?P<done>ed)? process (?P<pid>\d{1,10}) \((?P<command>.*?)\)(?:,? |$)"
)
_KILLED_OLD = re.compile(
    r"Killed process (?P<pid>\d{1,10}),? (?:UID \d{1,10},? )?\((?P<command>.*?)\)"
)
# Before 4.19 this line alone says which cgroup it was.
_TASK_IN = re.compile(r"Task in (\S{1,1000}) killed as a result of limit of (\S{1,1000})")
_ANON = re.compile(r"anon-rss:(\d{1,18})kB")
_UID = re.compile(r"\bUID:(\d{1,10})")
_TRAP = re.compile(
    r"(?:traps: )?(?P<command>.{1,64}?)\[(?P<pid>\d{1,10})\]:? "
    r"(?P<kind>segfault|general protection(?: fault)?|trap [\w ]{3,30}?)(?: at |:? ip:)"
)
_LIBRARY = re.compile(r" in ([^\[\s]{1,255})\[")
_XID = re.compile(r"NVRM: Xid \((?P<device>[^)]{1,40})\): (?P<number>\d{1,4}),? ?(?P<rest>.*)")
_XID_PID = re.compile(r"pid='?(\d{1,10})")
_CGROUP = re.compile(
    r"(?:(?P<prefix>[^/]{1,253}_)?slurmstepd\.scope|/slurm(?:_(?P<node>[^/]{1,253}))?/uid_(?P<uid>\d{1,10}))"
    r"/(?:job_(?P<job>\d{1,10})|(?P<sluid>s[0-9A-HJKMNP-TV-Z]{13}))"
    r"(?:/step_(?P<step>\d{1,10}|batch|extern|interactive|TDB)(?:\+\d{1,9})?)?(?:/(?:user|slurm))?"
    r"(?:/task_(?P<task>\d{1,9}|special))?"
)
# A kill's lines stand close together; beyond this many others they are not one kill's.
_LONGEST_BLOCK = 2_000


class _Header(msgspec.Struct, frozen=True):
    at: Span | None
    host: str | None
    by_kernel: bool
    text: str


class _Block(msgspec.Struct):
    lines: int = 0
    usage_kb: int | None = None
    limit_kb: int | None = None
    cgroup: str | None = None
    chosen: OomKill | None = None


class SlurmCgroup(msgspec.Struct, frozen=True):
    """A job's place in a cgroup path; ``node`` only from builds with several slurmd a host."""

    node: str | None
    job: str | None
    step: str | None
    task: int | None


def slurm_cgroup(path: str) -> SlurmCgroup | None:
    """The job, step and task in a cgroup path, None where it is not Slurm's."""
    match = _CGROUP.search(path)
    if match is None:
        return None
    node = match["node"] or (match["prefix"] or "").rstrip("_").rpartition("/")[2] or None
    task = match["task"]
    return SlurmCgroup(
        node, match["job"], match["step"], int(task) if task and task.isdigit() else None
    )


def kernel_events(document: Document, zone: Zone) -> Iterator[OomKill | Trap | Xid]:
    """The events in a kernel log. Lines that a program wrote there kill nobody."""
    block: _Block | None = None
    for place, raw in raw_lines(document):
        header = _header(raw[:_LONGEST], document, zone)
        text = header.text
        if not header.by_kernel:
            if xid := _xid(place, header):
                yield xid
            continue
        if _INVOKED.match(text):
            if block is not None and block.chosen is not None:
                yield block.chosen
            block = _Block()
            continue
        if block is not None:
            _remember(block, text)
            if block.lines > _LONGEST_BLOCK:
                if block.chosen is not None:
                    yield block.chosen
                block = None
        if chosen := _chosen(place, header, block):
            block = block or _Block()
            block.chosen = chosen
        elif killed := _KILLED.search(text) or _KILLED_OLD.search(text):
            kill = _killed(place, header, killed, block)
            if killed.groupdict().get("done", "ed") is None:
                # An old kernel's choice, which may fall on a child yet: the next line tells.
                block = block or _Block()
                block.chosen = kill
            else:
                yield kill
                block = None
        elif trap := _trap(place, header):
            yield trap
        elif xid := _xid(place, header):
            yield xid
    if block is not None and block.chosen is not None:
        yield block.chosen


def kernel_line_text(raw: str) -> str | None:
    """A kernel line without its time and host, None where ``raw`` has no such head."""
    facility = _FACILITY.match(raw)
    at = facility.end() if facility else 0
    for pattern in (_KMSG, _BOOT, _WALL, _SYSLOG_ISO, _ISO, _SYSLOG):
        if match := pattern.match(raw, at):
            return raw[match.end() :]
    return None


def _header(raw: str, document: Document, zone: Zone) -> _Header:
    host = document.host
    facility = _FACILITY.match(raw)
    by_kernel = facility is None or facility["name"] == "kern"
    at = facility.end() if facility else 0
    if match := _KMSG.match(raw):
        time = _since_boot(int(match[3]) / 1e6, document)
        return _Header(time, host, int(match[1]) < 8, raw[match.end() :])
    if match := _BOOT.match(raw, at):
        # "<4>": the same number as in /dev/kmsg, 8 and more is a program's.
        by_kernel = by_kernel and int(match[1] or 0) < 8
        return _Header(_since_boot(float(match[2]), document), host, by_kernel, raw[match.end() :])
    if match := _WALL.match(raw, at):
        return _Header(_ctime(match[1], zone), host, by_kernel, raw[match.end() :])
    if match := _SYSLOG_ISO.match(raw):
        time = _zoned(match[1], match[2] or "0", match[3])
        return _Header(time, _named(match[4]) or host, True, raw[match.end() :])
    if match := _ISO.match(raw, at):
        time = _zoned(match[1], match[2], match[3])
        return _Header(time, host, by_kernel, raw[match.end() :])
    if match := _SYSLOG.match(raw):
        time = _ctime(f"{match[1]} {zone.year}", zone) if zone.year else None
        return _Header(time, _named(match[2]) or host, True, raw[match.end() :])
    return _Header(None, host, by_kernel, raw)


def _named(host: str) -> str | None:
    return None if host.partition(".")[0] == "localhost" else host


def _remember(block: _Block, text: str) -> None:
    block.lines += 1
    if usage := _USAGE.search(text):
        block.usage_kb, block.limit_kb = int(usage[1]), int(usage[2])
    elif task := _TASK_IN.search(text):
        block.cgroup = task[1]


def _since_boot(seconds: float, document: Document) -> Span | None:
    clock = document.clock
    if clock is None or clock.kernel_offset_s is None:
        return None
    wide = max(clock.uncertainty_s, 1e-6)
    try:
        return Span(
            dt.datetime.fromtimestamp(clock.kernel_offset_s + seconds - wide, dt.UTC),
            dt.datetime.fromtimestamp(clock.kernel_offset_s + seconds + wide, dt.UTC),
        )
    except (OverflowError, OSError, ValueError):
        return None


# "Sun Feb 23 16:24:18 2025" or "Feb 23 16:24:18 2025"; month names are English in both.
def _ctime(text: str, zone: Zone) -> Span | None:
    words = text.split()
    months = "JanFebMarAprMayJunJulAugSepOctNovDec"
    year, clock, day, month = words[-1], words[-2], words[-3], words[-4]
    number = months.find(month) // 3 + 1
    if months.find(month) % 3:
        return None
    return within_second(f"{year}-{number:02d}-{int(day):02d} {clock}", zone)


def _zoned(text: str, fraction: str, offset: str) -> Span | None:
    try:
        at = dt.datetime.fromisoformat(f"{text}.{fraction.ljust(6, '0')}{offset}")
    except ValueError:
        return None
    return Span(at.astimezone(dt.UTC), at.astimezone(dt.UTC))


def _chosen(place: Place, header: _Header, block: _Block | None) -> OomKill | None:
    match = _CHOSEN.search(header.text)
    group = match and _CHOSEN_GROUP.search(match["rest"])
    if match is None or group is None:
        return None
    kill = OomKill(
        place=place,
        at=header.at,
        host=header.host,
        pid=int(match["pid"]),
        command=group["command"],
        limited=match["constraint"] == "CONSTRAINT_MEMCG",
        uid=int(match["uid"]),
        usage_kb=block.usage_kb if block else None,
        limit_kb=block.limit_kb if block else None,
    )
    return _within(kill, group["cgroup"])


# With the facts that the path of the victim's cgroup tells.
def _within(kill: OomKill, path: str | None) -> OomKill:
    if path is None:
        return kill
    cgroup = slurm_cgroup(path) or SlurmCgroup(None, None, None, None)
    return msgspec.structs.replace(
        kill,
        host=cgroup.node or kill.host,
        cgroup=path,
        job=cgroup.job,
        step=cgroup.step,
        task=cgroup.task,
    )


def _killed(place: Place, header: _Header, match: re.Match[str], block: _Block | None) -> OomKill:
    groups = match.groupdict()
    pid = int(match["pid"])
    rest = header.text[match.end() :]
    anon, uid = _ANON.search(rest), _UID.search(rest)
    resident_kb = int(anon[1]) if anon else None
    chosen = block.chosen if block is not None else None
    if chosen is not None and chosen.pid == pid:
        return msgspec.structs.replace(chosen, place=place, resident_kb=resident_kb)
    where = groups.get("where")
    limited = chosen.limited if chosen is not None else None
    if where is not None:
        limited = where.startswith("Memory cgroup")
    kill = OomKill(
        place=place,
        at=header.at,
        host=header.host,
        pid=pid,
        command=match["command"],
        limited=limited,
        uid=int(uid[1]) if uid else None,
        usage_kb=block.usage_kb if block else None,
        limit_kb=block.limit_kb if block else None,
        resident_kb=resident_kb,
    )
    # An old kernel chooses a process and kills a child of it: both are of the cgroup named.
    return _within(kill, block.cgroup if block else None)


def _trap(place: Place, header: _Header) -> Trap | None:
    match = _TRAP.match(header.text)
    if match is None:
        return None
    library = _LIBRARY.search(header.text)
    return Trap(
        place,
        header.at,
        header.host,
        int(match["pid"]),
        match["command"],
        match["kind"],
        library[1] if library else None,
    )


def _xid(place: Place, header: _Header) -> Xid | None:
    match = _XID.search(header.text)
    if match is None:
        return None
    pid = _XID_PID.search(match["rest"])
    return Xid(
        place,
        header.at,
        header.host,
        int(match["number"]),
        match["device"],
        int(pid[1]) if pid else None,
        header.by_kernel,
    )
