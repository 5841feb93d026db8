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

_KMSG = re.compile(r"(\d{1,4}),(\d{1,19}),(\d{1,19}),[^;]{0,64};")
_BOOT = re.compile(r"(?:<\d{1,3}>)?\[ *(\d{1,12}\.\d{6})\](?:\[ *[TC]\d+\])? ?")
_WALL = re.compile(r"\[(\w{3} \w{3} +\d{1,2} \d\d:\d\d:\d\d \d{4})\] ?")
_DECODED = re.compile(
    r"\w{2,10} *:\w{2,8} *: (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[,.](\d{6})([+-]\d\d:\d\d) "
)
_SYSLOG = re.compile(
    r"(\w{3} +\d{1,2} \d\d:\d\d:\d\d) ([\w.-]{1,253}) kernel: (?:\[ *\d+\.\d{6}\] ?)?"
)
_SYSLOG_ISO = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?([+-]\d\d:?\d\d|Z) ([\w.-]{1,253}) kernel: (?:\[ *\d+\.\d{6}\] ?)?"
)

_INVOKED = re.compile(r"(.{1,64}) invoked oom-killer: ")
_USAGE = re.compile(r"memory: usage (\d{1,18})kB, limit (\d{1,18})kB")
_CHOSEN = re.compile(
    r"oom-kill:constraint=(?P<constraint>CONSTRAINT_\w+),.*?(?:oom_memcg=(?P<limited>[^,]*),)?"
    r"task_memcg=(?P<cgroup>[^,]*),task=(?P<command>.*),pid=(?P<pid>\d+),uid=(?P<uid>\d+)$"
)
_KILLED = re.compile(
    r"(?P<where>Memory cgroup out of memory|Out of memory[^:]{0,40}): Kill(?:ed)? process (?P<pid>\d+)"
    r" \((?P<command>.*?)\)(?:,? |$)(?:.*?anon-rss:(?P<anon>\d+)kB)?(?:.*?UID:(?P<uid>\d+))?"
)
_KILLED_OLD = re.compile(r"Killed process (?P<pid>\d+),? (?:UID \d+,? )?\((?P<command>.*?)\)")
_TRAP = re.compile(
    r"(?:traps: )?(?P<command>.{1,64}?)\[(?P<pid>\d{1,10})\]:? "
    r"(?P<kind>segfault|general protection(?: fault)?|trap [\w ]{3,30}?)(?: at |:? ip| error)"
)
_LIBRARY = re.compile(r" in ([^\[\s]{1,255})\[")
_XID = re.compile(r"NVRM: Xid \((?P<device>[^)]{1,40})\): (?P<number>\d{1,4}),? ?(?P<rest>.*)")
_XID_PID = re.compile(r"pid='?(\d{1,10})")
_CGROUP = re.compile(
    r"(?:(?P<prefix>[^/]{1,253}_)?slurmstepd\.scope|/slurm(?:_(?P<node>[^/]{1,253}))?/uid_(?P<uid>\d+))"
    r"/(?:job_(?P<job>\d+)|(?P<sluid>s[0-9A-HJKMNP-TV-Z]{13}))"
    r"(?:/step_(?P<step>\d+|batch|extern|interactive|TDB)(?:\+\d+)?)?(?:/(?:user|slurm))?"
    r"(?:/task_(?P<task>\d+|special))?"
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
        header = _header(raw, document, zone)
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
            block.lines += 1
            if usage := _USAGE.search(text):
                block.usage_kb, block.limit_kb = int(usage[1]), int(usage[2])
            if block.lines > _LONGEST_BLOCK:
                block = None
        if chosen := _CHOSEN.search(text):
            block = block or _Block()
            block.chosen = _chosen(place, header, chosen, block)
        elif killed := _KILLED.search(text) or _KILLED_OLD.search(text):
            yield _killed(place, header, killed, block)
            block = None
        elif trap := _TRAP.match(text):
            library = _LIBRARY.search(text)
            yield Trap(
                place,
                header.at,
                header.host,
                int(trap["pid"]),
                trap["command"],
                trap["kind"],
                library[1] if library else None,
            )
        elif xid := _xid(place, header):
            yield xid
    if block is not None and block.chosen is not None:
        yield block.chosen


def kernel_line_text(raw: str) -> str | None:
    """A kernel line without its time and host, None where ``raw`` has no such head."""
    for pattern in (_KMSG, _BOOT, _WALL, _DECODED, _SYSLOG, _SYSLOG_ISO):
        if match := pattern.match(raw):
            return raw[match.end() :]
    return None


def _header(raw: str, document: Document, zone: Zone) -> _Header:
    host = document.host
    if match := _KMSG.match(raw):
        at = _since_boot(int(match[3]) / 1e6, document)
        return _Header(at, host, int(match[1]) < 8, raw[match.end() :])
    if match := _BOOT.match(raw):
        at = _since_boot(float(match[1]), document)
        return _Header(at, host, True, raw[match.end() :])
    if match := _WALL.match(raw):
        return _Header(_ctime(match[1], zone), host, True, raw[match.end() :])
    if match := _DECODED.match(raw):
        return _Header(_zoned(match[1], match[2], match[3]), host, True, raw[match.end() :])
    if match := _SYSLOG_ISO.match(raw):
        at = _zoned(match[1], match[2] or "0", match[3])
        return _Header(at, match[4], True, raw[match.end() :])
    if match := _SYSLOG.match(raw):
        at = _ctime(f"{match[1]} {zone.year}", zone) if zone.year else None
        return _Header(at, match[2], True, raw[match.end() :])
    return _Header(None, host, True, raw)


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


def _chosen(place: Place, header: _Header, match: re.Match[str], block: _Block) -> OomKill:
    cgroup = slurm_cgroup(match["cgroup"])
    return OomKill(
        place=place,
        at=header.at,
        host=(cgroup.node if cgroup else None) or header.host,
        pid=int(match["pid"]),
        command=match["command"],
        limited=match["constraint"] == "CONSTRAINT_MEMCG",
        cgroup=match["cgroup"],
        job=cgroup.job if cgroup else None,
        step=cgroup.step if cgroup else None,
        task=cgroup.task if cgroup else None,
        uid=int(match["uid"]),
        usage_kb=block.usage_kb,
        limit_kb=block.limit_kb,
    )


def _killed(place: Place, header: _Header, match: re.Match[str], block: _Block | None) -> OomKill:
    groups = match.groupdict()
    pid = int(match["pid"])
    anon = groups.get("anon")
    resident_kb = int(anon) if anon else None
    if block is not None and block.chosen is not None and block.chosen.pid == pid:
        return msgspec.structs.replace(block.chosen, place=place, resident_kb=resident_kb)
    where = groups.get("where")
    uid = groups.get("uid")
    return OomKill(
        place=place,
        at=header.at,
        host=header.host,
        pid=pid,
        command=match["command"],
        limited=None if where is None else where.startswith("Memory cgroup"),
        uid=int(uid) if uid else None,
        usage_kb=block.usage_kb if block else None,
        limit_kb=block.limit_kb if block else None,
        resident_kb=resident_kb,
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
