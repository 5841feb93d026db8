"""Wakes the intake when a file appears. Only a hint: the periodic scan is what finds all files.

inotify does not see what another host writes, and its queue can overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer


class _Wake(FileSystemEventHandler):
    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Any change may be a record that was renamed into place."""
        if event.event_type in ("created", "moved", "closed"):
            self.wake()


@contextmanager
def watching(folder: Path, wake: Callable[[], None]) -> Iterator[None]:
    """Calls ``wake`` from a thread of its own whenever a file appears in ``folder``.

    Raises OSError where the folder cannot be watched (no inotify watches left).
    """
    observer = Observer()
    observer.schedule(_Wake(wake), str(folder), recursive=False)
    observer.start()
    try:
        yield
    finally:
        observer.stop()
        observer.join(timeout=5)
