"""The job's own files: its output and torchrun's per-rank logs. Runs with the owner's rights.

Everything here is called in the child of `confined.run`; what it finds it sends as frames:
``file``, the ``excerpt`` frames of that file, ``coverage``, ``note``.
"""

import base64
import os
import re
import stat
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from firstfault_epilog import excerpts, mounts, ranklogs
from firstfault_epilog.anchors import Anchors
from firstfault_epilog.listing import Send, coverage, existing, names, refused, shown
from firstfault_epilog.patterns import Path

BUDGET = 640 << 10
FILE_BUDGET = 96 << 10
FILES_MAX = 128
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
_RUN = re.compile(rb"(/[^\s:()<>\"']{1,400})/attempt_[0-9]{1,6}/[0-9]{1,6}/error\.json")
# torch prints `Finished writing Flight Recorder debug info to PATH` (2.4: `NCCLPG debug info`).
_DUMP = re.compile(rb"debug info to (/[^\s]{1,400})")
DUMPS_MAX = 64
DUMPS_BUDGET = 128 << 10
DUMP_WHOLE = 64 << 10
DUMP_HEAD_MIN = 4 << 10
# Of an output that other nodes read, as much is looked through for what it mentions.
MENTIONING = 256 << 10


class Glob(NamedTuple):
    """Where files may be: ``of_node`` where the node's name is part of it, ``of_job`` where the
    job's number is."""

    place: Path
    of_node: bool
    of_job: bool


class Plan(NamedTuple):
    """What to look for. Times are seconds since 1970.

    ``start_known`` is False where ``started_at_s`` is only the earliest time looked at.
    ``outputs`` are (what it is called, where it may be), in order; of the places of one output
    the first that exists is taken. ``rank_logs`` are (glob, whether the node's name is part of it);
    globs match files and folders of ``uid`` only. ``step_logs`` are files of single tasks or steps,
    ``dumps`` those of torch's flight recorder. Without ``reads_shared`` other nodes read what all
    nodes see (``is_shared`` tells by st_dev). ``given_logs`` are the places that the TaskProlog
    gave this job's ranks on this node; of starts later than ``restarts`` (None: not known) they
    are another incarnation's. ``asked_for`` are paths that the daemon has from Slurm: files of the
    owner's that changed during the job, or nothing.
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
    step_logs: Tuple[Glob, ...] = ()
    dumps: Tuple[Glob, ...] = ()
    reads_shared: bool = True
    is_shared: Callable[[int], Optional[bool]] = mounts.is_shared
    given_logs: Tuple[Path, ...] = ()
    restarts: Optional[int] = None
    asked_for: Tuple[str, ...] = ()


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
        self.dumps: List[str] = []

    def share(self, files: int) -> int:
        return max(4 << 10, min(FILE_BUDGET, self.left // max(1, files)))


def read_all(plan: Plan, send: Send) -> None:
    """Reads what ``plan`` names and sends it. A file that cannot be read is sent as coverage."""
    reading = _Pass(plan, send)
    for name, places in plan.outputs:
        _read_output(reading, name, places)
    _read_asked_for(reading)
    wanted = [file for run in _runs(plan, reading.mentions, send) for file in run.files]
    wanted += [_Wanted(path, "rank-log", g.of_node) for path, g in _found(plan.step_logs, reading)]
    if not wanted:
        detail = "no run folder of this job's torchrun was found"
        send(coverage("rank-log", None, "none", "absent", detail))
    for index, file in enumerate(wanted):
        if index >= FILES_MAX or time.monotonic() > reading.stop_at:
            detail = f"{len(wanted) - index} files were not read"
            send(coverage("rank-log", None, "partial", "limit", detail))
            break
        _take(reading, file, reading.share(min(len(wanted), FILES_MAX) - index))
    _read_dumps(reading)


# The job's own files that globs find, the newest first.
def _found(globs: Tuple[Glob, ...], reading: _Pass) -> List[Tuple[str, Glob]]:
    plan = reading.plan
    recent_s = plan.started_at_s
    if not plan.start_known:
        recent_s = max(recent_s, plan.ended_at_s - RECENT_S)
    found: Dict[str, Glob] = {}
    for glob in globs:
        since = plan.started_at_s if glob.of_job else recent_s
        for path in existing(glob.place, reading.send):
            if _is_of_job(path, plan) and _modified(path) >= since - SLACK_S:
                found.setdefault(path, glob)
    return sorted(found.items(), key=lambda item: (-_modified(item[0]), item[0]))


# What torch's flight recorder wrote: data for a program, whole where it is small, else its head.
def _read_dumps(reading: _Pass) -> None:
    paths = {path: glob.of_node for path, glob in _found(reading.plan.dumps, reading)}
    for path in reading.dumps:
        if _is_of_job(path, reading.plan):
            paths.setdefault(path, False)
    if len(paths) > DUMPS_MAX:
        detail = f"{len(paths) - DUMPS_MAX} files were not read"
        reading.send(coverage("flight-recorder", None, "partial", "limit", detail))
    share = max(DUMP_HEAD_MIN, min(DUMP_WHOLE, DUMPS_BUDGET // max(1, len(paths))))
    for path, of_node in list(paths.items())[:DUMPS_MAX]:
        _take(reading, _Wanted(path, "flight-recorder", of_node), share)


def _read_output(reading: _Pass, name: str, places: Tuple[Path, ...]) -> None:
    send = reading.send
    for place in places:
        candidates = list(existing(place, send))
        if not place.exact:
            candidates = [path for path in candidates if _is_of_job(path, reading.plan)]
        if not candidates:
            continue
        newest = max(candidates, key=lambda path: _nearness(path, reading.plan))
        if len(candidates) > 1:
            detail = (
                f"{len(candidates)} files may be the job's {name}: the newest at its end is taken"
            )
            send(coverage("job-output", newest, "partial", "ambiguous", detail))
        _take(reading, _Wanted(newest, "job-output", False), FILE_BUDGET)
        return
    looked_for = "/" + "/".join(
        part if isinstance(part, str) else "*" for part in (places[0].parts if places else [])
    )
    folder = os.path.dirname(looked_for)
    if "*" not in folder and not _exists(folder):
        detail = f"the folder of the job's {name} is not there"
        send(coverage("job-output", looked_for, "none", "no-folder", detail))
        return
    send(coverage("job-output", looked_for, "none", "ENOENT", f"the job's {name} is not there"))


# The owner could read more than the job wrote: what the daemon names is no more than a hint.
def _read_asked_for(reading: _Pass) -> None:
    paths = reading.plan.asked_for
    for index, path in enumerate(paths):
        if not os.path.lexists(path):
            detail = "this log of the job's, which Slurm names, is not there"
            reading.send(coverage("job-output", path, "none", "ENOENT", detail))
        elif not _is_of_job(path, reading.plan):
            detail = "the daemon asked for it; its owner or time is not the job's"
            reading.send(coverage("job-output", path, "none", "not-of-job", detail))
        else:
            share = reading.share(len(paths) - index)
            _take(reading, _Wanted(path, "job-output", False), share)


# A folder that may not be looked into is no proof that there is none.
def _exists(folder: str) -> bool:
    try:
        os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


# Of several the one that was written last before the end: what grew since is another job's (of an
# array, say).
def _nearness(path: str, plan: Plan) -> Tuple[bool, float, str]:
    modified = _modified(path)
    before = modified <= plan.ended_at_s + SLACK_S
    return (before, modified if before else -modified, path)


# Opens nothing but regular files, whatever a name turns out to be, and never waits in open().
def _take(reading: _Pass, wanted: _Wanted, share: int) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    path, what, _ = wanted
    try:
        handle = os.open(path, flags)
    except OSError as error:
        reading.send(refused(what, path, error))
        return
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            detail = "it is not a regular file"
            reading.send(coverage(what, path, "none", "not-regular", detail))
            return
        identity = (info.st_dev, info.st_ino)
        if identity in reading.taken:
            return
        reading.taken.add(identity)
        if not (reading.plan.reads_shared or wanted.of_node) and reading.plan.is_shared(
            info.st_dev
        ):
            _mention(reading, excerpts.ends(handle, info.st_size, MENTIONING))
            detail = "it lies on a network file system: the job's first nodes read it"
            reading.send(coverage(what, path, "none", "other-node", detail))
            return
        if what == "flight-recorder":
            _send_file(reading, wanted, info, excerpts.head(handle, info.st_size, share))
            return
        # One endless log must not leave the others unread.
        now = time.monotonic()
        stop_at = now + (reading.stop_at - now) / 2
        cut = excerpts.cut(handle, info.st_size, share, reading.plan.anchors, stop_at)
        _send_file(reading, wanted, info, cut)
    except OSError as error:
        reading.send(refused(what, path, error))
    finally:
        os.close(handle)


def _send_file(reading: _Pass, wanted: _Wanted, info: os.stat_result, cut: excerpts.Cut) -> None:
    send = reading.send
    path, what, of_node = wanted
    send(
        {
            "kind": "file",
            "name": shown(path),
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
        if what != "flight-recorder":
            reading.left -= len(excerpt.data)
            _mention(reading, excerpt.data)
    # Complete or not, the whole file was looked through unless the note says otherwise.
    state, reason = ("partial", "limit") if cut.note else ("full", None)
    send(coverage(what, path, state, reason, cut.note))


# Notes which other files a log tells of.
def _mention(reading: _Pass, data: bytes) -> None:
    for expression, known in ((_RUN, reading.mentions), (_DUMP, reading.dumps)):
        for match in expression.finditer(data):
            path = os.fsdecode(match.group(1))
            if len(known) < MENTIONS_MAX and path not in known:
                known.append(path)


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
        for path in existing(pattern, send)
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
        send(coverage("rank-log", None, "partial", "ambiguous", detail))
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
        for path in existing(place, send)
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
        numbers = [int(n[8:]) for n in names(folder) if re.match(r"attempt_[0-9]{1,6}\Z", n)]
        # The last attempt and the first one tell most.
        ends = (max(numbers), min(numbers)) if numbers else ()
        for number in sorted(numbers, key=lambda number: (number not in ends, -number)):
            attempt = os.path.join(folder, f"attempt_{number}")
            ranks = [name for name in names(attempt) if re.match(r"[0-9]{1,6}\Z", name)]
            for name, what in RANK_FILES:
                for rank in sorted(ranks, key=int):
                    path = os.path.join(attempt, rank, name)
                    if os.path.lexists(path):
                        result.append((path, what))
    except OSError as error:
        send(refused("rank-log", folder, error))
    return result


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
