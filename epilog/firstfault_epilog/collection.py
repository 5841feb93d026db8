"""From one entry of the queue to one evidence record."""

import base64
import binascii
import errno
import os
import time
from typing import Any, Dict, List, Optional, Tuple

from firstfault_epilog import (
    cgroup,
    confined,
    joblogs,
    kernel,
    kernel_evidence,
    mounts,
    oom_table,
    plans,
    privacy,
)
from firstfault_epilog.entries import Entry
from firstfault_epilog.job import Job, job_of
from firstfault_epilog.record import Clock, Coverage, Excerpt, File, Record, identity, instant
from firstfault_epilog.settings import Settings

BOOT_ID = "/proc/sys/kernel/random/boot_id"
TEXT_MAX = 4096
FRAMES_MAX = 20000
_WHATS = ("job-output", "rank-log", "error-json", "flight-recorder")
_STATES = ("full", "partial", "none")


def collect(entry: Entry, settings: Settings, clock: Clock) -> Record:
    """Everything this node knows of the end in ``entry``. What cannot be had is in coverage."""
    job = job_of(entry)
    boot_id = settings.boot_id or _boot_id()
    unread = privacy.facts_only(entry, settings)
    if unread is None:
        files, coverage, notes = _evidence(entry, job, settings, clock)
        environment = entry.environment
    else:
        rows = ("kernel", settings.kernel_log), ("job-output", None), ("rank-log", None)
        coverage = [Coverage(what, path, "none", *unread) for what, path in rows]
        files, notes = [], [f"facts only: {unread.detail}"]
        environment = privacy.facts(entry.environment)
    if job.started_at_s is None:
        notes.append("Slurm did not tell the node when the job started")
    record = Record(
        id=identity(job.cluster, job.id, job.node, boot_id or "", entry.unique),
        cluster=job.cluster,
        job=job.id,
        node=job.node,
        boot_id=boot_id,
        ended_at_s=job.ended_at_s,
        collected_at_s=time.time(),
        environment=environment,
        clock=clock,
        files=tuple(files),
        coverage=tuple(coverage),
        notes=tuple(notes),
    )
    return privacy.without_secrets(record) if settings.mask_secrets else record


def _evidence(
    entry: Entry, job: Job, settings: Settings, clock: Clock
) -> Tuple[List[File], List[Coverage], List[str]]:
    started = job.started_at_s
    if started is None:
        started = job.ended_at_s - settings.max_job_age_s
    kernel_file, coverage = _kernel(settings, clock, started, job)
    try:
        files, more, notes = _job_files(entry, job, settings, started)
    except OSError as error:
        # No process could be made: what the kernel said is worth a record by itself.
        reason = errno.errorcode.get(error.errno or 0, "EIO")
        detail = f"the reader could not be started: {os.strerror(error.errno or errno.EIO)}"
        files, more, notes = [], [_nothing(reason, detail)], []
    counters, row = cgroup.read(
        cgroup.Job(job.id, job.uid, job.node, entry.value("SLURM_JOB_SLUID"))
    )
    return kernel_file + counters + files, [*coverage, row, *more], notes


def _boot_id() -> Optional[str]:
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read(64).strip()
    except (OSError, ValueError):
        return None


def _kernel(
    settings: Settings, clock: Clock, started_at_s: float, job: Job
) -> Tuple[List[File], List[Coverage]]:
    log = kernel.read(settings.kernel_log)
    coverage = list(log.coverage)
    if not log.lines:
        return [], coverage
    offset = clock.kernel_offset_s
    lines = kernel_evidence.in_window(log.lines, offset, started_at_s, job.ended_at_s)
    selection = kernel_evidence.select(oom_table.reduced(lines, job.uid))
    if offset is None:
        coverage[0] = Coverage(
            "kernel", log.name, "partial", "clock", "its clock is not known: nothing is left out"
        )
    elif settings.kernel_log == kernel.DEVICE:
        coverage[0] = overwritten(log, offset, started_at_s) or coverage[0]
        if job.started_at_s is not None:
            coverage.extend(rebooted(log, offset, job.started_at_s))
    if selection.dropped:
        detail = f"{selection.dropped} lines that tell of faults had no room"
        coverage.append(Coverage("kernel", log.name, "partial", "size", detail))
    whole = sum(len(excerpt.data) for excerpt in selection.excerpts) == log.size
    file = File(log.name, "kernel", log.size, None, None, whole, selection.excerpts, False)
    return [file], coverage


def overwritten(log: kernel.Log, offset_s: float, started_at_s: float) -> Optional[Coverage]:
    """That the log begins too late, None where it does not.

    ``offset_s`` is wall clock minus kernel clock. Only an overwritten beginning hides records:
    before the boot's first one there was nothing.
    """
    first = log.lines[0]
    begins_at_s = first.microseconds / 1e6 + offset_s
    if first.sequence == 0 or begins_at_s <= started_at_s:
        return None
    detail = "older records were overwritten: it begins after the earliest time looked at"
    since = instant(begins_at_s)
    return Coverage("kernel", log.name, "partial", "overwritten", detail, since)


def rebooted(log: kernel.Log, offset_s: float, started_at_s: float) -> List[Coverage]:
    """That the node was booted after the job had started: its log of before is another's.

    ``offset_s`` is wall clock minus kernel clock: when the kernel's clock began.
    """
    if offset_s <= started_at_s + kernel_evidence.BEFORE_S:
        return []
    at = instant(offset_s)
    detail = f"the node was booted at {at}, after the job had started: what its kernel said before is not in this log"
    return [Coverage("kernel", log.name, "partial", "rebooted", detail, at)]


def _job_files(
    entry: Entry, job: Job, settings: Settings, started_at_s: float
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
    plan = plans.plan_of(entry, job, settings, uid, home, started_at_s)
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
