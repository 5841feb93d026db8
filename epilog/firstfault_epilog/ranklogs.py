"""The folders in which the TaskProlog gives each rank log files, and their removal.

``RANK_LOG_DIR/JOB.NODE/START.STEP/`` belongs to the job's owner: START counts requeues, and
torchrun makes its run folders below. What is in there is looked at and removed by children with
the owner's uid only, and never while the job has a step on this node.
"""

import os
import re
import shutil
import stat
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from firstfault_epilog import confined, patterns
from firstfault_epilog.settings import Settings

# In the queue: a file for each folder whose job's record was written, which names that record.
KEPT = "kept"
FOLDERS_MAX = 10000
FILES_MAX = 100000
SURVEY_DEADLINE_S = 5.0
REMOVAL_DEADLINE_S = 20.0
_FOLDER = re.compile(r"([0-9]{1,20})\.[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}\Z")
_START = re.compile(r"([0-9]{1,6})\.[a-z0-9]{1,20}\Z")
# The owner's uid is what counts; a child may have no group that root has.
_NO_GROUP = 65534
# slurmstepd's title: "slurmstepd: [12.0]" (src/slurmd/slurmstepd/slurmstepd.c, setproctitle).
_TITLE = re.compile(rb"slurmstepd[^\0\[]{0,60}\[(?:StepId=|JobId=)?([0-9]{1,20})")

Send = Callable[[Dict[str, Any]], None]


class Folder(NamedTuple):
    """``JOB.NODE``; times in seconds since 1970, ``bytes`` as the disk counts them."""

    name: str
    uid: int
    bytes: int
    changed_at_s: float


def places(folder: str, jobs: Tuple[str, ...], node: str) -> Tuple[patterns.Path, ...]:
    """Where the run folders of the ``jobs`` (a heterogeneous one has two numbers) may be."""
    parts: List[patterns.Part] = [name for name in folder.split("/") if name]
    runs: List[patterns.Part] = [_START, re.compile(r"[^.].*_.*\Z", re.DOTALL)]
    return tuple(patterns.Path([*parts, f"{job}.{node}", *runs]) for job in jobs)


def dumps(folder: str, jobs: Tuple[str, ...], node: str) -> Tuple[patterns.Path, ...]:
    """Where the TaskProlog lets torch's flight recorder write: a file for each rank."""
    parts: List[patterns.Part] = [name for name in folder.split("/") if name]
    names: List[patterns.Part] = [_START, re.compile(r"nccl_trace_rank_[0-9]{1,7}\Z")]
    return tuple(patterns.Path([*parts, f"{job}.{node}", *names]) for job in jobs)


def start_of(run_folder: str) -> int:
    """How often the job had been requeued when the folder was made."""
    match = _START.match(os.path.basename(os.path.dirname(run_folder)))
    return int(match.group(1)) if match else 0


def note(settings: Settings, jobs: Tuple[str, ...], node: str, record: str) -> None:
    """Remembers that the record in the file ``record`` tells of these jobs' folders here.

    Raises OSError.
    """
    if settings.rank_log_dir is None:
        return
    spool = os.stat(settings.spool)
    kept = os.path.join(settings.queue, KEPT)
    for job in jobs:
        name = f"{job}.{node}"
        if not _FOLDER.match(name) or not os.path.lexists(f"{settings.rank_log_dir}/{name}"):
            continue
        os.makedirs(kept, mode=0o700, exist_ok=True)
        aside = os.path.join(kept, "." + name)
        with open(aside, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{spool.st_dev}:{spool.st_ino}\n{record}\n")
        os.rename(aside, os.path.join(kept, name))


def hold(settings: Settings, jobs: Tuple[str, ...], node: str) -> None:
    """These jobs' folders are still to be read, whatever the record of an earlier end has told."""
    for job in jobs:
        path = os.path.join(settings.queue, KEPT, f"{job}.{node}")
        if _FOLDER.match(os.path.basename(path)) and os.path.lexists(path):
            os.unlink(path)


def forget(settings: Settings, records: Set[str]) -> None:
    """Forgets these records, which left the spool but not for the daemon: the folders of which they
    tell are evidence that is left. Raises OSError.
    """
    kept = os.path.join(settings.queue, KEPT)
    if not os.path.isdir(kept):
        return
    for name in os.listdir(kept):
        path = os.path.join(kept, name)
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            told = file.read(4096).splitlines()[1:2]
        if told and told[0] in records:
            os.unlink(path)


def sweep(settings: Settings) -> List[str]:
    """Removes what is no longer needed; what could not be removed, a sentence each.

    A folder goes when the daemon has taken the record from the spool, when it is older than
    ``rank_log_days``, and, the oldest first, while all together take more than ``rank_log_mb``.
    """
    if settings.rank_log_dir is None:
        return []
    base = settings.rank_log_dir
    owners, fault = _owners(base)
    faults = [fault] if fault else []
    _forget(settings, owners)
    if not owners:
        return faults
    running = _running()
    ended = {name: uid for name, uid in owners.items() if name.partition(".")[0] not in running}
    doomed = {name for name in ended if _is_taken(settings, name)}
    left: List[Folder] = []
    for uid in sorted(set(ended.values())):
        names = [name for name, owner in ended.items() if owner == uid and name not in doomed]
        if names:
            left.extend(_measured(base, uid, names))
    doomed |= surplus(left, time.time(), settings.rank_log_days, settings.rank_log_mb)
    for uid in sorted({ended[name] for name in doomed}):
        faults += _remove(base, uid, sorted(name for name in doomed if ended[name] == uid))
    _forget(settings, {name: uid for name, uid in owners.items() if name not in doomed})
    return faults


def surplus(folders: List[Folder], now_s: float, days: float, mib: float) -> Set[str]:
    """The names of those that are too old, and of the oldest that are too much."""
    old = {folder.name for folder in folders if folder.changed_at_s < now_s - days * 86400}
    left = sorted(
        (folder for folder in folders if folder.name not in old),
        key=lambda folder: (folder.changed_at_s, folder.name),
    )
    size = sum(folder.bytes for folder in left)
    for folder in left:
        if size <= mib * (1 << 20):
            break
        old.add(folder.name)
        size -= folder.bytes
    return old


# The job folders of ordinary users. In a child: a user may have mounted something there that
# never answers.
def _owners(base: str) -> Tuple[Dict[str, int], Optional[str]]:
    def look(send: Send) -> None:
        info = os.lstat(base)
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != 0 or not info.st_mode & stat.S_ISVTX:
            raise PermissionError(f"{base} is not a folder of root's with the sticky bit")
        with os.scandir(base) as listing:
            for index, item in enumerate(listing):
                if index >= FOLDERS_MAX:
                    break
                if not _FOLDER.match(item.name):
                    continue
                found = item.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode) and found.st_uid != 0:
                    send({"name": item.name, "uid": found.st_uid})

    if not os.path.lexists(base):
        return {}, None
    answer = confined.run(look, None, SURVEY_DEADLINE_S)
    owners = {frame["name"]: frame["uid"] for frame in answer.frames}
    return owners, None if answer.fault is None else f"rank logs in {base}: {answer.fault}"


# Jobs with a step on this node: their folders are in use, whatever an earlier start left behind.
def _running() -> Set[str]:
    jobs = set()
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                match = _TITLE.match(file.read(256))
        except OSError:
            continue
        if match:
            jobs.add(match.group(1).decode("ascii"))
    return jobs


# The daemon takes a record away when it has stored it. A spool that is not the one into which
# it was written (not mounted just now) says nothing.
def _is_taken(settings: Settings, name: str) -> bool:
    try:
        with open(os.path.join(settings.queue, KEPT, name), encoding="utf-8") as file:
            place, record = file.read(4096).splitlines()[:2]
        spool = os.stat(settings.spool)
    except (OSError, ValueError):
        return False
    if place != f"{spool.st_dev}:{spool.st_ino}":
        return False
    return not os.path.lexists(os.path.join(settings.spool, record))


# Notes of folders that are gone.
def _forget(settings: Settings, owners: Dict[str, int]) -> None:
    kept = os.path.join(settings.queue, KEPT)
    try:
        names = os.listdir(kept)
    except FileNotFoundError:
        return
    for name in names:
        if name not in owners:
            os.unlink(os.path.join(kept, name))


def _measured(base: str, uid: int, names: List[str]) -> List[Folder]:
    def measure(send: Send) -> None:
        for name in names:
            size = 0
            changed_at_s = 0.0
            for count, info in enumerate(_inside(os.path.join(base, name))):
                if count >= FILES_MAX:
                    break
                size += info.st_blocks * 512
                changed_at_s = max(changed_at_s, info.st_mtime)
            send({"name": name, "bytes": size, "changed": changed_at_s})

    answer = confined.run(measure, _owner(uid), SURVEY_DEADLINE_S)
    return [
        Folder(str(frame["name"]), uid, int(frame["bytes"]), float(frame["changed"]))
        for frame in answer.frames
        if frame.get("name") in names
    ]


def _inside(top: str) -> Iterator[os.stat_result]:
    yield os.lstat(top)
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            try:
                yield os.lstat(os.path.join(folder, name))
            except OSError:
                continue


# With the owner's rights: whatever the owner has put there, nothing else can be removed by it.
def _remove(base: str, uid: int, names: List[str]) -> List[str]:
    def remove(send: Send) -> None:
        for name in names:
            path = os.path.join(base, name)
            # A folder that its owner closed is no reason to keep it.
            os.chmod(path, 0o700)
            shutil.rmtree(path, ignore_errors=True)
            send({"name": name, "gone": not os.path.lexists(path)})

    answer = confined.run(remove, _owner(uid), REMOVAL_DEADLINE_S)
    gone = {frame.get("name") for frame in answer.frames if frame.get("gone") is True}
    why = answer.fault or "something in it could not be removed"
    return [f"rank logs in {base}/{name} stay: {why}" for name in names if name not in gone]


def _owner(uid: int) -> Optional[confined.Identity]:
    if os.geteuid() != 0:
        return None
    return confined.Identity(uid, _NO_GROUP, (_NO_GROUP,))
