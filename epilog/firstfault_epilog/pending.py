"""Ends that look like success, kept until the daemon says whether they are wanted.

spool/pending/N.ENDED-JOB-ID   one end: N counts the collectors that began to collect it, ENDED is
                               in milliseconds since 1970, ID the record's. Its modification time
                               is when the daemon is asked next
spool/pending/quarantine/      could not be used; NAME.reason says why
spool/pending/.lost            a byte for each end that went unanswered and was not told of yet

On the disk, not in the queue's memory: a node may be booted right after the job. The caller holds
the collector's lock.
"""

import base64
import contextlib
import errno
import json
import os
import stat
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from firstfault_epilog import privacy
from firstfault_epilog.entries import Entry
from firstfault_epilog.job import job_of
from firstfault_epilog.moment import Moment
from firstfault_epilog.record import Clock, Coverage, Excerpt, File
from firstfault_epilog.settings import Settings

FOLDER = "pending"
SCHEMA = "firstfault.pending/1"
# A kernel window is 192 KiB at most, and an entry 4 MiB; nearly all are a few KiB together.
BYTES_MAX = 8 << 20
ALL_BYTES_MAX = 64 << 20
# Not waited for longer: the clock was set back.
ASK_AHEAD_MAX_S = 7200.0
ASIDE = "quarantine"
_LOST = ".lost"
_DRAFT = ".draft"

Tell = Callable[[str], None]


class PendingError(ValueError):
    """A file that is no pending end; the message says why."""


class Place(NamedTuple):
    """One pending end's file; ``ask_at_s`` in seconds since 1970, ``attempts`` as N above."""

    path: str
    id: str
    job: str
    attempts: int
    ask_at_s: float
    bytes: int


class Pending(NamedTuple):
    """One end as it was kept: its entry, what was known of its moment, and since when it waits."""

    entry: Entry
    moment: Moment
    kept_at_s: float


def folder(spool: str) -> str:
    """Where they lie."""
    return os.path.join(spool, FOLDER)


def prepare(spool: str) -> None:
    """Makes the folder. Raises OSError, also where others could write to it."""
    os.makedirs(folder(spool), mode=0o700, exist_ok=True)
    _check(folder(spool))


def keep(settings: Settings, pending: Pending, record_id: str, ask_at_s: float) -> int:
    """Keeps one end, whole or not at all; how many of the oldest had to go for it.

    Raises OSError.
    """
    prepare(settings.spool)
    entry = privacy.at_rest(pending.entry, settings)
    data = _encoded(pending._replace(entry=entry))
    name = f"0.{entry.ended_at_s * 1000:013.0f}-{job_of(entry).id}-{record_id}"
    draft = os.path.join(folder(settings.spool), _DRAFT)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.utime(draft, (ask_at_s, ask_at_s))
    os.rename(draft, os.path.join(folder(settings.spool), name))
    return _make_room(settings)


def waiting(spool: str) -> List[Place]:
    """All pending ends, the oldest first; none where there is no folder. Raises OSError."""
    try:
        _check(folder(spool))
    except FileNotFoundError:
        return []
    found = []
    for name in os.listdir(folder(spool)):
        attempts, _, rest = name.partition(".")
        parts = rest.split("-")
        if name.startswith(".") or not attempts.isdigit() or len(parts) != 3:
            continue
        path = os.path.join(folder(spool), name)
        info = os.lstat(path)
        place = Place(path, parts[2], parts[1], int(attempts), info.st_mtime, info.st_size)
        found.append((parts[0], place))
    return [place for _, place in sorted(found)]


def due_in_s(place: Place, now_s: float) -> float:
    """Seconds until the daemon is to be asked, 0.0 where it is now."""
    left = place.ask_at_s - now_s
    return left if 0 < left <= ASK_AHEAD_MAX_S else 0.0


def read(path: str) -> Pending:
    """The end in the file ``path``. Raises `PendingError`, and OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise PendingError("it is not a regular file")
        with os.fdopen(os.dup(handle), "rb") as file:
            data = file.read(BYTES_MAX + 1)
    finally:
        os.close(handle)
    try:
        return _decoded(json.loads(data.decode("ascii")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PendingError(f"it is not a pending end: {type(error).__name__}: {error}") from error


def readable(spool: str, places: List[Place], tell: Tell) -> List[Tuple[Place, Pending]]:
    """The ends in these files; what cannot be used is put aside and told. Raises OSError."""
    found = []
    for place in places:
        try:
            found.append((place, read(place.path)))
        except (PendingError, OSError) as error:
            tell(f"pending end {place.path}: {error}: put aside")
            put_aside(spool, place, str(error))
    return found


def postpone(place: Place, ask_at_s: float) -> None:
    """The daemon is asked again at ``ask_at_s``. Raises OSError."""
    # Not there: pushed out by newer ends while the daemon was asked.
    with contextlib.suppress(FileNotFoundError):
        os.utime(place.path, (ask_at_s, ask_at_s))


def drop(place: Place) -> None:
    """Forgets the end. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place.path)


def begin(place: Place) -> Place:
    """The end, about to be collected: counted, so that one that kills collectors is seen.

    Raises FileNotFoundError where newer ends pushed it out meanwhile, and OSError.
    """
    head, name = os.path.split(place.path)
    again = os.path.join(head, f"{place.attempts + 1}.{name.partition('.')[2]}")
    os.rename(place.path, again)
    return place._replace(path=again, attempts=place.attempts + 1)


def take_back(place: Place, ask_at_s: float) -> None:
    """Takes back the count of `begin` where it was no fault of the end's (a full spool)."""
    head, name = os.path.split(place.path)
    os.utime(place.path, (ask_at_s, ask_at_s))
    os.rename(place.path, os.path.join(head, f"{place.attempts - 1}.{name.partition('.')[2]}"))


def put_aside(spool: str, place: Place, reason: str) -> None:
    """Moves an end that cannot be used to `ASIDE`, with the reason beside it."""
    aside = os.path.join(folder(spool), ASIDE)
    os.makedirs(aside, mode=0o700, exist_ok=True)
    target = os.path.join(aside, os.path.basename(place.path))
    with open(target + ".reason", "w", encoding="utf-8") as file:
        file.write(reason + "\n")
    os.rename(place.path, target)


def put_aside_count(spool: str) -> int:
    """How many were put aside. Raises OSError."""
    try:
        return len(os.listdir(os.path.join(folder(spool), ASIDE))) // 2
    except FileNotFoundError:
        return 0


def count_lost(spool: str, number: int) -> None:
    """Notes that ``number`` ends went without an answer, until a record has told. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(os.path.join(folder(spool), _LOST), flags, 0o600)
    try:
        os.write(handle, b"x" * number)
    finally:
        os.close(handle)


def lost(spool: str) -> int:
    """How many ends went without an answer since a record last told."""
    try:
        return os.lstat(os.path.join(folder(spool), _LOST)).st_size
    except FileNotFoundError:
        return 0


def forget_lost(spool: str) -> None:
    """A record has told of them."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder(spool), _LOST))


def _check(path: str) -> None:
    info = os.lstat(path)
    if not stat.S_ISDIR(info.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is not a folder, or a link to one", path)
    if info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise PermissionError(
            errno.EPERM, "others own it or may write to it: chown root and chmod 700 it", path
        )


# Those that wait longest have been asked for most.
def _make_room(settings: Settings) -> int:
    places = waiting(settings.spool)
    size = sum(place.bytes for place in places)
    doomed: List[Place] = []
    for place in places:
        if len(places) - len(doomed) <= settings.pending_max and size <= ALL_BYTES_MAX:
            break
        doomed.append(place)
        size -= place.bytes
    if doomed:
        # Counted first: what is killed here is counted twice rather than never.
        count_lost(settings.spool, len(doomed))
    for place in doomed:
        os.unlink(place.path)
    return len(doomed)


def _encoded(pending: Pending) -> bytes:
    entry, moment = pending.entry, pending.moment
    document = {
        "schema": SCHEMA,
        "environment": {
            k.decode("latin-1"): v.decode("latin-1") for k, v in entry.environment.items()
        },
        "ended_at_s": entry.ended_at_s,
        "unique": entry.unique,
        "kept_at_s": pending.kept_at_s,
        "boot_id": moment.boot_id,
        "clock": moment.clock._asdict(),
        "kernel": [_file(file) for file in moment.kernel],
        "kernel_rows": [row._asdict() for row in moment.kernel_rows],
        "counters": [_file(file) for file in moment.counters],
        "counter_rows": [row._asdict() for row in moment.counter_rows],
        "alarmed": moment.alarmed,
    }
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def _decoded(document: Dict[str, Any]) -> Pending:
    if document["schema"] != SCHEMA:
        raise PendingError(f"its schema is {str(document['schema'])[:80]!r}")
    environment = {
        k.encode("latin-1"): v.encode("latin-1") for k, v in document["environment"].items()
    }
    entry = Entry(environment, float(document["ended_at_s"]), str(document["unique"]))
    moment = Moment(
        boot_id=document["boot_id"],
        clock=Clock(**document["clock"]),
        kernel=tuple(_file_of(each) for each in document["kernel"]),
        kernel_rows=tuple(Coverage(**each) for each in document["kernel_rows"]),
        counters=tuple(_file_of(each) for each in document["counters"]),
        counter_rows=tuple(Coverage(**each) for each in document["counter_rows"]),
        alarmed=document["alarmed"] is True,
    )
    return Pending(entry, moment, float(document["kept_at_s"]))


def _file(file: File) -> Dict[str, Any]:
    excerpts = [
        [each.offset, each.line, base64.b64encode(each.data).decode("ascii"), list(each.cut)]
        for each in file.excerpts
    ]
    return {**file._asdict(), "excerpts": excerpts}


def _file_of(document: Dict[str, Any]) -> File:
    excerpts = tuple(
        Excerpt(offset, line, base64.b64decode(data), (cut[0], cut[1]))
        for offset, line, data, cut in document["excerpts"]
    )
    return File(**{**document, "excerpts": excerpts})
