"""From one entry of the queue to one evidence record."""

import base64
import binascii
import errno
import os
import time
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from firstfault_epilog import confined, joblogs, mounts, plans, privacy
from firstfault_epilog import moment as moments
from firstfault_epilog.entries import Entry
from firstfault_epilog.job import Job, job_of
from firstfault_epilog.moment import Moment
from firstfault_epilog.record import Clock, Coverage, Excerpt, File, Record, identity
from firstfault_epilog.settings import Settings

TEXT_MAX = 4096
FRAMES_MAX = 20000
# Reasons of coverage that tell of no trouble.
_NOTHING = (
    ("cgroup", "ENOENT"),
    ("cgroup", "absent"),
    ("job-output", "ENOENT"),
    ("job-output", "no-folder"),
    ("rank-log", "absent"),
)
_WHATS = ("job-output", "rank-log", "error-json", "flight-recorder")
_STATES = ("full", "partial", "none")


class Asked(NamedTuple):
    """What the daemon asked of the node on one end.

    ``paths`` are logs that only Slurm knows of; ``reads_shared``: read what all nodes see, though
    it is other nodes' part.
    """

    paths: Tuple[str, ...] = ()
    reads_shared: bool = False


_UNASKED = Asked()


def look(entry: Entry, settings: Settings, clock: Clock) -> Moment:
    """What can only be known now of the end in ``entry``; no log is opened of a job that gives
    facts alone."""
    unread = privacy.facts_only(entry, settings)
    if unread is None:
        return moments.read(entry, job_of(entry), settings, clock)
    row = Coverage("kernel", settings.kernel_log, "none", *unread)
    return Moment(moments.boot_id(settings), clock, kernel_rows=(row,))


def record_id(entry: Entry, moment: Moment) -> str:
    """The id of the record that tells of the end in ``entry``."""
    job = job_of(entry)
    return identity(job.cluster, job.id, job.node, moment.boot_id or "", entry.unique)


def collect(entry: Entry, settings: Settings, moment: Moment, asked: Asked = _UNASKED) -> Record:
    """Everything this node knows of the end in ``entry``. What cannot be had is in coverage."""
    job = job_of(entry)
    unread = privacy.facts_only(entry, settings)
    environment = entry.environment
    if unread is None:
        files, coverage, notes = _evidence(entry, job, settings, moment, asked)
    else:
        rows = [Coverage(what, None, "none", *unread) for what in ("job-output", "rank-log")]
        files, coverage, notes = [], [*moment.kernel_rows, *rows], [f"facts only: {unread.detail}"]
        environment = privacy.facts(entry.environment)
    if job.started_at_s is None:
        notes.append("Slurm did not tell the node when the job started")
    record = Record(
        id=record_id(entry, moment),
        cluster=job.cluster,
        job=job.id,
        node=job.node,
        boot_id=moment.boot_id,
        ended_at_s=job.ended_at_s,
        collected_at_s=time.time(),
        environment=environment,
        clock=moment.clock,
        files=tuple(files),
        coverage=tuple(coverage),
        notes=tuple(notes),
        clean=saw_nothing(files, coverage),
    )
    return privacy.without_secrets(record) if settings.mask_secrets else record


def saw_nothing(files: Sequence[File], coverage: Sequence[Coverage]) -> bool:
    """Whether a node has nothing to tell: all was looked at, and there was nothing.

    Also where an output is another node's to read. What could not be read is something to tell;
    a rank's log is, too, for its head and tail say how far the rank came.
    """
    return not any(file.excerpts for file in files) and all(
        row.state == "full" or (row.what, row.reason) in _NOTHING or row.reason == "other-node"
        for row in coverage
    )


def _evidence(
    entry: Entry, job: Job, settings: Settings, moment: Moment, asked: Asked
) -> Tuple[List[File], List[Coverage], List[str]]:
    try:
        files, rows, notes = _job_files(entry, job, settings, asked)
    except OSError as error:
        # No process could be made: what the kernel said is worth a record by itself.
        reason = errno.errorcode.get(error.errno or 0, "EIO")
        detail = f"the reader could not be started: {os.strerror(error.errno or errno.EIO)}"
        files, rows, notes = [], [_nothing(reason, detail)], []
    return (
        [*moment.kernel, *moment.counters, *files],
        [*moment.kernel_rows, *moment.counter_rows, *rows],
        notes,
    )


def _job_files(
    entry: Entry, job: Job, settings: Settings, asked: Asked
) -> Tuple[List[File], List[Coverage], List[str]]:
    notes: List[str] = []
    who = None
    uid = os.geteuid()
    if uid != 0:
        detail = f"the collector is not root: it reads with the rights of uid {uid}"
        notes.append(detail)
    elif job.uid is None:
        return [], [_nothing("EINVAL", "the entry does not say whose job it was")], notes
    elif job.uid == 0:
        if not settings.allow_root_jobs:
            detail = "root's job: its files are read where FIRSTFAULT_ALLOW_ROOT_JOBS=1 only"
            return [], [_nothing("EPERM", detail)], notes
    else:
        uid = job.uid
        try:
            who, notes_on_groups = confined.identity_of(job.uid, job.gid, job.user)
        except LookupError as error:
            return [], [_nothing("EINVAL", str(error))], notes
        notes.extend(notes_on_groups)
    home = None if who is None else who.home
    since = moments.started_at_s(job, settings)
    plan = plans.plan_of(entry, job, settings, uid, home, since)
    plan = plan._replace(
        asked_for=asked.paths, reads_shared=plan.reads_shared or asked.reads_shared
    )
    answer = confined.run(lambda send: joblogs.read_all(plan, send), who, settings.read_deadline_s)
    files, coverage = files_of(answer.frames)
    if answer.fault is not None:
        coverage.append(Coverage("job-output", None, "partial", "reader", answer.fault))
    return files, coverage, notes


def files_of(frames: Tuple[Dict[str, Any], ...]) -> Tuple[List[File], List[Coverage]]:
    """The files and coverage that the reading child sent; what is malformed is left out."""
    files: List[File] = []
    coverage = []
    damaged = max(0, len(frames) - FRAMES_MAX)
    for frame in frames[:FRAMES_MAX]:
        try:
            kind = frame["kind"]
            if kind == "file":
                files.append(_file(frame))
            elif kind == "excerpt":
                files[-1] = files[-1]._replace(excerpts=(*files[-1].excerpts, _excerpt(frame)))
            elif kind == "coverage":
                coverage.append(_coverage(frame))
            else:
                damaged += 1
        except (KeyError, IndexError, TypeError, ValueError):
            damaged += 1
    if damaged:
        detail = f"{damaged} of the reader's frames were malformed and left out"
        coverage.append(Coverage("job-output", None, "partial", "reader", detail))
    return files, coverage


def _nothing(reason: str, detail: str) -> Coverage:
    return Coverage("job-output", None, "none", reason, detail)


def _file(frame: Dict[str, Any]) -> File:
    if frame["what"] not in _WHATS:
        raise ValueError("not a kind of file")
    device = _count(frame["device"])
    return File(
        name=_text(frame["name"]),
        what=frame["what"],
        size=_count(frame["size"]),
        modified_at_s=min(max(float(frame["modified"]), 0.0), 4e9),
        inode=_text(frame["inode"]),
        complete=frame["complete"] is True,
        excerpts=(),
        shared=False if frame["of_node"] is True else mounts.is_shared(device),
    )


def _excerpt(frame: Dict[str, Any]) -> Excerpt:
    try:
        data = base64.b64decode(_text(frame["data"], 4 << 20), validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
    line = frame["line"]
    before, behind = frame["cut"]
    offset, number = _count(frame["offset"]), None if line is None else _count(line)
    return Excerpt(offset, number, data, (before is True, behind is True))


def _coverage(frame: Dict[str, Any]) -> Coverage:
    if frame["what"] not in _WHATS or frame["state"] not in _STATES:
        raise ValueError("not a kind of coverage")
    path, reason, detail = (
        None if frame[key] is None else _text(frame[key]) for key in ("path", "reason", "detail")
    )
    return Coverage(frame["what"], path, frame["state"], reason, detail)


def _text(value: object, limit: int = TEXT_MAX) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    # Lone surrogates cannot be written as UTF-8.
    return value[:limit].encode("utf-8", "replace").decode("utf-8")


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError("not a count")
    return value
