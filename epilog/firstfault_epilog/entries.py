"""The queue between the Epilog and the collector: one entry per end of a job on this node.

queue/new/         written by the Epilog
queue/ready/       which of them are whole: an empty file NAME for the entry new/NAME; or the entry
                   itself, where it was moved here
queue/claimed/     being collected; N.NAME where N counts the collectors that took it
queue/quarantine/  could not be used; NAME.reason says why
queue/lock         held by the one collector that runs
queue/failures     a line for each failure of the collector's own since the last record
queue/off          the collector turned itself off: when and why
queue/new/.dropped a byte for each end of a job that was not noted
"""

import errno
import fcntl
import os
import stat
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

FOLDERS = ("new", "ready", "claimed", "quarantine")
FIRST_FIELD = b"firstfault.entry/1"
LAST_FIELD = b"firstfault.end"
# An environment is at most 2 MiB on Linux unless the stack limit was raised.
BYTES_MAX = 4 << 20
ATTEMPTS_MAX = 3
# The Epilog needs a millisecond between creating an entry and saying that it is whole.
ABANDONED_AFTER_S = 60.0
# The Epilog's script turns it on again after this time.
OFF_FOR_S = 3600.0
OFF = "off"
FAILURES = "failures"
_DROPPED = os.path.join("new", ".dropped")
_NAMES = (b"CUDA_VISIBLE_DEVICES", b"GPU_DEVICE_ORDINAL", b"ROCR_VISIBLE_DEVICES")


class EntryError(ValueError):
    """An entry that cannot be used; the message says why."""


class Entry(NamedTuple):
    """One end of a job: ``environment`` in raw bytes, ``ended_at_s`` seconds since 1970.

    ``unique`` tells it from every other end of the same job on the same node.
    """

    environment: Dict[bytes, bytes]
    ended_at_s: float
    unique: str

    def value(self, name: str) -> Optional[str]:
        """The variable ``name`` as text, None where it is not set."""
        raw = self.environment.get(name.encode("ascii"))
        return None if raw is None else raw.decode("utf-8", "backslashreplace")


def parse(data: bytes, modified_ns: int, name: str) -> Entry:
    """The entry in ``data``, as the Epilog wrote it. Raises `EntryError`."""
    fields = data.split(b"\0")
    if fields[0] != FIRST_FIELD:
        raise EntryError(f"it does not start with {FIRST_FIELD.decode()!r}")
    if fields[-1] != b"" or fields[-2] != LAST_FIELD:
        raise EntryError("its end is missing: the disk was full or the Epilog was killed")
    environment = {}
    for field in fields[1:-2]:
        if not field:
            continue
        key, equals, value = field.partition(b"=")
        if not equals or not (key.startswith(b"SLURM") or key in _NAMES):
            raise EntryError(f"a field is not a variable that is noted: {key[:60]!r}")
        environment[key] = value
    job = environment.get(b"SLURM_JOB_ID", b"")
    if not job.isdigit() or len(job) > 20:
        raise EntryError(f"SLURM_JOB_ID is not a number: {job[:40]!r}")
    node = environment.get(b"SLURMD_NODENAME", b"")
    if not node or len(node) > 255:
        raise EntryError(f"SLURMD_NODENAME is not a node's name: {node[:40]!r}")
    # The file's name holds the Epilog's pid.
    return Entry(environment, modified_ns / 1e9, f"{modified_ns:x}-{name.rpartition('-')[2]}")


def prepare(queue: str) -> None:
    """Makes the queue's folders. Raises OSError, also where others could write to the queue."""
    for folder in FOLDERS:
        os.makedirs(os.path.join(queue, folder), mode=0o700, exist_ok=True)
    for path in (queue, *(os.path.join(queue, folder) for folder in FOLDERS)):
        info = os.lstat(path)
        if not stat.S_ISDIR(info.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "it is not a folder, or a link to one", path)
        if info.st_uid != os.geteuid() or info.st_mode & 0o022:
            raise PermissionError(
                errno.EPERM, "others own it or may write to it: chown and chmod 700 it", path
            )


def lock(queue: str) -> Optional[int]:
    """A descriptor that holds the collector's lock; None where another collector runs."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(os.path.join(queue, "lock"), flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def is_empty(queue: str) -> bool:
    """Whether nothing waits to be collected."""
    return not os.listdir(os.path.join(queue, "ready"))


def claim_all(queue: str) -> Iterator[str]:
    """Claims what waits, the oldest first, and yields the claimed paths.

    What a collector that died had claimed is claimed again, up to `ATTEMPTS_MAX` times. The
    caller holds the lock.
    """
    _sweep_new(queue)
    left_over = os.listdir(os.path.join(queue, "claimed"))
    claims = os.path.join(queue, "claimed")
    for name in sorted(
        left_over, key=lambda name: (_modified_ns(os.path.join(claims, name)), name)
    ):
        count, _, rest = name.partition(".")
        path = os.path.join(queue, "claimed", name)
        attempts = int(count) if count.isdigit() else ATTEMPTS_MAX
        if attempts >= ATTEMPTS_MAX:
            quarantine(queue, path, f"{attempts} collectors died or failed on it")
            continue
        again = os.path.join(queue, "claimed", f"{attempts + 1}.{rest}")
        os.rename(path, again)
        yield again
    while True:
        names = os.listdir(os.path.join(queue, "ready"))
        if not names:
            return
        for path in whole(queue, names):
            name = os.path.basename(path)
            claimed = os.path.join(queue, "claimed", f"1.{name}")
            os.rename(path, claimed)
            _remove(os.path.join(queue, "ready", name))
            yield claimed


def whole(queue: str, names: List[str]) -> List[str]:
    """The paths of the entries that ``names`` in `ready` stand for, the oldest first.

    What stands for none is removed: a collector died after it had claimed it.
    """
    found = []
    for name in names:
        ready = os.path.join(queue, "ready", name)
        path = ready if _size(ready) else os.path.join(queue, "new", name)
        if path != ready and not os.path.lexists(path):
            _remove(ready)
            continue
        found.append(path)
    return sorted(found, key=lambda path: (_modified_ns(path), path))


def read(path: str) -> Entry:
    """The claimed entry at ``path``. Raises `EntryError`, and OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise EntryError("it is not a regular file")
        if info.st_size > BYTES_MAX:
            raise EntryError(f"it is larger than {BYTES_MAX} bytes")
        with os.fdopen(os.dup(handle), "rb") as file:
            data = file.read(BYTES_MAX)
    finally:
        os.close(handle)
    return parse(data, info.st_mtime_ns, os.path.basename(path))


def keep_for_later(path: str) -> None:
    """Takes back the count of a claim that failed for no fault of the entry's (a full spool)."""
    folder, name = os.path.split(path)
    os.rename(path, os.path.join(folder, f"0.{name.partition('.')[2]}"))


def quarantine(queue: str, path: str, reason: str) -> None:
    """Moves an entry that cannot be used to the quarantine, with the reason beside it."""
    target = os.path.join(queue, "quarantine", os.path.basename(path))
    os.rename(path, target)
    with open(target + ".reason", "w", encoding="utf-8") as file:
        file.write(reason + "\n")


def turned_off(queue: str) -> Optional[str]:
    """When and why the collector turned itself off; None where it did not, or long ago."""
    path = os.path.join(queue, OFF)
    try:
        if time.time() - os.lstat(path).st_mtime > OFF_FOR_S:
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline(1000).strip()
    except FileNotFoundError:
        return None


def failures(queue: str) -> Tuple[str, ...]:
    """The failures of the collector's own since it last wrote a record."""
    try:
        with open(os.path.join(queue, FAILURES), encoding="utf-8", errors="replace") as file:
            return tuple(file.read(1 << 16).splitlines())
    except FileNotFoundError:
        return ()


def forget_troubles(queue: str) -> None:
    """Begins both counts anew: the collector works, and what was dropped has been told."""
    forget_failures(queue)
    _remove(os.path.join(queue, _DROPPED))


def forget_failures(queue: str) -> None:
    """Begins the count of failures anew: the collector works."""
    _remove(os.path.join(queue, FAILURES))


def dropped(queue: str) -> int:
    """How many ends of jobs were not noted, because nobody took the queue."""
    try:
        return os.lstat(os.path.join(queue, _DROPPED)).st_size
    except FileNotFoundError:
        return 0


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def _modified_ns(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except FileNotFoundError:
        return 0


# An Epilog that was killed before it could say that its entry is whole leaves it behind, whole or
# not; one that was parked here has lost its sign.
def _sweep_new(queue: str) -> None:
    for name in os.listdir(os.path.join(queue, "new")):
        if name.startswith("."):
            continue
        path = os.path.join(queue, "new", name)
        try:
            if time.time() - os.lstat(path).st_mtime < ABANDONED_AFTER_S:
                continue
            os.rename(path, os.path.join(queue, "ready", name))
        except FileNotFoundError:
            continue
