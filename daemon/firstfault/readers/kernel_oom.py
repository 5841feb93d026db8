"""OOM kills: the lines of one kill, joined into one event.

Formats from Linux 2.6.32 to 6.18: mm/oom_kill.c (``dump_header``, ``dump_tasks``,
``dump_oom_victim``, ``__oom_kill_process``, ``oom_reap_task``), mm/memcontrol.c
(``mem_cgroup_print_oom_meminfo``, ``mem_cgroup_print_oom_group``); earlyoom 1.3 to 1.8, kill.c;
systemd 248 to 258, src/oom/oomd-manager.c.

| kernel | what it prints |
|---|---|
| to 4.18 | ``Task in A killed as a result of limit of B`` names the cgroups |
| to 5.0 | ``Kill process P (C) score S or sacrifice child``, then ``Killed process P (C)`` |
| from 4.19 | ``oom-kill:constraint=...,oom_memcg=B,task_memcg=A,task=C,pid=P,uid=U`` |
| from 5.1 | ``Memory cgroup out of memory: Killed process P (C)`` alone |

A kill for want of memory on the NUMA nodes that a cpuset or a policy allows
(``CONSTRAINT_CPUSET``, ``CONSTRAINT_MEMORY_POLICY``) is the node's, not a cgroup's: no limit in
bytes was full, the machine's memory was.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator

import msgspec

from firstfault.model.event import HeldTogether, Holder, OomKill
from firstfault.readers.cgroups import SlurmCgroup, slurm_cgroup
from firstfault.readers.kernel_heads import KERNEL
from firstfault.readers.kernel_records import Record

_INVOKED = re.compile(r".{1,64} invoked oom-killer: ")
_USAGE = re.compile(r"(memory|memory\+swap): usage (\d{1,18})kB, limit (\d{1,18})kB")
_CHOSEN = re.compile(
    r"oom-kill:constraint=(?P<constraint>CONSTRAINT_\w{1,20}),(?P<rest>.*),"
    r"pid=(?P<pid>\d{1,10}),uid=(?P<uid>\d{1,10})$"
)
_CHOSEN_GROUP = re.compile(r"task_memcg=(?P<cgroup>[^,]*),task=(?P<command>.*)$")
_CHOSEN_LIMIT = re.compile(r"\boom_memcg=([^,]*),")
_KILLED = re.compile(
    r"(?P<where>Memory cgroup out of memory|Out of memory[^:]{0,40}): "
    r"Kill(?P<done>ed)? process (?P<pid>\d{1,10}) \((?P<command>.*?)\)(?:,? |$)"
)
_KILLED_OLD = re.compile(
    r"Killed process (?P<pid>\d{1,10}),? (?:UID \d{1,10},? )?\((?P<command>.*?)\)"
)
_TASK_IN = re.compile(r"Task in (\S{1,1000}) killed as a result of limit of (\S{1,1000})")
_GROUP = re.compile(r"Tasks in (\S{1,1000}) are going to be killed due to memory\.oom\.group set")
_REAPED = re.compile(
    r"oom_reaper: (?:reaped process|unable to reap pid:)[ ]?(\d{1,10}) \((.{1,64})\)"
)
_ANON = re.compile(r"anon-rss:(\d{1,18})kB")
_RESIDENT = re.compile(r"(?:anon|file|shmem)-rss:(\d{1,18})kB")
_UID = re.compile(r"\bUID[: ](\d{1,10})")
_COLUMNS = re.compile(r"\[ {1,4}pid {1,4}\] {1,8}(uid .{1,300} name)$")
_ROW = re.compile(r"\[ {0,12}(\d{1,10})\] {1,12}(\d{1,10} .{1,400})$")
# The row in which the collector sums up other users' processes.
_SUMMED = re.compile(r"others\((\d{1,6})\)")
_EARLYOOM = re.compile(
    r"sending SIG(?:TERM|KILL) to process (?P<pid>\d{1,10})(?: uid (?P<uid>\d{1,10}))? "
    r'"(?P<command>[^"]{1,64})": '
)
_EARLYOOM_HELD = re.compile(r"VmRSS (\d{1,12}) MiB")
_OOMD = re.compile(r"Killed (/\S{1,1000}) due to (?:memory|swap) ")
# A kill's lines stand close together; beyond this many others they are not one kill's.
_LONGEST_BLOCK = 2_000
_MOST_ROWS = 100_000
_SHOWN = 5
# Looked through for the victim's own user's; the others' are only summed.
_KEPT = 32


class _Block(msgspec.Struct):
    lines: int = 0
    rows: int = 0
    usage: dict[str, tuple[int, int]] = {}
    cgroup: str | None = None
    limit: str | None = None
    columns: tuple[str, ...] = ()
    # (pages, pid, command, uid) of the processes that held most; the victims' are looked up apart.
    held: list[tuple[int, int, str, int]] = []
    pages: dict[int, int] = {}
    uids: dict[int, int] = {}
    # By user: how many processes, and how many pages they held together.
    users: dict[int, tuple[int, int]] = {}
    chosen: OomKill | None = None


class OomReader:
    """Takes the records of one log in turn; gives each kill when its last line has come."""

    def __init__(self) -> None:
        self._block: _Block | None = None
        self._done: OomKill | None = None
        self._group: OomKill | None = None
        self._boot = 0
        self._pids: set[int] = set()
        # Whether a kill's first lines were seen: before that, the log begins within one.
        self._begun = False

    def feed(self, record: Record) -> Iterator[OomKill]:
        """The kills that this record completes. A record that no killer wrote kills nobody."""
        if record.boot != self._boot:
            yield from self.flush()
            self._boot = record.boot
            self._pids.clear()
            self._begun = False
            self._done = self._group = None
        if record.writer != KERNEL:
            if kill := _by_program(record):
                yield kill
            return
        for kill in self._kernels(record):
            self._pids.add(kill.pid)
            yield kill

    def flush(self) -> Iterator[OomKill]:
        """A kill of which the last lines never came."""
        block, self._block = self._block, None
        if block is not None and block.chosen is not None:
            yield _completed(block.chosen, block)

    def _kernels(self, record: Record) -> Iterator[OomKill]:
        text = record.text
        if _INVOKED.match(text):
            yield from self.flush()
            self._block = _Block()
            self._begun = True
            self._done = self._group = None
            return
        block = self._block
        if block is not None:
            _remember(block, text)
            if block.lines > _LONGEST_BLOCK:
                yield from self.flush()
                block = None
        if "oom-kill:" in text and (chosen := _chosen(record)):
            self._block = block = block or _Block()
            self._begun = True
            block.chosen = chosen
        elif "Kill" in text and (match := _KILLED.match(text) or _KILLED_OLD.match(text)):
            kill = _killed(record, match, block, self._group)
            if match.groupdict().get("done", "ed") is None:
                # An old kernel's choice, which may fall on a child yet: the next line tells.
                self._block = block = block or _Block()
                block.chosen = kill
                return
            self._block = None
            torn = block is None and not self._begun
            kill = msgspec.structs.replace(kill, torn=torn)
            self._done = kill if block is None else _completed(kill, block)
            yield self._done
        elif "oom.group" in text and (match := _GROUP.match(text)):
            self._group = _of_group(self._done, match[1])
        elif "oom_reaper" in text and (match := _REAPED.match(text)):
            pid = int(match[1])
            pending = self._block is not None and self._block.chosen is not None
            if pid not in self._pids and not pending:
                # The kill's own lines are lost.
                yield _kill(record, pid, match[2], None)


def _remember(block: _Block, text: str) -> None:
    if block.columns and block.rows < _MOST_ROWS and (row := _ROW.match(text)):
        block.rows += 1
        _remember_row(block, int(row[1]), row[2])
        return
    block.lines += 1
    if usage := _USAGE.match(text):
        block.usage = {**block.usage, usage[1]: (int(usage[2]), int(usage[3]))}
    elif task := _TASK_IN.match(text):
        block.cgroup, block.limit = task[1], task[2]
    elif columns := _COLUMNS.match(text):
        block.columns = tuple(columns[1].split())


def _remember_row(block: _Block, pid: int, rest: str) -> None:
    values = rest.split(None, len(block.columns) - 1)
    if len(values) != len(block.columns) or "rss" not in block.columns:
        return
    rss = values[block.columns.index("rss")]
    if not rss.isdigit() or len(rss) > 18:
        return
    pages, uid = int(rss), int(values[0])
    block.pages[pid] = pages
    block.uids[pid] = uid
    summed = _SUMMED.fullmatch(values[-1]) if pid == 0 else None
    processes, before = block.users.get(uid, (0, 0))
    block.users[uid] = (processes + (int(summed[1]) if summed else 1), before + pages)
    heapq.heappush(block.held, (pages, pid, values[-1][:64], uid))
    if len(block.held) > _KEPT:
        heapq.heappop(block.held)


def _chosen(record: Record) -> OomKill | None:
    match = _CHOSEN.match(record.text)
    group = match and _CHOSEN_GROUP.search(match["rest"])
    if match is None or group is None:
        return None
    limit = _CHOSEN_LIMIT.search(match["rest"])
    kill = _kill(
        record, int(match["pid"]), group["command"], match["constraint"] == "CONSTRAINT_MEMCG"
    )
    kill = msgspec.structs.replace(
        kill, uid=int(match["uid"]), limit_cgroup=limit[1] if limit else None
    )
    return _within(kill, group["cgroup"])


def _kill(record: Record, pid: int, command: str, limited: bool | None) -> OomKill:
    return OomKill(record.place, record.at, record.host, pid, command, limited, boot=record.boot)


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


def _killed(
    record: Record, match: re.Match[str], block: _Block | None, group: OomKill | None
) -> OomKill:
    pid = int(match["pid"])
    rest = record.text[match.end() :]
    anon, uid = _ANON.search(rest), _UID.search(record.text[match.start("pid") :])
    resident_kb = int(anon[1]) if anon else None
    chosen = block.chosen if block is not None else None
    if chosen is not None and chosen.pid == pid:
        return msgspec.structs.replace(chosen, place=record.place, resident_kb=resident_kb)
    where = match.groupdict().get("where")
    limited = chosen.limited if chosen is not None else None
    if where is not None:
        limited = where.startswith("Memory cgroup")
    kill = msgspec.structs.replace(
        _kill(record, pid, match["command"], limited),
        uid=int(uid[1]) if uid else None,
        resident_kb=resident_kb,
    )
    if block is None and group is not None:
        kill = msgspec.structs.replace(
            kill,
            limited=group.limited,
            usage_kb=group.usage_kb,
            limit_kb=group.limit_kb,
            limit_cgroup=group.limit_cgroup,
            swap=group.swap,
        )
        return _within(kill, group.cgroup)
    # An old kernel chooses a process and kills a child of it: both are of the cgroup named.
    path = block.cgroup if block else None
    if path is None and chosen is not None and chosen.limited:
        path = chosen.limit_cgroup
        kill = msgspec.structs.replace(kill, limit_cgroup=path)
    return _within(kill, path)


# With what the block's other lines tell: usage and limit, and who held what.
def _completed(kill: OomKill, block: _Block) -> OomKill:
    usage, limit = block.usage.get("memory", (None, None))
    both = block.usage.get("memory+swap")
    swap = False
    if both is not None and both[0] >= both[1] and (usage is None or usage < (limit or 0)):
        usage, limit = both
        swap = True
    page_kb = _page_kb(kill, block)
    named = {block.uids.get(kill.pid, kill.uid), 0}
    held = sorted(
        (each for each in block.held if each[3] in named), key=lambda each: (-each[0], each[1])
    )
    return msgspec.structs.replace(
        kill,
        usage_kb=usage,
        limit_kb=limit,
        limit_cgroup=kill.limit_cgroup or block.limit,
        swap=swap,
        holders=tuple(Holder(pid, name, pages * page_kb) for pages, pid, name, _ in held[:_SHOWN]),
        own=_sum((held for user, held in block.users.items() if user in named), page_kb),
        others=_sum((held for user, held in block.users.items() if user not in named), page_kb),
    )


def _sum(users: Iterable[tuple[int, int]], page_kb: int) -> HeldTogether | None:
    counted = list(users)
    if not counted:
        return None
    return HeldTogether(
        sum(processes for processes, _ in counted), sum(pages for _, pages in counted) * page_kb
    )


# The table counts pages; the kill's own line says the victim's in kB.
def _page_kb(kill: OomKill, block: _Block) -> int:
    pages = block.pages.get(kill.pid, 0)
    told = sum(int(each) for each in _RESIDENT.findall(kill.place.text))
    if pages < 16 or told == 0:
        return 4
    return min((4, 16, 64), key=lambda size: abs(size - told / pages))


def _of_group(done: OomKill | None, path: str) -> OomKill | None:
    if done is None:
        return None
    return msgspec.structs.replace(done, cgroup=path)


def _by_program(record: Record) -> OomKill | None:
    kill: OomKill | None = None
    if record.writer == "earlyoom" and (match := _EARLYOOM.match(record.text)):
        held = _EARLYOOM_HELD.search(record.text, match.end())
        kill = msgspec.structs.replace(
            _kill(record, int(match["pid"]), match["command"], False),
            uid=int(match["uid"]) if match["uid"] else None,
            resident_kb=int(held[1]) * 1024 if held else None,
            killer="earlyoom",
        )
    elif record.writer == "systemd-oomd" and (match := _OOMD.match(record.text)):
        kill = msgspec.structs.replace(_kill(record, 0, "", False), killer="systemd-oomd")
        kill = _within(kill, match[1])
    return kill
