"""Reports as files, written aside and renamed: ``<cluster>/<job>.html``."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from firstfault.deliver.outcome import Failed, Sent
from firstfault.model.jobs import Delivery, StoredVerdict

MODE = 0o640


class Files:
    """Writes each report into a folder. ``render`` gives the file's content."""

    def __init__(self, folder: Path, render: Callable[[StoredVerdict], str]) -> None:
        self.folder = folder
        self._render = render

    def send(self, delivery: Delivery) -> Sent | Failed:
        """Writes once."""
        content = self._render(delivery.current)
        try:
            current = delivery.current
            path = self.folder / path_of(current.cluster, current.job, current.incarnation)
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            write(path, content.encode("utf-8", "replace"))
        except OSError as error:
            return Failed(f"{self.folder}: {error.strerror}. Check report.dir and its owner.")
        return Sent()


def path_of(cluster: str | None, job: str, incarnation: int) -> Path:
    """Where the report lies in the folder: ``<cluster>/<job>.html``.

    A job of no cluster lies in the folder itself; a requeued job's later ends are
    ``<job>.2.html`` and so on.
    """
    again = "" if incarnation == 1 else f".{incarnation}"
    return Path(cluster or "") / f"{job}{again}.html"


def remove(folder: Path, cluster: str | None, job: str, incarnation: int) -> None:
    """Removes a report from the folder; one that is not there, or stays, is no error."""
    with suppress(OSError):
        (folder / path_of(cluster, job, incarnation)).unlink()


def write(path: Path, content: bytes) -> None:
    """Writes ``path`` so that it is there whole, or as it was. Raises OSError."""
    # One name for all: what a daemon left that was killed here is used up by the next attempt.
    draft = path.with_name(f".{path.name}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, MODE)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), MODE)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
