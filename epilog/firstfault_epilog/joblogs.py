"""The job's own files: its output and torchrun's per-rank logs. Runs with the owner's rights.

Everything here is called in the child of `confined.run`; what it finds it sends as frames:
``file``, the ``excerpt`` frames of that file, ``coverage``, ``note``.
"""

import base64
import errno
import os
import re
import stat
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from firstfault_epilog import excerpts, ranklogs
from firstfault_epilog.anchors import Anchors
from firstfault_epilog.patterns import Path

Send = Callable[[Dict[str, Any]], None]

BUDGET = 640 << 10
FILE_BUDGET = 96 << 10
FILES_MAX = 128
LISTED_MAX = 20000
MENTIONS_MAX = 1000
# Clocks of file servers and nodes differ by a little.
SLACK_S = 5.0
# What is written later is another job's: the output is closed before the Epilog starts.
OUTPUT_AFTER_S = 60.0
# Where Slurm does not tell the start (22.05): as old as a rank's last write may be when nothing
# else ties a run folder to the job.
RECENT_S = 3600.0
RANK_FILES = (("error.json", "error-json"), ("stderr.log", "rank-log"), ("stdout.log", "rank-log"))
# torchelastic prints `error_file: PATH` and `(PATH/error.json)`.
_MENTION = re.compile(rb"(/[^\s:()<>\"']{1,400})/attempt_[0-9]{1,6}/[0-9]{1,6}/error\.json")


class Plan(NamedTuple):
    """What to look for. Times are seconds since 1970.

    ``start_known`` is False where ``started_at_s`` is only the earliest time looked at.
    ``outputs`` are (what it is called, where it may be), in order; of the places of one output
    the first that exists is taken. ``rank_logs`` are (glob, whether the node's name is part of it);
    globs match files and folders of ``uid`` only. ``given_logs`` are the places that the TaskProlog
    gave this job's ranks on this node; of starts later than ``restarts`` (None: not known) they
    are another incarnation's.
    """

    job: str
    uid: int
    started_at_s: float
    start_known: bool
    ended_at_s: float
    outputs: Tuple[Tuple[str, Tuple[Path, ...]], ...]
    rank_logs: Tuple[Tuple[Path, bool], ...]
    anchors: Anchors
    seconds: float
    given_logs: Tuple[Path, ...] = ()
    restarts: Optional[int] = None


# ``of_node``: its place says that it is this node's, whatever file system it lies on.
class _Wanted(NamedTuple):
    path: str
    what: str
    of_node: bool


# One pass over a job's files: what is left of the budget, and what was seen on the way.
class _Pass:
    def __init__(self, plan: Plan, send: Send) -> None:
        self.plan = plan
        self.send = send
        self.stop_at = time.monotonic() + plan.seconds
        self.left = BUDGET
        self.taken: Set[Tuple[int, int]] = set()
        self.mentions: List[str] = []

    def share(self, files: int) -> int:
        return max(4 << 10, min(FILE_BUDGET, self.left // max(1, files)))


def read_all(plan: Plan, send: Send) -> None:
    """Reads what ``plan`` names and sends it. A file that cannot be read is sent as coverage."""
    reading = _Pass(plan, send)
    for name, places in plan.outputs:
        _read_output(reading, name, places)
    wanted = [file for run in _runs(plan, reading.mentions, send) for file in run.files]
    if not wanted:
        detail = "no run folder of this job's torchrun was found"
        send(_coverage("rank-log", None, "none", "absent", detail))
    for index, file in enumerate(wanted):
        if index >= FILES_MAX or time.monotonic() > reading.stop_at:
            detail = f"{len(wanted) - index} files were not read"
            send(_coverage("rank-log", None, "partial", "limit", detail))
            return
        _take(reading, file, reading.share(min(len(wanted), FILES_MAX) - index))


def _read_output(reading: _Pass, name: str, places: Tuple[Path, ...]) -> None:
    send = reading.send
    for place in places:
        candidates = list(_existing(place, send))
        if not place.exact:
            candidates = [path for path in candidates if _is_of_job(path, reading.plan)]
        if not candidates:
            continue
        newest = max(candidates, key=lambda path: (_modified(path), path))
        if len(candidates) > 1:
            detail = f"{len(candidates)} files may be the job's {name}: the newest is taken"
            send(_coverage("job-output", newest, "partial", "ambiguous", detail))
        _take(reading, _Wanted(newest, "job-output", False), FILE_BUDGET)
        return
    shown = "/" + "/".join(
        part if isinstance(part, str) else "*" for part in (places[0].parts if places else [])
    )
    send(_coverage("job-output", shown, "none", "ENOENT", f"the job's {name} is not there"))


# Opens nothing but regular files, whatever a name turns out to be, and never waits in open().
def _take(reading: _Pass, wanted: _Wanted, share: int) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    path, what, _ = wanted
    try:
        handle = os.open(path, flags)
    except OSError as error:
        reading.send(_refused(what, path, error))
        return
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            detail = "it is not a regular file"
            reading.send(_coverage(what, path, "none", "not-regular", detail))
            return
        identity = (info.st_dev, info.st_ino)
        if identity in reading.taken:
            return
        reading.taken.add(identity)
        # One endless log must not leave the others unread.
        now = time.monotonic()
        stop_at = now + (reading.stop_at - now) / 2
        cut = excerpts.cut(handle, info.st_size, share, reading.plan.anchors, stop_at)
        _send_file(reading, wanted, info, cut)
    except OSError as error:
        reading.send(_refused(what, path, error))
    finally:
        os.close(handle)


def _send_file(reading: _Pass, wanted: _Wanted, info: os.stat_result, cut: excerpts.Cut) -> None:
    send = reading.send
    path, what, of_node = wanted
    send(
        {
            "kind": "file",
            "name": _shown(path),
            "what": what,
            "size": info.st_size,
            "modified": info.st_mtime,
            "inode": f"{info.st_dev}:{info.st_ino}",
            "device": info.st_dev,
            "of_node": of_node,
            "complete": cut.complete,
        }
    )
    for excerpt in cut.excerpts:
        data = base64.b64encode(excerpt.data).decode("ascii")
        place = {"offset": excerpt.offset, "line": excerpt.line, "cut": list(excerpt.cut)}
        send({"kind": "excerpt", "data": data, **place})
        reading.left -= len(excerpt.data)
        for match in _MENTION.finditer(excerpt.data):
            folder = os.fsdecode(match.group(1))
            if len(reading.mentions) < MENTIONS_MAX and folder not in reading.mentions:
                reading.mentions.append(folder)
    # Complete or not, the whole file was looked through unless the note says otherwise.
    state, reason = ("partial", "limit") if cut.note else ("full", None)
    send(_coverage(what, path, state, reason, cut.note))


# One agent's run folder: its ranks' files, and when the last of them changed.
class _Run(NamedTuple):
    folder: str
    files: Tuple[_Wanted, ...]
    changed_at_s: float


# The runs of this job's agents on this node, the one that changed last first.
def _runs(plan: Plan, mentions: List[str], send: Send) -> List[_Run]:
    found = [
        _run(path, of_node, send)
        for pattern, of_node in plan.rank_logs
        for path in _existing(pattern, send)
        if _is_own_folder(path, plan)
    ]
    given = _given_runs(plan, send)
    exact = given + [
        run for run in found if os.path.basename(run.folder).startswith(plan.job + "_")
    ]
    since = plan.started_at_s - SLACK_S
    guessed = not exact and not plan.start_known
    if guessed:
        since = max(since, plan.ended_at_s - RECENT_S)
    chosen = [run for run in exact or found if run.changed_at_s >= since]
    if chosen and guessed:
        detail = "the node is not told when the job started: runs of the last hour are taken"
        send(_coverage("rank-log", None, "partial", "ambiguous", detail))
    if not chosen and not any(of_node for _, of_node in plan.rank_logs):
        # All nodes' agents speak in the job's output. A run that it mentions and that is here is
        # this node's, unless the file system is a network's, which its files then say. Where the
        # configuration tells nodes' runs apart, one that stands elsewhere is another node's.
        named = [_run(path, False, send) for path in mentions if _is_own_folder(path, plan)]
        chosen = [run for run in named if run.changed_at_s >= plan.started_at_s - SLACK_S]
    return sorted(chosen, key=lambda run: (-run.changed_at_s, run.folder))


# The runs of this start of the job in the folders that the TaskProlog made. Nobody else can have
# put them there: each folder on the way is the owner's, below a sticky one of root's.
def _given_runs(plan: Plan, send: Send) -> List[_Run]:
    folders = [
        path
        for place in plan.given_logs
        for path in _existing(place, send)
        if all(
            _is_own_folder(folder, plan)
            for folder in (path, os.path.dirname(path), os.path.dirname(os.path.dirname(path)))
        )
    ]
    starts = {path: ranklogs.start_of(path) for path in folders}
    known = (n for n in starts.values() if plan.restarts is None or n <= plan.restarts)
    last = max(known, default=-1)
    return [_run(path, True, send) for path in folders if starts[path] == last]


def _run(folder: str, of_node: bool, send: Send) -> _Run:
    files = tuple(_Wanted(path, what, of_node) for path, what in _rank_files(folder, send))
    changed_at_s = max(_modified(path) for path in (folder, *(file.path for file in files)))
    return _Run(folder, files, changed_at_s)


def _rank_files(folder: str, send: Send) -> List[Tuple[str, str]]:
    result = []
    try:
        numbers = [int(n[8:]) for n in _names(folder) if re.match(r"attempt_[0-9]{1,6}\Z", n)]
        # The last attempt and the first one tell most.
        ends = (max(numbers), min(numbers)) if numbers else ()
        for number in sorted(numbers, key=lambda number: (number not in ends, -number)):
            attempt = os.path.join(folder, f"attempt_{number}")
            ranks = [name for name in _names(attempt) if re.match(r"[0-9]{1,6}\Z", name)]
            for name, what in RANK_FILES:
                for rank in sorted(ranks, key=int):
                    path = os.path.join(attempt, rank, name)
                    if os.path.lexists(path):
                        result.append((path, what))
    except OSError as error:
        send(_refused("rank-log", folder, error))
    return result


def _existing(place: Path, send: Send) -> Iterator[str]:
    found = ["/"]
    for part in place.parts:
        following: List[str] = []
        for folder in found:
            if isinstance(part, str):
                following.append(os.path.join(folder, part))
                continue
            try:
                following.extend(
                    os.path.join(folder, name) for name in _names(folder) if part.match(name)
                )
            except OSError as error:
                # A stranger's private folder is no news either.
                if error.errno not in (errno.EACCES, errno.ENOENT, errno.ENOTDIR):
                    send(_refused("rank-log", folder, error))
        found = following[:LISTED_MAX]
    # An exact name is tried even where it is not there: the attempt says why.
    return (path for path in found if os.path.lexists(path))


def _names(folder: str) -> List[str]:
    names = []
    with os.scandir(folder) as listing:
        for item in listing:
            names.append(item.name)
            if len(names) >= LISTED_MAX:
                break
    return sorted(names)


def _is_of_job(path: str, plan: Plan) -> bool:
    try:
        info = os.lstat(path)
    except OSError:
        return False
    first, last = plan.started_at_s - SLACK_S, plan.ended_at_s + OUTPUT_AFTER_S
    return info.st_uid == plan.uid and first <= info.st_mtime <= last


def _is_own_folder(path: str, plan: Plan) -> bool:
    try:
        info = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == plan.uid


def _modified(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _refused(what: str, path: str, error: OSError) -> Dict[str, Any]:
    reason = errno.errorcode.get(error.errno or 0, "EIO")
    detail = (
        "a symbolic link is not followed" if reason == "ELOOP" else os.strerror(error.errno or 5)
    )
    return _coverage(what, path, "none", reason, detail)


def _coverage(
    what: str, path: Optional[str], state: str, reason: Optional[str], detail: Optional[str]
) -> Dict[str, Any]:
    shown = None if path is None else _shown(path)
    return {
        "kind": "coverage",
        "what": what,
        "path": shown,
        "state": state,
        "reason": reason,
        "detail": detail,
    }


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")[:4096]
