"""The collector's commands: collect, check, version."""

import argparse
import os
import resource
import sys
import syslog
import time
from typing import Callable, List, Optional

from firstfault_epilog import (
    __version__,
    checks,
    collection,
    entries,
    kernel,
    preview,
    ranklogs,
    record,
)
from firstfault_epilog import settings as node_settings
from firstfault_epilog.job import jobs_of
from firstfault_epilog.record import Clock
from firstfault_epilog.settings import Settings

# EX_TEMPFAIL and EX_SOFTWARE of sysexits.h: the script that starts the collector tells them apart.
NOT_NOW = 75
FAILED = 70


def main(argv: List[str]) -> int:
    """Runs one command; its exit status.

    0: done; 1: ``check`` found a fault; 2: bad usage; `NOT_NOW`: the queue or the spool cannot be
    used, which is told; `FAILED`, or any other: a failure of the collector's own.
    """
    parser = argparse.ArgumentParser(
        prog="firstfault-epilog.pyz",
        description="Collects the evidence of jobs that ended on this node.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    collect = commands.add_parser("collect", help="turn the queue's entries into evidence records")
    check = commands.add_parser("check", help="tell, point by point, whether this node is set up")
    check.add_argument("job", metavar="JOBID", nargs="?", help="what this job's record would hold")
    for command in (collect, check):
        command.add_argument("--config", metavar="FILE", default=node_settings.DEFAULT_PATH)
    commands.add_parser("version", help="print the version")
    arguments = parser.parse_args(argv)
    if arguments.command == "version":
        print(f"firstfault-epilog {__version__}")
        return 0
    if arguments.command == "check":
        if arguments.job is not None:
            return preview.run(arguments.config, arguments.job, sys.stdout)
        return checks.run(arguments.config, sys.stdout)
    if arguments.command == "collect":
        return _collect(arguments.config)
    parser.print_usage(sys.stderr)
    return 2


def _collect(config: str) -> int:
    # No other process may read this one's memory or core: it holds strangers' logs.
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    settings, faults = node_settings.read(config)
    for fault in faults:
        _warn(fault)
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
        _warn(f"queue {settings.queue}: {error.strerror} ({error.filename})")
        return NOT_NOW


def _take_all(settings: Settings) -> int:
    clock = None
    statuses = {0}
    for path in entries.claim_all(settings.queue):
        if clock is None:
            clock = kernel.calibrate(settings.kernel_log, settings.kernel_offset_s, time.time())
        statuses.add(_take(path, settings, clock))
    for fault in _tidy(lambda: ranklogs.sweep(settings)) or ():
        _warn(fault)
    return FAILED if FAILED in statuses else max(statuses)


# The boundary at which one entry's failure stops: the others go on.
def _take(path: str, settings: Settings, clock: Clock) -> int:
    try:
        entry = entries.read(path)
    except (entries.EntryError, OSError) as error:
        _warn(f"entry {path}: {error}: moved to the quarantine")
        entries.quarantine(settings.queue, path, str(error))
        return 0
    try:
        evidence = collection.collect(entry, settings, clock)
        missed = entries.dropped(settings.queue)
        if missed:
            note = (
                f"{missed} earlier ends of jobs were not noted on this node: nobody took the queue"
            )
            _warn(note)
            evidence = evidence._replace(notes=(*evidence.notes, note))
        data = record.encode(evidence)
    except Exception as error:  # noqa: BLE001 (the boundary: the reason stands beside the entry)
        reason = f"collecting failed: {type(error).__name__}: {error}"
        _warn(f"entry {path}: {reason}: moved to the quarantine")
        entries.quarantine(settings.queue, path, reason)
        return FAILED
    try:
        record.write(settings.spool, record.file_name(evidence), data)
    except OSError as error:
        _warn(
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
        _warn(f"rank logs: {type(error).__name__}: {error}")
        return None


# Detached from the Epilog nobody reads standard error; under systemd the journal does.
def _warn(message: str) -> None:
    if os.path.samestat(os.fstat(2), os.stat(os.devnull)):
        syslog.openlog("firstfault-epilog", syslog.LOG_PID, syslog.LOG_DAEMON)
        syslog.syslog(syslog.LOG_WARNING, message)
    else:
        print(f"firstfault-epilog: {message}", file=sys.stderr)
