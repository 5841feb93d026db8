"""The collector at work: it takes the queue's entries and writes their records."""

import os
import sys
import syslog
import time
from typing import Callable, List, Optional

from firstfault_epilog import backlog, collection, entries, kernel, ranklogs, record, spool
from firstfault_epilog.job import jobs_of
from firstfault_epilog.record import Clock
from firstfault_epilog.settings import Settings

# EX_TEMPFAIL and EX_SOFTWARE of sysexits.h: the script that starts the collector tells them apart.
NOT_NOW = 75
FAILED = 70
# So long a collector waits for a daemon that is not there; then the next one goes on. The last
# node of a large job waits so long for its turn.
WAIT_S = 120.0
POLL_S = 0.2


def run(settings: Settings) -> int:
    """Takes what waits; 0, `NOT_NOW` or `FAILED`."""
    try:
        entries.prepare(settings.queue)
        status = 0
        while True:
            handle = entries.lock(settings.queue)
            if handle is None:
                # The one that runs looks at the queue once more after it lets the lock go.
                return status
            try:
                status = max(status, _work(settings))
            finally:
                os.close(handle)
            if status or entries.is_empty(settings.queue):
                return status
    except OSError as error:
        warn(f"queue {settings.queue}: {error.strerror} ({error.filename})")
        return NOT_NOW


# What came in is collected before anything is sent, and as soon as it comes while the daemon is
# waited for.
def _work(settings: Settings) -> int:
    status = _take_all(settings)
    stop_at = time.monotonic() + WAIT_S
    while settings.daemon is not None:
        left_s = _send(settings)
        if left_s is None or time.monotonic() + left_s > stop_at:
            break
        _wait(settings.queue, left_s)
        if not entries.is_empty(settings.queue):
            status = max(status, _take_all(settings))
    for fault in _tidy("rank logs", lambda: ranklogs.sweep(settings)) or ():
        warn(fault)
    return status


# The boundary at which a failure in sending stops: the records stay where they are.
def _send(settings: Settings) -> Optional[float]:
    # http.client and ssl are not loaded where nothing is sent.
    from firstfault_epilog import push

    try:
        return push.send(settings, warn)
    except Exception as error:  # noqa: BLE001 (the boundary: the reason is told)
        warn(f"sending: {type(error).__name__}: {error}")
        return None


def _wait(queue: str, seconds: float) -> None:
    stop_at = time.monotonic() + seconds
    while entries.is_empty(queue) and time.monotonic() < stop_at:
        time.sleep(min(POLL_S, seconds))


def _take_all(settings: Settings) -> int:
    clock = None
    statuses = {0}
    for path in entries.claim_all(settings.queue):
        if clock is None:
            clock = kernel.calibrate(settings.kernel_log, settings.kernel_offset_s, time.time())
        statuses.add(_take(path, settings, clock))
    return FAILED if FAILED in statuses else max(statuses)


# The boundary at which one entry's failure stops: the others go on.
def _take(path: str, settings: Settings, clock: Clock) -> int:
    try:
        entry = entries.read(path)
    except (entries.EntryError, OSError) as error:
        warn(f"entry {path}: {error}: moved to the quarantine")
        entries.quarantine(settings.queue, path, str(error))
        return 0
    try:
        moment = collection.look(entry, settings, clock)
        evidence = collection.collect(entry, settings, moment)
        missed = entries.dropped(settings.queue)
        if missed:
            note = (
                f"{missed} earlier ends of jobs were not noted on this node: nobody took the queue"
            )
            warn(note)
            evidence = evidence._replace(notes=(*evidence.notes, note))
        lost = None if settings.daemon is None else backlog.note(settings.queue)
        if lost is not None:
            evidence = evidence._replace(notes=(*evidence.notes, lost))
        data = record.encode(evidence)
    except Exception as error:  # noqa: BLE001 (the boundary: the reason stands beside the entry)
        reason = f"collecting failed: {type(error).__name__}: {error}"
        warn(f"entry {path}: {reason}: moved to the quarantine")
        entries.quarantine(settings.queue, path, reason)
        return FAILED
    try:
        if settings.daemon is not None:
            spool.prepare(settings.spool)
        record.write(settings.spool, record.file_name(evidence), data)
    except OSError as error:
        warn(
            f"spool {settings.spool}: {error.strerror}: the entry is kept for the next run; "
            "make the folder, or room in it"
        )
        entries.keep_for_later(path)
        return NOT_NOW
    name = record.file_name(evidence)
    _tidy("rank logs", lambda: ranklogs.note(settings, jobs_of(entry), evidence.node, name))
    if settings.daemon is not None:
        nodes = entry.value("SLURM_JOB_NODELIST") or entry.value("SLURM_NODELIST")
        _tidy("backlog", lambda: backlog.accept(settings, name, nodes, evidence.node, warn))
    os.unlink(path)
    entries.forget_troubles(settings.queue)
    return 0


# The boundary at which a failure in tidying up stops: the records are what counts.
def _tidy(what: str, work: Callable[[], Optional[List[str]]]) -> Optional[List[str]]:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 (the boundary: the reason is told)
        warn(f"{what}: {type(error).__name__}: {error}")
        return None


def warn(message: str) -> None:
    """Says it where somebody reads it: detached from the Epilog nobody reads standard error."""
    if os.path.samestat(os.fstat(2), os.stat(os.devnull)):
        syslog.openlog("firstfault-epilog", syslog.LOG_PID, syslog.LOG_DAEMON)
        syslog.syslog(syslog.LOG_WARNING, message)
    else:
        print(f"firstfault-epilog: {message}", file=sys.stderr)
