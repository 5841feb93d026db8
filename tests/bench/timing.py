"""How long a script takes, which is too short for the shell's `time`."""

from __future__ import annotations

import os
import subprocess
import time


def taken(argv: list[str], variables: dict[str, str]) -> tuple[float, float]:
    """Wall and processor milliseconds of one run, whose output nobody reads."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        argv, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{argv} ended with {process.returncode}")
    return wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3
