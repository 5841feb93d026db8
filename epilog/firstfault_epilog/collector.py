"""The collector at work: it takes the queue's entries and writes their records."""

import os
import sys
import syslog
import time
from typing import Callable, List, Optional

from firstfault_epilog import collection, entries, kernel, ranklogs, record
from firstfault_epilog.job import jobs_of
from firstfault_epilog.record import Clock
from firstfault_epilog.settings import Settings

# EX_TEMPFAIL and EX_SOFTWARE of sysexits.h: the script that starts the collector tells them apart.
NOT_NOW = 75
FAILED = 70


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
                status = max(status, _take_all(settings))
            finally:
                os.close(handle)
            if status or entries.is_empty(settings.queue):
                return status
    except OSError as error:
        warn(f"queue {settings.queue}: {error.strerror} ({error.filename})")
        return NOT_NOW


def _take_all(settings: Settings) -> int:
    clock = None
    statuses = {0}
    for path in entries.claim_all(settings.queue):
        if clock is None:
            clock = kernel.calibrate(settings.kernel_log, settings.kernel_offset_s, time.time())
        statuses.add(_take(path, settings, clock))
    for fault in _tidy(lambda: ranklogs.sweep(settings)) or ():
        warn(fault)
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
        evidence = collection.collect(entry, settings, clock)
        missed = entries.dropped(settings.queue)
        if missed:
            note = (
                f"{missed} earlier ends of jobs were not noted on this node: nobody took the queue"
            )
            warn(note)
            evidence = evidence._replace(notes=(*evidence.notes, note))
        data = record.encode(evidence)
    except Exception as error:  # noqa: BLE001 (the boundary: the reason stands beside the entry)
        reason = f"collecting failed: {type(error).__name__}: {error}"
        warn(f"entry {path}: {reason}: moved to the quarantine")
        entries.quarantine(settings.queue, path, reason)
        return FAILED
    try:
        record.write(settings.spool, record.file_name(evidence), data)
    except OSError as error:
        warn(
            f"spool {settings.spool}: {error.strerror}: the entry is kept for the next run; "
            "make the folder, or room in it"
        )
        entries.keep_for_later(path)
        return NOT_NOW
    name = record.file_name(evidence)
    _tidy(lambda: ranklogs.note(settings, jobs_of(entry), evidence.node, name))
    os.unlink(path)
    entries.forget_troubles(settings.queue)
    return 0


# The boundary at which a failure in tidying up stops: the records are what counts.
def _tidy(work: Callable[[], Optional[List[str]]]) -> Optional[List[str]]:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 (the boundary: the reason is told)
        warn(f"rank logs: {type(error).__name__}: {error}")
        return None


def warn(message: str) -> None:
    """Says it where somebody reads it: detached from the Epilog nobody reads standard error."""
    if os.path.samestat(os.fstat(2), os.stat(os.devnull)):
        syslog.openlog("firstfault-epilog", syslog.LOG_PID, syslog.LOG_DAEMON)
        syslog.syslog(syslog.LOG_WARNING, message)
    else:
        print(f"firstfault-epilog: {message}", file=sys.stderr)
