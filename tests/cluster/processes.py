"""Processes by id: noted when they start, found by what they hold open, ended for certain.

A process id alone is not enough: it may have been given to another since. With the moment of the
start (field 22 of /proc/PID/stat) it is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path


def note(file: Path, pid: int) -> None:
    """Writes down which process ``pid`` is, for `alive` and `kill`."""
    file.write_text(f"{pid} {_started(pid)}\n")


def alive(file: Path) -> bool:
    """Whether the noted process still runs."""
    return _noted(file) is not None


def kill(file: Path, *, grace_s: float) -> None:
    """Ends the noted process: SIGTERM, and SIGKILL after ``grace_s`` seconds."""
    pid = _noted(file)
    if pid is not None and grace_s > 0:
        _signal(pid, signal.SIGTERM)
        until = time.monotonic() + grace_s
        while _noted(file) == pid and time.monotonic() < until:
            _reap(pid)
            time.sleep(0.02)
    if pid is not None and _noted(file) == pid:
        kill_all([pid])
    file.unlink(missing_ok=True)


def kill_all(pids: Iterable[int]) -> None:
    """SIGKILL to each, and waits up to five seconds until they are gone."""
    left = [(pid, _started(pid)) for pid in pids]
    for pid, _ in left:
        _signal(pid, signal.SIGKILL)
    until = time.monotonic() + 5
    while left and time.monotonic() < until:
        for pid, _ in left:
            _reap(pid)
        left = [(pid, at) for pid, at in left if at is not None and _started(pid) == at]
        time.sleep(0.02)


def name(pid: int) -> str:
    """The kernel's name of the process, empty if it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def holding(path: Path) -> set[int]:
    """The processes that have ``path``, or a file below it, open or as their folder."""
    wanted = str(path)
    return {pid for pid in _pids() if any(_is_below(link, wanted) for link in _links(pid))}


def belonging_to(base: Path) -> set[int]:
    """The processes that hold something below ``base`` or whose environment names it.

    Never this process or one that it descends from.
    """
    wanted = str(base).encode()
    found = holding(base)
    for pid in _pids() - found:
        with contextlib.suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes():
                found.add(pid)
    return found - _ancestors()


def _ancestors() -> set[int]:
    found = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        pid = int(_fields(pid)[1]) if _fields(pid) else 0
    return found


def _noted(file: Path) -> int | None:
    try:
        pid, started = file.read_text().split()
    except (OSError, ValueError):
        return None
    return int(pid) if _started(int(pid)) == started else None


def _started(pid: int) -> str | None:
    """When the process started, in the kernel's ticks; None if it is gone or a zombie."""
    fields = _fields(pid)
    return None if not fields or fields[0] in "ZX" else fields[19]


def _fields(pid: int) -> list[str]:
    # the name, in parentheses, may itself hold blanks and parentheses
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _pids() -> set[int]:
    return {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}


def _links(pid: int) -> Iterable[str]:
    folder = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):
        yield os.readlink(folder / "cwd")
        for entry in (folder / "fd").iterdir():
            with contextlib.suppress(OSError):
                yield os.readlink(entry)


def _is_below(link: str, folder: str) -> bool:
    return link == folder or link.startswith(folder + "/")


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
