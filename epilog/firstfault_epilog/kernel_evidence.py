"""Which lines of the kernel log go into the record: those that tell of a fault, and around them.

Other jobs' lines of the same time are kept too: which are this job's is for the daemon to say.
"""

import re
from typing import List, NamedTuple, Optional, Sequence, Set, Tuple

from firstfault_epilog.kernel import MARKER, Line
from firstfault_epilog.record import Excerpt

BYTES_MAX = 192 << 10
# A task table may have thousands of rows; its kill line stands at the end.
BLOCK_LINES_MAX = 2000
BLOCK_HEAD_LINES = 60
BLOCK_TAIL_LINES = 120
BLOCK_BYTES_MAX = 48 << 10
# Records of the same fault may come a little after the job's end was noted.
BEFORE_S = 5.0
AFTER_S = 5.0


class Selection(NamedTuple):
    """``excerpts`` in order; ``dropped`` lines of evidence had no room."""

    excerpts: Tuple[Excerpt, ...]
    dropped: int


_OOM_START = re.compile(rb"invoked oom-killer:|Out of memory and no killable")
_OOM_END = re.compile(rb"Killed process [0-9]+|no killable process")
# Whose memory limit was full: mm/oom_kill.c since Linux 5.0, and mm/memcontrol.c before.
_LIMIT = re.compile(
    rb"oom-kill:constraint=CONSTRAINT_MEMCG,.*?oom_memcg=([^,]*)|killed as a result of limit of (.*)"
)
_LIMITED_JOB = re.compile(rb"/job_([0-9]{1,20})(?:/|\Z)")
# What follows a kill within a limit, line by line.
_OF_LIMIT = re.compile(rb"oom_reaper: |Memory cgroup out of memory|memory\.oom\.group")

# (expression, lines kept before, lines kept after). Format strings: kernel/, mm/, fs/ and
# drivers/ of Linux; NVRM and nvidia-nvswitch of NVIDIA's driver.
_KINDS = (
    (rb"Killed process|oom-kill:|oom_reaper|[Oo]ut of memory|memory\.oom\.group", 0, 1),
    (rb"page allocation failure|cgroup: fork rejected", 0, 2),
    (rb"segfault |traps: |trap invalid opcode|trap divide error|trap int3", 0, 2),
    (rb"general protection|potentially unexpected fatal signal|unhandled (?:signal|exc)", 0, 2),
    (rb"NVRM: |SXid|nvidia-nvswitch|nvidia-nvlink|amdgpu|radeon|habanalabs", 0, 2),
    (rb"mce: |Hardware Error|Machine [Cc]heck|EDAC |Memory failure|MCE", 1, 6),
    (rb"AER: |DPC: |PCIe Bus Error|pcieport .*error|Uncorrected|uncorrectable", 0, 4),
    (
        rb"blocked for more than|hung_task|soft lockup|hard LOCKUP|NMI watchdog: (?:BUG|Watchdog)",
        0,
        40,
    ),
    (rb"rcu.*(?:stall|starved)|watchdog: BUG", 0, 40),
    (
        rb"Kernel panic|BUG: |Oops|kernel BUG at|Unable to handle kernel|WARNING: CPU|Internal error: ",
        1,
        60,
    ),
    (rb": [0-9a-f]{4} \[#[0-9]+\]", 1, 60),
    (
        rb"I/O [Ee]rror|IO errors?|rejecting I/O|Medium Error|critical (?:medium|target|space) |Buffer I/O|blk_update_request",
        0,
        2,
    ),
    (rb"EXT4-fs .*(?:error|warning)|XFS \(.*(?:[Ee]rror|orrupt|hut ?down)|BTRFS.*error", 0, 3),
    (rb"device-mapper: thin: |allocation error, dev |Disk failure on |SQUASHFS error", 0, 1),
    (rb"JBD2: .*[Ee]rror|Aborting journal on device", 0, 2),
    (rb"[Kk]eep alive watchdog timeout|without any active interface", 0, 1),
    (rb"Firmware (?:non-)?fatal|[Ff]atal firmware reset|Error \(timeout: \d", 0, 1),
    (
        rb"[Rr]emounting filesystem read-only|nvme .*(?:timeout|reset|abort|fail)|ata[0-9.]+: exception",
        0,
        2,
    ),
    (rb"nfs: .*(?:not responding|OK|timed out)|NFS: .*(?:fail|error|stale)|nfs4_", 0, 1),
)
# What is said when all is well, too: kept, but no alarm.
_TALK = (
    (rb"Lustre|LNet|mmfs|GPFS|beegfs|ceph|libceph|CIFS: ", 0, 1),
    (
        rb"mlx[45]_|infiniband|link status definitely down|ib[0-9]: |Link (?:is )?[Dd]own|NETDEV WATCHDOG|link becomes ready",
        0,
        1,
    ),
    (rb"[Tt]hermal|temperature above threshold|clock throttled", 0, 1),
)
_ALARM = b"|".join(b"(?:" + kind[0] + b")" for kind in _KINDS)
_FAULT = re.compile(b"|".join(b"(?:" + kind[0] + b")" for kind in _KINDS + _TALK))


def in_window(
    lines: Sequence[Line], offset_s: Optional[float], started_at_s: float, ended_at_s: float
) -> List[Line]:
    """The lines between the job's start and end (seconds since 1970), with some seconds around.

    ``offset_s`` is wall clock minus kernel clock; where it is None no line can be left out.
    """
    own = [line for line in lines if not line.text.startswith(MARKER)]
    if offset_s is None:
        return own
    first = started_at_s - BEFORE_S - offset_s
    last = ended_at_s + AFTER_S - offset_s
    return [line for line in own if first <= line.microseconds / 1e6 <= last]


def select(lines: Sequence[Line]) -> Selection:
    """The lines of ``lines`` that tell of a fault, with what belongs to them."""
    blocks = _blocks(lines)
    kept: Set[int] = set()
    room = BYTES_MAX
    dropped = 0
    # From the front until half is used, then from the back: the first fault and the last.
    order = []
    front = 0
    for index, block in enumerate(blocks):
        front += sum(len(lines[i].data) for i in block)
        if front > BYTES_MAX // 2:
            order = list(range(index + 1)) + list(range(len(blocks) - 1, index, -1))
            break
    for index in order or range(len(blocks)):
        size = sum(len(lines[i].data) for i in blocks[index] if i not in kept)
        if size > room:
            dropped += len(blocks[index])
            continue
        room -= size
        kept.update(blocks[index])
    return Selection(_excerpts(lines, kept), dropped)


def alarms(lines: Sequence[Line], jobs: Sequence[str]) -> bool:
    """Whether ``lines`` tell of a fault of the node or of one of ``jobs``.

    What the kernel did because the memory limit of another job was full is neither.
    """
    others = False
    found: List[bytes] = []
    for block in _blocks(lines):
        limited = _limited_jobs(lines, block)
        if limited and not limited.intersection(jobs):
            others = True
        else:
            found.extend(lines[index].text for index in block)
    # Compiled (and kept by `re`) where there is something to look at: most ends are quiet.
    return any(
        re.search(_ALARM, text) and not (others and _OF_LIMIT.search(text)) for text in found
    )


# The jobs whose memory limit was full at an OOM kill; empty where it was none's, or nobody says.
def _limited_jobs(lines: Sequence[Line], block: List[int]) -> Set[str]:
    found = set()
    for index in block:
        match = _LIMIT.search(lines[index].text)
        job = _LIMITED_JOB.search(match.group(1) or match.group(2) or b"") if match else None
        if job is not None:
            found.add(job.group(1).decode("ascii"))
    return found


def _blocks(lines: Sequence[Line]) -> List[List[int]]:
    blocks = []
    index = 0
    while index < len(lines):
        text = lines[index].text
        if _OOM_START.search(text):
            end = _oom_end(lines, index)
            blocks.append(_shortened(lines, list(range(index, end))))
            index = end
            continue
        if _FAULT.search(text):
            before, after = next((b, a) for kind, b, a in _KINDS + _TALK if re.search(kind, text))
            last = min(len(lines), index + 1 + after)
            blocks.append(list(range(max(0, index - before), last)))
        index += 1
    return blocks


# One past the kill line; one past the first line where none follows.
def _oom_end(lines: Sequence[Line], start: int) -> int:
    for index in range(start, min(len(lines), start + BLOCK_LINES_MAX)):
        if _OOM_END.search(lines[index].text):
            return index + 1
        if index > start and _OOM_START.search(lines[index].text):
            return index
    return min(len(lines), start + BLOCK_HEAD_LINES)


def _shortened(lines: Sequence[Line], block: List[int]) -> List[int]:
    if sum(len(lines[i].data) for i in block) <= BLOCK_BYTES_MAX:
        return block
    return block[:BLOCK_HEAD_LINES] + block[-BLOCK_TAIL_LINES:]


# Lines that stand one after another become one excerpt.
def _excerpts(lines: Sequence[Line], kept: Set[int]) -> Tuple[Excerpt, ...]:
    result: List[Excerpt] = []
    for index in sorted(kept):
        line = lines[index]
        if result and result[-1].offset + len(result[-1].data) == line.offset:
            result[-1] = result[-1]._replace(data=result[-1].data + line.data)
        else:
            result.append(Excerpt(line.offset, line.number, line.data))
    return tuple(result)
