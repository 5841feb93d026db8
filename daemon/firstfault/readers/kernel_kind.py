"""Whether a file is a kernel log, or a machine's system log with the kernel's lines in it."""

from __future__ import annotations

import re

from firstfault.readers.kernel_heads import KERNEL, head
from firstfault.readers.kernel_records import looks_like_export, looks_like_json
from firstfault.readers.times import Zone
from firstfault.streams.prefixes import ANSI

_SAMPLE = 200
_LONGEST = 2_048
_ZONE = Zone()
# What a service manager logs of a job's own programs is the job's output.
_JOBS = re.compile(r"python|torch|srun|accelerate|deepspeed|mpi|ray|bash|train", re.IGNORECASE)


def looks_like_kernel_log(text: str) -> bool:
    """Whether at least half of ``text``'s first lines are the kernel's, or a system log's.

    A system log has lines of the kernel and of other system programs, and none of a job's own.
    """
    start = text.lstrip("\x00\x1e \t\r\n")
    if (start.startswith("{") and looks_like_json(start)) or looks_like_export(start):
        return True
    lines = [line for line in text.split("\n")[:_SAMPLE] if line.strip("\x00\r ")]
    heads = [head(ANSI.sub("", line[:_LONGEST]).lstrip("\x00"), _ZONE) for line in lines]
    known = [each for each in heads if each is not None]
    kernels = [each for each in known if each.program in (None, KERNEL)]
    if kernels and 2 * len(kernels) >= len(lines):
        return True
    if not kernels or 2 * len(known) < len(lines):
        return False
    return not any(each.program and _JOBS.search(each.program) for each in known)
