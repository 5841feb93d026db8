"""A process's fatal fault and a GPU's error, as the kernel notes them.

Formats from Linux 3.10 to 6.18: arch/x86/mm/fault.c (``show_signal_msg``),
arch/x86/kernel/traps.c (``do_trap``), arch/powerpc/kernel/traps.c (``show_signal_msg``),
arch/arm64/kernel/traps.c (``arm64_show_signal``), kernel/signal.c (``print_fatal_signal``,
of which only the line after it names the process); Xids of NVIDIA's driver.
"""

from __future__ import annotations

import re

from firstfault.model.event import Trap, Xid
from firstfault.readers.kernel_heads import KERNEL
from firstfault.readers.kernel_records import Record

_TRAP = re.compile(
    r"(?:traps: )?(?P<command>.{1,64}?)\[(?P<pid>\d{1,10})\]:? "
    r"(?P<kind>segfault|general protection(?: fault)?|trap [\w ]{3,30}?"
    r"|bus error|illegal instruction|unhandled [\w ]{3,60}?)"
    r"(?: \(\d{1,2}\))?(?: at |:? ip:|: |, ESR )"
)
_LIBRARY = re.compile(r" in ([^\[\s]{1,255})\[")
_FATAL = re.compile(r"(?:.{1,300}: )?potentially unexpected fatal signal (\d{1,2})\.$")
_CPU = re.compile(
    r"CPU: \d{1,6} (?:UID: \d{1,10} )?PID: (?P<pid>\d{1,10}) Comm: (?P<command>.{1,64}?)"
    r" (?:Not tainted|Tainted: |Kdump: )"
)
_AMDGPU = re.compile(
    r"amdgpu [\w:.]{4,24}: (?:amdgpu: )?\s{0,4}Process (?P<command>.{1,64}?) pid "
    r"(?P<pid>\d{1,10}) thread "
)
_XID = re.compile(r"NVRM: Xid \((?P<device>[^)]{1,40})\): (?P<number>\d{1,4}),? ?(?P<rest>.*)")
_XID_PID = re.compile(r"pid='?(\d{1,10})")


class TrapReader:
    """Takes the records of one log in turn; a fatal signal's process is on the next line."""

    def __init__(self) -> None:
        self._signal: tuple[int, Record] | None = None

    def feed(self, record: Record) -> Trap | None:
        """The trap that this record completes."""
        text = record.text
        pending, self._signal = self._signal, None
        if pending is not None and (cpu := _CPU.match(text)):
            number, first = pending
            return _trap(first, int(cpu["pid"]), cpu["command"], f"signal {number}", None)
        if "fatal signal" in text and (match := _FATAL.match(text)):
            self._signal = (int(match[1]), record)
            return None
        if "]" not in text or (match := _TRAP.match(text)) is None:
            return None
        library = _LIBRARY.search(text)
        kind = match["kind"]
        return _trap(
            record, int(match["pid"]), match["command"], kind, library[1] if library else None
        )


def _trap(record: Record, pid: int, command: str, kind: str, library: str | None) -> Trap:
    return Trap(record.place, record.at, record.host, pid, command, kind, library, boot=record.boot)


def process_of(text: str) -> tuple[int, str] | None:
    """The process (pid, command) of a dump's line "CPU: 3 PID: 7 Comm: python3 ...".

    Or of amdgpu's " Process python3 pid 7 thread python3 pid 7" (Linux 6.10 to 6.18, gmc_v9_0.c).
    """
    match = _CPU.match(text) or _AMDGPU.match(text)
    return None if match is None else (int(match["pid"]), match["command"])


def xid(record: Record) -> Xid | None:
    """The Xid in a record, also in one that a program wrote: it says so."""
    if "Xid" not in record.text or (match := _XID.search(record.text)) is None:
        return None
    pid = _XID_PID.search(match["rest"])
    return Xid(
        record.place,
        record.at,
        record.host,
        int(match["number"]),
        match["device"],
        int(pid[1]) if pid else None,
        record.writer == KERNEL,
    )
