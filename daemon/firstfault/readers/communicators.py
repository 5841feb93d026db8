"""Which process is which rank, as NCCL says it with NCCL_DEBUG=INFO when a communicator is made.

Formats: NCCL 2.4 to 2.28, src/init.cc: "n3:4411:4502 [1] NCCL INFO comm 0x7f22 rank 1 nranks 8 cudaDev
1 ... - Init COMPLETE", since 2.18 also "Init START", since 2.20 with the function's name before
"comm". The prefix is of src/debug.cc: host, pid, thread, CUDA device.
"""

from __future__ import annotations

import re

from firstfault.model.event import Member
from firstfault.model.line import Line

_MEMBER = re.compile(
    r"(?P<host>[A-Za-z0-9][\w.-]{0,252}):(?P<pid>\d{1,10}):\d{1,10} \[-?\d{1,4}\] NCCL INFO "
    r"(?:\w{1,40} )?comm 0x[0-9a-f]{1,16} rank (?P<rank>\d{1,7}) nranks (?P<size>\d{1,7}) cudaDev"
)
# How any of NCCL's lines names its process.
PREFIX = re.compile(
    r"(?P<host>[A-Za-z0-9][\w.-]{0,252}):(?P<pid>\d{1,10}):\d{1,10} \[-?\d{1,4}\] .{0,120}?NCCL WARN "
)
# Each line that tells it has this.
WORD = " nranks "


def member(line: Line) -> Member | None:
    """What ``line`` tells, None if it is no such line."""
    if WORD not in line.text or (match := _MEMBER.search(line.text)) is None:
        return None
    rank, size = int(match["rank"]), int(match["size"])
    if rank >= size:
        return None
    host = match["host"]
    return Member(line.place, line.speaker, host, int(match["pid"]), rank, size)
