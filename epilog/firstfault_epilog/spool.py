"""The node's own spool: records stay there until the daemon has them.

spool/NAME.json.gz           not acknowledged yet
spool/refused/NAME.json.gz   the daemon will never take it; NAME.json.gz.reason says why
"""

import errno
import json
import os
import stat
import zlib
from typing import Iterator, List, NamedTuple, Optional

from firstfault_epilog import ranklogs, record
from firstfault_epilog.settings import Settings

SUFFIX = ".json.gz"
REFUSED = "refused"
REASON = ".reason"


class SpoolError(ValueError):
    """A file that is no record; the message says why."""


class Waiting(NamedTuple):
    """A record in a folder; ``bytes`` as the disk counts them, ``written_ns`` since 1970."""

    folder: str
    name: str
    bytes: int
    written_ns: int


class Body(NamedTuple):
    """A record as it is sent, and the node that it tells of."""

    node: str
    data: bytes


def prepare(spool: str) -> None:
    """Makes the folder. Raises OSError, also where others could put a record into it.

    What lies there is signed as this node's word.
    """
    os.makedirs(spool, mode=0o700, exist_ok=True)
    info = os.lstat(spool)
    if not stat.S_ISDIR(info.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is not a folder, or a link to one", spool)
    if info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise PermissionError(
            errno.EPERM, "others own it or may write to it: chown root and chmod 700 it", spool
        )


def waiting(spool: str) -> List[Waiting]:
    """The records that the daemon does not have yet, the newest first. Raises OSError."""
    return sorted(_records(spool), key=lambda item: (-item.written_ns, item.name))


def refused(spool: str) -> List[Waiting]:
    """The records that the daemon refused, the newest first. Raises OSError."""
    folder = os.path.join(spool, REFUSED)
    if not os.path.lexists(folder):
        return []
    return sorted(_records(folder), key=lambda item: (-item.written_ns, item.name))


def read(spool: str, name: str) -> Body:
    """The record in the file ``name``. Raises `SpoolError`, and OSError."""
    path = os.path.join(spool, name)
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid():
            raise SpoolError("it is not a regular file of root's")
        # gzip adds little to what cannot be compressed.
        data = file.read(2 * record.BYTES_MAX)
    try:
        text = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(data, 2 * record.BYTES_MAX)
        document = json.loads(text.decode("utf-8"))
    except (zlib.error, ValueError, RecursionError) as error:
        raise SpoolError(f"it is not a record: {error}")
    node = document.get("node") if isinstance(document, dict) else None
    if not isinstance(node, str):
        raise SpoolError("it names no node")
    return Body(node, data)


def remove(spool: str, name: str) -> None:
    """Forgets a record that the daemon has stored. Raises OSError."""
    _unlink(os.path.join(spool, name))


def refuse(settings: Settings, name: str, reason: str) -> None:
    """Puts aside a record that will never be taken. Raises OSError.

    The rank logs of its job stay: they are the evidence that is left.
    """
    folder = os.path.join(settings.spool, REFUSED)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    ranklogs.forget(settings, {name})
    with open(os.path.join(folder, name + REASON), "w", encoding="utf-8") as file:
        file.write(reason + "\n")
    os.rename(os.path.join(settings.spool, name), os.path.join(folder, name))


def surplus(settings: Settings) -> List[Waiting]:
    """What has to go for the rest to fit into ``keep_mb``: refused ones first, then the oldest.

    Raises OSError.
    """
    kept = [*waiting(settings.spool), *refused(settings.spool)]
    size = sum(item.bytes for item in kept)
    doomed = []
    while kept and size > settings.keep_mb * (1 << 20):
        doomed.append(kept.pop())
        size -= doomed[-1].bytes
    return doomed


def drop(settings: Settings, doomed: List[Waiting]) -> None:
    """Removes records that the daemon never got; rank logs of their jobs stay. Raises OSError."""
    ranklogs.forget(settings, {item.name for item in doomed})
    for item in doomed:
        _unlink(os.path.join(item.folder, item.name))
        _unlink(os.path.join(item.folder, item.name + REASON))


def _records(folder: str) -> Iterator[Waiting]:
    with os.scandir(folder) as listing:
        for entry in listing:
            if entry.name.startswith(".") or not entry.name.endswith(SUFFIX):
                continue
            info = _info(entry)
            if info is not None and stat.S_ISREG(info.st_mode):
                size = max(info.st_size, info.st_blocks * 512)
                yield Waiting(folder, entry.name, size, info.st_mtime_ns)


def _info(entry: "os.DirEntry[str]") -> Optional[os.stat_result]:
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
