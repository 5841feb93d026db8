"""Signals: their names, and what a process that dies of one stands for."""

from __future__ import annotations

SIGNAL_CAUSES = {
    4: "process.fatal-signal",
    5: "process.fatal-signal",
    6: "process.abort",
    7: "process.bus-error",
    8: "process.fatal-signal",
    9: "process.killed",
    11: "process.segfault",
    31: "process.fatal-signal",
}
# What torch calls the signal that ended a DataLoader's worker.
WORKER_CAUSES = {
    "Killed": "process.killed",
    "Segmentation fault": "process.segfault",
    "Aborted": "process.abort",
    "Bus error": "process.bus-error",
}
SIGNAL_NAMES = {
    1: "SIGHUP", 2: "SIGINT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM", 31: "SIGSYS",
}  # fmt: skip


def exit_signal(code: int | None) -> int | None:
    """The signal in an exit code: -9, or a shell's 137; None for anything else."""
    if code is None:
        return None
    if code < 0:
        return -code
    return code - 128 if code - 128 in SIGNAL_CAUSES or code == 143 else None


def signal_name(number: int) -> str:
    """ "SIGKILL" of 9; "signal 40" of a number without a name."""
    return SIGNAL_NAMES.get(number, f"signal {number}")
