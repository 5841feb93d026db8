"""What a job's owner is shown of a verdict: nothing that names another user's process.

A node's kernel log tells of all its processes. A line that a verdict quotes from it may name one
that is not the job's: on a shared node, the one that was killed instead. Administrators see it as
it is; of what others see, the process's name, number and user are left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from firstfault.model import verdict as v

ANOTHER = "[another process]"
_KERNEL = "kernel log"

# Each names a process by what the groups hold; what stands between them stays. mm/oom_kill.c,
# arch/x86/mm/fault.c, arch/x86/kernel/traps.c, kernel/hung_task.c, kernel/watchdog.c, and the
# NVIDIA driver's Xid lines.
# After what syslog and dmesg put before it.
_COMMAND = r"(?:^|(?<=\] )|(?<=: ))(?!\[)\S.{0,14}?"
_NAMED = tuple(
    re.compile(pattern)
    for pattern in (
        r"[Kk]ill(?:ed)? process (?P<pid>\d+)\b.{0,20}\(.*",
        r"reaped process (?P<pid>\d+) \(.*?\)(?=, now)",
        rf"{_COMMAND} invoked oom-killer",
        r"(?:oom|task)_memcg=.*?pid=(?P<pid>\d+),uid=\d+",
        r"Task in \S+ killed as a result of limit of \S+",
        rf"{_COMMAND}\[(?P<pid>\d+)\]:? "
        r"(?=segfault|general protection|trap |unhandled|bad frame|invalid opcode|error )",
        r"pid='?(?P<pid>\d+)'?, name=[^,]{0,40}",
        r"[Tt]ask \S.{0,14}?:(?P<pid>\d+) (?=is blocked|blocked)",
        r"\[\S.{0,14}?:(?P<pid>\d+)\]\s*$",
        r"(?:PID: (?P<pid>\d+) )?Comm: .{1,15}",
        # A row of the table of tasks: pid, uid, tgid, sizes, name.
        r"\[ *(?P<pid>\d+)\] +\d+ +\d+ +\d+ +\d+.*",
    )
)


def for_owner(verdict: v.Verdict) -> v.Verdict:
    """The verdict as the job's owner is shown it, and whoever else is no administrator."""
    own = own_pids(verdict)
    confirmed = verdict.cause.confidence == v.CONFIRMED

    def quoted(evidence: v.Evidence) -> v.Evidence:
        # What proves a confirmed cause was joined to the job: by its process, cgroup or device.
        if evidence.source != _KERNEL or (confirmed and evidence.role == "cause"):
            return evidence
        text = without_others(evidence.text, own, verdict.job.id)
        return msgspec.structs.replace(evidence, text=text)

    return msgspec.structs.replace(
        verdict,
        evidence=tuple(map(quoted, verdict.evidence)),
        unexplained=tuple(map(quoted, verdict.unexplained)),
        consequences=tuple(
            msgspec.structs.replace(each, example=quoted(each.example)) if each.example else each
            for each in verdict.consequences
        ),
    )


def own_pids(verdict: v.Verdict) -> frozenset[int]:
    """The processes that the verdict knows to be the job's."""
    pids = {verdict.initiator.pid}
    if verdict.memory is not None:
        pids |= {each.pid for each in verdict.memory.holders if each.rank is not None}
    return frozenset(pid for pid in pids if pid is not None)


def without_others(line: str, own: Collection[int], job: str | None) -> str:
    """A kernel's ``line`` without the names of processes, unless it is about one of ``own``, or
    about the cgroup of ``job``."""
    if job and re.search(rf"/job_{re.escape(job)}(?![0-9])", line):
        return line
    found = [match for pattern in _NAMED for match in pattern.finditer(line)]
    if any(int(match["pid"]) in own for match in found if match.groupdict().get("pid")):
        return line
    for pattern in _NAMED:
        line = pattern.sub(ANOTHER, line)
    return line
