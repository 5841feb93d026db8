"""The evidence record as it is written: docs/evidence-record.md describes the format."""

import base64
import datetime
import gzip
import hashlib
import json
import os
import re
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

SCHEMA = "firstfault.evidence/1"
BYTES_MAX = 1 << 20
ENVIRONMENT_BYTES_MAX = 192 << 10
STALE_AFTER_S = 3600.0


class Excerpt(NamedTuple):
    """Consecutive bytes of a file: ``line`` is the number of the first one's line, from 1.

    ``cut`` says whether a line is cut at the first and at the last byte; it is not written.
    """

    offset: int
    line: Optional[int]
    data: bytes
    cut: Tuple[bool, bool] = (False, False)


class File(NamedTuple):
    """One file that was read; ``modified_at_s`` in seconds since 1970.

    ``shared`` is True where its file system is a network's, so that other nodes may see it.
    ``boot_id`` is of another boot than the record's, for a kernel log; ``kernel_offset_s`` (wall
    clock minus kernel clock) is then that boot's.
    """

    name: str
    what: str
    size: Optional[int]
    modified_at_s: Optional[float]
    inode: Optional[str]
    complete: bool
    excerpts: Tuple[Excerpt, ...]
    shared: Optional[bool] = None
    boot_id: Optional[str] = None
    kernel_offset_s: Optional[float] = None


class Coverage(NamedTuple):
    """What was looked for: ``state`` is "full", "partial" or "none".

    ``since`` (RFC 3339) is the moment from which a log that begins too late is whole.
    """

    what: str
    path: Optional[str]
    state: str
    reason: Optional[str] = None
    detail: Optional[str] = None
    since: Optional[str] = None


class Clock(NamedTuple):
    """Wall clock minus kernel clock, in seconds, at ``wall_at_s``; None where not known."""

    wall_at_s: float
    kernel_offset_s: Optional[float]
    uncertainty_s: float
    utc_offset_s: Optional[int]
    method: Optional[str]


class Record(NamedTuple):
    """One node's evidence on one end of a job; ``environment`` in raw bytes.

    ``clean``: the node saw nothing wrong and has no logs to send.
    """

    id: str
    cluster: Optional[str]
    job: str
    node: str
    boot_id: Optional[str]
    ended_at_s: float
    collected_at_s: float
    environment: Dict[bytes, bytes]
    clock: Optional[Clock]
    files: Tuple[File, ...]
    coverage: Tuple[Coverage, ...]
    notes: Tuple[str, ...] = ()
    clean: bool = False


def identity(cluster: Optional[str], job: str, node: str, boot_id: str, unique: str) -> str:
    """The record's id: the same for the same end of the same job on the same node."""
    parts = "\0".join((cluster or "", job, node, boot_id, unique))
    return hashlib.sha256(parts.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def file_name(record: Record) -> str:
    """The record's name in the spool: letters, digits, dot, dash and underscore only."""
    parts = (record.cluster or "cluster", record.job, record.node, record.id[:16])
    return "-".join(re.sub(r"[^A-Za-z0-9._]", "_", part)[:64] for part in parts) + ".json.gz"


def encode(record: Record) -> bytes:
    """The record as JSON of at most `BYTES_MAX` bytes.

    Where it would be larger, excerpts of the last files are left out, and coverage says so.
    """
    data = _json(record)
    files = list(record.files)
    coverage = list(record.coverage)
    while len(data) > BYTES_MAX and any(file.excerpts for file in files):
        index = max(
            (i for i, file in enumerate(files) if file.excerpts),
            key=lambda i: (files[i].what != "kernel", sum(len(e.data) for e in files[i].excerpts)),
        )
        file = files[index]
        files[index] = file._replace(
            complete=False, excerpts=file.excerpts[: len(file.excerpts) // 2]
        )
        coverage.append(
            Coverage(
                file.what,
                file.name,
                "partial",
                "size",
                f"excerpts were left out: the record would be larger than {BYTES_MAX} bytes",
            )
        )
        data = _json(record._replace(files=tuple(files), coverage=tuple(coverage)))
    return data


def write(spool: str, name: str, data: bytes) -> str:
    """Writes the record ``data`` to the folder ``spool``, whole or not at all; the path of it.

    Raises OSError.
    """
    _remove_stale(spool, name)
    aside = os.path.join(spool, f".{name}.{os.getpid()}.partial")
    target = os.path.join(spool, name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(aside, flags, 0o640)
    try:
        with os.fdopen(handle, "wb") as file:
            # The daemon runs as a user of its own; the spool's group, inherited, lets it read.
            os.fchmod(file.fileno(), 0o640)
            file.write(gzip.compress(data, 6))
            file.flush()
            os.fsync(file.fileno())
        os.rename(aside, target)
    except BaseException:
        os.unlink(aside)
        raise
    folder = os.open(spool, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return target


def instant(seconds: float) -> str:
    """RFC 3339 in UTC with microseconds."""
    moment = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
    moment += datetime.timedelta(microseconds=round(seconds * 1e6))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def printable(raw: bytes) -> str:
    """A name as text; bytes that are not UTF-8 become ``\\xNN``."""
    return raw.decode("utf-8", "backslashreplace")


def _json(record: Record) -> bytes:
    environment, coverage = _environment(record.environment)
    clock = record.clock
    document = {
        "schema": SCHEMA,
        "id": record.id,
        "cluster": record.cluster,
        "job": record.job,
        "node": record.node,
        "boot_id": record.boot_id,
        "ended_at": instant(record.ended_at_s),
        "collected_at": instant(record.collected_at_s),
        "environment": environment,
        "clock": None
        if clock is None
        else {
            "wall_at": instant(clock.wall_at_s),
            "kernel_offset_s": clock.kernel_offset_s,
            "uncertainty_s": clock.uncertainty_s,
            "utc_offset_s": clock.utc_offset_s,
            "method": clock.method,
        },
        "files": [_file(file) for file in record.files],
        "coverage": [row._asdict() for row in list(record.coverage) + coverage],
        "clean": record.clean,
        "notes": list(record.notes),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _environment(raw: Dict[bytes, bytes]) -> Tuple[Dict[str, str], List[Coverage]]:
    result = {}
    coverage = []
    room = ENVIRONMENT_BYTES_MAX
    # The smallest first: a comment of 1 MiB does not push out the exit code.
    for key, value in sorted(raw.items(), key=lambda item: (len(item[1]), item[0])):
        name = printable(key)
        room -= len(key) + len(value)
        if room < 0:
            coverage.append(
                Coverage("environment", name[:200], "none", "size", f"{len(value)} bytes long")
            )
        else:
            result[name] = printable(value)
    return dict(sorted(result.items())), coverage


def _file(file: File) -> Dict[str, Any]:
    document: Dict[str, Any] = {
        "name": file.name,
        "what": file.what,
        "size": file.size,
        "modified_at": None if file.modified_at_s is None else instant(file.modified_at_s),
        "inode": file.inode,
        "shared": file.shared,
        "complete": file.complete,
        "excerpts": [_excerpt(excerpt) for excerpt in file.excerpts],
    }
    if file.boot_id is not None:
        document.update(boot_id=file.boot_id, kernel_offset_s=file.kernel_offset_s)
    return document


def _excerpt(excerpt: Excerpt) -> Dict[str, Any]:
    head: Dict[str, Any] = {"offset": excerpt.offset, "line": excerpt.line}
    encoded = base64.b64encode(excerpt.data).decode("ascii")
    try:
        text = excerpt.data.decode("utf-8")
    except UnicodeDecodeError:
        head["base64"] = encoded
        return head
    # Control characters take six bytes each in JSON.
    if len(json.dumps(text, ensure_ascii=False).encode("utf-8")) > len(encoded) + 2:
        head["base64"] = encoded
    else:
        head["text"] = text
    return head


# What a collector that was killed left half written: this record's at once (the lock says that no
# other collector of this node runs), others' of the same node once they are old.
def _remove_stale(spool: str, name: str) -> None:
    node_part = "-" + name.split("-")[2] + "-"
    for entry in os.listdir(spool):
        if not (entry.startswith(".") and entry.endswith(".partial")):
            continue
        path = os.path.join(spool, entry)
        try:
            old = time.time() - os.lstat(path).st_mtime > STALE_AFTER_S
            if entry.startswith(f".{name}.") or (old and node_part in entry):
                os.unlink(path)
        except FileNotFoundError:
            continue
