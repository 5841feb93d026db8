"""The evidence record of one node, as the daemon reads it (schema ``firstfault.evidence/1``).

docs/evidence-record.md describes the format; the collector writes it without importing this.
Unknown fields are ignored. Times are RFC 3339 in UTC.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt

import msgspec

from firstfault.model.document import Clock, Document, Excerpt

SCHEMA_NAME = "firstfault.evidence"
SCHEMA_MAJOR = 1
# Of the clock of a boot that is over: by journald's times, or by when a crash was written down.
FORMER_UNCERTAINTY_S = 2.0


class EvidenceError(ValueError):
    """A record that cannot be used; the message says what is wrong and where."""


class NewerSchema(EvidenceError):
    """A record of a newer major schema: to be kept for a newer daemon, never dropped."""


class RecordExcerpt(msgspec.Struct, frozen=True):
    """Consecutive raw bytes of a file: ``text`` where they are UTF-8, else ``base64``."""

    offset: int
    line: int | None = None
    text: str | None = None
    base64: str | None = None


class RecordFile(msgspec.Struct, frozen=True):
    """One file as the collector found it; ``inode`` ("device:inode") tells shared files.

    ``shared`` is True where it lies on a network file system, None where that is not known.
    ``boot_id`` is set for the kernel log of another boot than the record's, and
    ``kernel_offset_s`` (wall clock minus kernel clock, within `FORMER_UNCERTAINTY_S`) is that
    boot's.
    """

    name: str
    what: str
    size: int | None = None
    modified_at: dt.datetime | None = None
    inode: str | None = None
    shared: bool | None = None
    complete: bool = False
    excerpts: tuple[RecordExcerpt, ...] = ()
    boot_id: str | None = None
    kernel_offset_s: float | None = None


class RecordClock(msgspec.Struct, frozen=True):
    """See `firstfault.model.document.Clock`; ``method`` says how the offset was found."""

    wall_at: dt.datetime | None = None
    kernel_offset_s: float | None = None
    uncertainty_s: float = 1.0
    utc_offset_s: int | None = None
    method: str | None = None


class Coverage(msgspec.Struct, frozen=True):
    """What was looked for and how much of it could be read.

    ``what`` is as in `RecordFile`; ``state`` is "full", "partial" or "none"; ``reason`` is an
    errno name or a word, ``detail`` a sentence for people. ``since`` is the moment from which
    a log that begins too late is whole.
    """

    what: str
    state: str
    path: str | None = None
    reason: str | None = None
    detail: str | None = None
    since: dt.datetime | None = None


class EvidenceRecord(msgspec.Struct, frozen=True):
    """Everything that one node says about one end of one job."""

    schema: str
    id: str
    cluster: str | None
    job: str
    node: str
    boot_id: str | None
    ended_at: dt.datetime
    collected_at: dt.datetime
    environment: dict[str, str] = {}
    clock: RecordClock | None = None
    files: tuple[RecordFile, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    clean: bool = False
    notes: tuple[str, ...] = ()


class _Head(msgspec.Struct, frozen=True):
    schema: str


def decode(data: bytes) -> EvidenceRecord:
    """The record in ``data`` (JSON, not compressed).

    Raises `NewerSchema` for a newer major schema and `EvidenceError` for anything else that
    is not a record.
    """
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EvidenceError(f"not an evidence record: {error}") from error
    name, _, major = head.schema.rpartition("/")
    if name != SCHEMA_NAME or not major.isdigit():
        raise EvidenceError(f"not an evidence record: its schema is {head.schema[:80]!r}")
    if int(major) > SCHEMA_MAJOR:
        raise NewerSchema(f"schema {head.schema} is newer than {SCHEMA_NAME}/{SCHEMA_MAJOR}")
    try:
        return msgspec.json.decode(data, type=EvidenceRecord)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EvidenceError(f"a damaged evidence record: {error}") from error


def documents(record: EvidenceRecord) -> list[Document]:
    """The record's files as the diagnosis reads them.

    Kernel and per-rank files are of the record's node. The job's own output, and what lies on a
    network file system, may be shared by all nodes, so that its lines are not of this node. The Epilog's environment becomes a file
    of KEY=VALUE lines, as a captured one would be.

    Raises `EvidenceError` where an excerpt cannot be decoded.
    """
    clock = None
    if record.clock is not None:
        clock = Clock(
            kernel_offset_s=record.clock.kernel_offset_s,
            uncertainty_s=record.clock.uncertainty_s,
            utc_offset_s=record.clock.utc_offset_s,
        )
    result = []
    for file in record.files:
        shared = file.what == "job-output" or file.shared is True
        result.append(
            Document(
                name=file.name if shared else f"{record.node}:{file.name}",
                excerpts=tuple(_excerpt(file, excerpt) for excerpt in file.excerpts),
                host=None if shared else record.node,
                what=file.what,
                complete=file.complete,
                size=file.size,
                modified_at=file.modified_at,
                clock=clock if file.boot_id is None else _former_clock(file, record),
                boot_id=file.boot_id or record.boot_id,
            )
        )
    if record.environment:
        lines = "".join(f"{key}={value}\n" for key, value in sorted(record.environment.items()))
        data = lines.encode("utf-8", "replace")
        result.append(
            Document(
                name=f"{record.node}:Epilog environment",
                excerpts=(Excerpt(0, 1, data),),
                host=record.node,
                what="epilog-environment",
                size=len(data),
                clock=clock,
                boot_id=record.boot_id,
            )
        )
    return result


def _former_clock(file: RecordFile, record: EvidenceRecord) -> Clock:
    utc_offset_s = record.clock.utc_offset_s if record.clock is not None else None
    return Clock(file.kernel_offset_s, FORMER_UNCERTAINTY_S, utc_offset_s)


def check(record: EvidenceRecord) -> None:
    """Raises `EvidenceError` where `documents` would; it costs less."""
    for file in record.files:
        for excerpt in file.excerpts:
            if excerpt.text is None:
                _excerpt(file, excerpt)


def _excerpt(file: RecordFile, excerpt: RecordExcerpt) -> Excerpt:
    if excerpt.text is not None:
        data = excerpt.text.encode("utf-8", "surrogatepass")
    else:
        try:
            data = base64.b64decode(excerpt.base64 or "", validate=True)
        except (binascii.Error, ValueError) as error:
            raise EvidenceError(f"excerpt of {file.name!r} at {excerpt.offset}: {error}") from error
    return Excerpt(excerpt.offset, excerpt.line, data)
