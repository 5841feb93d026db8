"""What a node sent and cannot be used: kept beside the spool's own, within bounds.

The node keeps a copy of what was refused, too; this one is for the daemon's admin.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

from firstfault.intake import spool

FILES_MAX = 1000
BYTES_MAX = 256 * 1024 * 1024
# What people take out is noticed after this time: counting a full folder takes milliseconds.
COUNT_S = 60.0


class Aside:
    """Writes to the spool's ``quarantine`` and ``newer``. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._held: dict[Path, tuple[float, int, int]] = {}

    def keep(self, body: bytes, reason: str) -> Path | None:
        """Keeps what was refused; None where the quarantine holds enough already."""
        return self._keep(self._folder / spool.QUARANTINE, body, reason)

    def keep_newer(self, body: bytes, reason: str) -> Path | None:
        """Keeps a record for a newer daemon, safe against a crash; None where there is no room."""
        return self._keep(self._folder / spool.NEWER, body, reason)

    def _keep(self, folder: Path, body: bytes, reason: str) -> Path | None:
        # By content: what is sent again and again is kept once.
        name = f"sent-{hashlib.sha256(body).hexdigest()[:32]}.json"
        target = folder / (name + ".gz" if body.startswith(b"\x1f\x8b") else name)
        with self._lock:
            if target.exists():
                return target
            counted_at, files, size = self._held.get(folder, (0.0, 0, 0))
            if not counted_at or time.monotonic() > counted_at + COUNT_S:
                counted_at, files, size = time.monotonic(), *_held(folder)
            self._held[folder] = counted_at, files, size
            if files >= FILES_MAX or size + len(body) > BYTES_MAX:
                return None
            draft = target.with_name(f".{target.name}")
            with draft.open("wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            spool.write_reason(target, reason)
            draft.rename(target)
            _sync(folder)
            self._held[folder] = counted_at, files + 1, size + len(body)
        return target


def _held(folder: Path) -> tuple[int, int]:
    with os.scandir(folder) as entries:
        sizes = [entry.stat(follow_symlinks=False).st_size for entry in entries]
    return len(sizes) // 2, sum(sizes)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
