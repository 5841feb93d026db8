"""The spool folder: collectors write records there, aside and renamed; this takes them in.

A file leaves the spool only after its record is stored. What cannot be used goes to the folder
``quarantine`` beside it, with a ``.reason`` file, and what only a newer program can read to
``newer``; neither is ever deleted here.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from firstfault.intake.record import Limits, incoming
from firstfault.model import evidence
from firstfault.model.jobs import Incoming

QUARANTINE = "quarantine"
NEWER = "newer"
TAKEN = "taken"
BATCH = 100
BATCH_BYTES = 32 * 1024 * 1024

_NAME = re.compile(r"(?!\.).*\.json(?:\.gz)?", re.DOTALL)


class Refused(msgspec.Struct, frozen=True):
    """A file that was put aside: where it is now, and why."""

    path: Path
    reason: str


class Sweep(msgspec.Struct, frozen=True):
    """What one pass over the spool did. ``unreadable`` files are left where they are, and so are
    ``stuck`` ones, which could be neither removed (their records are stored) nor put aside."""

    taken: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    unreadable: tuple[Refused, ...] = ()
    stuck: tuple[Refused, ...] = ()


def prepare(folder: Path) -> None:
    """Makes the folders that are missing. Raises OSError.

    Files that collectors write as root get the folder's group, so that the daemon can read them.
    """
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o2770)
    for path in (folder / QUARANTINE, folder / NEWER):
        path.mkdir(mode=0o750, exist_ok=True)


def waiting(folder: Path) -> list[Path]:
    """The record files in the spool, by name."""
    with os.scandir(folder) as entries:
        return sorted(Path(entry.path) for entry in entries if _NAME.fullmatch(entry.name))


def sweep(
    folder: Path,
    store: Callable[[Sequence[Incoming]], object],
    limits: Limits,
    *,
    keep: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Sweep:
    """Takes in all files that lie in ``folder``, in batches.

    ``store`` must have committed the records when it returns; where it raises, the files stay.
    With ``keep`` a file is moved to the folder ``taken`` instead of being deleted. ``stop`` is
    asked between batches.
    """
    done = Sweep()
    batch: list[tuple[Path, Incoming]] = []
    size = 0
    for path in waiting(folder):
        if stop():
            break
        try:
            record = read(path, limits)
        except FileNotFoundError:
            continue
        except OSError as error:
            lost = Refused(path, f"{error.strerror}: the daemon's user must be able to read it")
            done = msgspec.structs.replace(done, unreadable=(*done.unreadable, lost))
            continue
        except evidence.EvidenceError as error:
            kind = NEWER if isinstance(error, evidence.NewerSchema) else QUARANTINE
            done = _put_aside(path, folder / kind, str(error), done)
            continue
        batch.append((path, record))
        size += len(record.body)
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            done = _store(folder, batch, store, keep, done)
            batch, size = [], 0
    return _store(folder, batch, store, keep, done)


def read(path: Path, limits: Limits) -> Incoming:
    """The record in a spool file, checked.

    Raises OSError where it cannot be read and `EvidenceError` where it cannot be used.
    """
    return incoming(_bytes(path, limits), limits)


def put_aside(path: Path, folder: Path, reason: str) -> Refused:
    """Moves ``path`` into ``folder`` and writes why; an older file of that name is kept."""
    target = folder / path.name
    number = 1
    while target.exists():
        target = folder / f"{path.name}.{number}"
        number += 1
    write_reason(target, reason)
    path.rename(target)
    return Refused(target, reason)


def write_reason(target: Path, reason: str) -> None:
    """Writes why ``target`` was put aside beside it, before it is there itself."""
    note = target.with_name(target.name + ".reason")
    draft = note.with_name(f".{note.name}"[-250:])
    draft.write_text(reason + "\n", "utf-8", errors="backslashreplace")
    draft.replace(note)


def _put_aside(path: Path, folder: Path, reason: str, done: Sweep) -> Sweep:
    try:
        aside = put_aside(path, folder, reason)
    except OSError as error:
        stuck = Refused(path, f"cannot go to {folder}: {error.strerror}; it is refused: {reason}")
        return msgspec.structs.replace(done, stuck=(*done.stuck, stuck))
    return msgspec.structs.replace(done, refused=(*done.refused, aside))


def _store(
    folder: Path,
    batch: Sequence[tuple[Path, Incoming]],
    store: Callable[[Sequence[Incoming]], object],
    keep: bool,
    done: Sweep,
) -> Sweep:
    if not batch:
        return done
    store([record for _, record in batch])
    stuck = []
    for path, _ in batch:
        try:
            _let_go(path, folder / TAKEN if keep else None)
        except OSError as error:
            stuck.append(Refused(path, f"stored, and cannot be removed: {error.strerror}"))
    jobs = tuple(record.job for _, record in batch)
    return msgspec.structs.replace(done, taken=(*done.taken, *jobs), stuck=(*done.stuck, *stuck))


def _let_go(path: Path, taken: Path | None) -> None:
    if taken is None:
        path.unlink(missing_ok=True)
    else:
        taken.mkdir(mode=0o750, exist_ok=True)
        path.rename(taken / path.name)


def _bytes(path: Path, limits: Limits) -> bytes:
    # A FIFO would block the intake, a link could lead anywhere.
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise evidence.EvidenceError("not a regular file") from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise evidence.EvidenceError("not a regular file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(limits.file_bytes + 1)
    finally:
        os.close(handle)
