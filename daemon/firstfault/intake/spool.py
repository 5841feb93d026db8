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
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from firstfault.model import evidence
from firstfault.model.jobs import Incoming
from firstfault.readers import nodelist

QUARANTINE = "quarantine"
NEWER = "newer"
TAKEN = "taken"
BATCH = 100
BATCH_BYTES = 32 * 1024 * 1024

_NAME = re.compile(r"(?!\.).*\.json(?:\.gz)?", re.DOTALL)
_WORDS = {
    "id": re.compile(r"[\x21-\x7e]{1,200}"),
    "job": re.compile(r"[0-9]{1,20}"),
    "node": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}"),
    "cluster": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"),
}
_GZIP = b"\x1f\x8b"


class Limits(msgspec.Struct, frozen=True):
    """Sizes in bytes: of the file as it lies there, and of the JSON in it."""

    file_bytes: int = 8 * 1024 * 1024
    record_bytes: int = 64 * 1024 * 1024


class Refused(msgspec.Struct, frozen=True):
    """A file that was put aside: where it is now, and why."""

    path: Path
    reason: str


class Sweep(msgspec.Struct, frozen=True):
    """What one pass over the spool did; ``unreadable`` files are left where they are."""

    taken: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    unreadable: tuple[Refused, ...] = ()


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
            incoming = read(path, limits)
        except FileNotFoundError:
            continue
        except OSError as error:
            lost = Refused(path, f"{error.strerror}: the daemon's user must be able to read it")
            done = msgspec.structs.replace(done, unreadable=(*done.unreadable, lost))
            continue
        except evidence.EvidenceError as error:
            kind = NEWER if isinstance(error, evidence.NewerSchema) else QUARANTINE
            aside = put_aside(path, folder / kind, str(error))
            done = msgspec.structs.replace(done, refused=(*done.refused, aside))
            continue
        batch.append((path, incoming))
        size += len(incoming.body)
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            done = _store(folder, batch, store, keep, done)
            batch, size = [], 0
    return _store(folder, batch, store, keep, done)


def read(path: Path, limits: Limits) -> Incoming:
    """The record in a spool file, checked.

    Raises OSError where it cannot be read and `EvidenceError` where it cannot be used.
    """
    body = _unpacked(_bytes(path, limits), limits)
    record = evidence.decode(body)
    evidence.documents(record)  # every excerpt must be decodable before the file is let go
    for field, pattern in _WORDS.items():
        value = getattr(record, field)
        if value is not None and not pattern.fullmatch(value):
            raise evidence.EvidenceError(f"field {field!r} cannot be {value[:80]!r}")
    for field in ("ended_at", "collected_at"):
        if getattr(record, field).tzinfo is None:
            raise evidence.EvidenceError(f"field {field!r} has no time zone")
    listed = record.environment.get("SLURM_JOB_NODELIST") or record.environment.get(
        "SLURM_NODELIST"
    )
    try:
        nodes = nodelist.expand(listed) if listed else ()
    except nodelist.NodeListError as error:
        raise evidence.EvidenceError(f"environment: {error}") from error
    if nodes and record.node not in nodes:
        raise evidence.EvidenceError(
            f"node {record.node} is not in its own job's node list {(listed or '')[:80]!r}"
        )
    return Incoming(
        record_id=record.id,
        cluster=record.cluster,
        job=record.job,
        node=record.node,
        ended_at=record.ended_at,
        nodes=nodes,
        node_list=listed,
        run=_run(record),
        suspicious=_is_suspicious(record),
        body=body,
    )


def put_aside(path: Path, folder: Path, reason: str) -> Refused:
    """Moves ``path`` into ``folder`` and writes why; an older file of that name is kept."""
    target = folder / path.name
    number = 1
    while target.exists():
        target = folder / f"{path.name}.{number}"
        number += 1
    note = target.with_name(target.name + ".reason")
    draft = note.with_name(f".{note.name}"[-250:])
    draft.write_text(reason + "\n", "utf-8", errors="backslashreplace")
    draft.replace(note)
    path.rename(target)
    return Refused(target, reason)


def _store(
    folder: Path,
    batch: Sequence[tuple[Path, Incoming]],
    store: Callable[[Sequence[Incoming]], object],
    keep: bool,
    done: Sweep,
) -> Sweep:
    if not batch:
        return done
    store([incoming for _, incoming in batch])
    for path, _ in batch:
        if keep:
            (folder / TAKEN).mkdir(mode=0o750, exist_ok=True)
            path.rename(folder / TAKEN / path.name)
        else:
            path.unlink(missing_ok=True)
    jobs = tuple(incoming.job for _, incoming in batch)
    return msgspec.structs.replace(done, taken=(*done.taken, *jobs))


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
            data = file.read(limits.file_bytes + 1)
    finally:
        os.close(handle)
    if len(data) > limits.file_bytes:
        raise evidence.EvidenceError(f"larger than spool.max_file_bytes ({limits.file_bytes})")
    return data


def _unpacked(data: bytes, limits: Limits) -> bytes:
    """The JSON in ``data``; a gzip bomb is refused before it is unpacked."""
    if not data.startswith(_GZIP):
        body = data
    else:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            body = unpacker.decompress(data, limits.record_bytes + 1)
        except zlib.error as error:
            raise evidence.EvidenceError(f"damaged gzip data: {error}") from error
        if len(body) <= limits.record_bytes and not unpacker.eof:
            raise evidence.EvidenceError("damaged gzip data: it ends too early")
        if unpacker.unused_data.strip(b"\0"):
            raise evidence.EvidenceError("more data after the end of the gzip data")
    if len(body) > limits.record_bytes:
        raise evidence.EvidenceError(
            f"larger than spool.max_record_bytes ({limits.record_bytes}) when unpacked"
        )
    return body


def _run(record: evidence.EvidenceRecord) -> str | None:
    # Slurm 25.11 tells the node a unique id, 23.02 the start time; before, nothing.
    for name in ("SLURM_JOB_SLUID", "SLURM_JOB_START_TIME"):
        value = record.environment.get(name, "")
        if re.fullmatch(r"[0-9A-Za-z]{1,32}", value) and value != "0":
            return f"{name[10:].lower()}:{value}"
    return None


def _is_suspicious(record: evidence.EvidenceRecord) -> bool:
    codes = ("SLURM_JOB_EXIT_CODE", "SLURM_JOB_DERIVED_EC")
    return not record.clean or any(record.environment.get(code, "0") != "0" for code in codes)
