"""The collector at work: it takes the queue's entries and writes their records."""

import os
import select
import sys
import syslog
import time
from typing import TYPE_CHECKING, Callable, List, Optional, Tuple

from firstfault_epilog import (
    backlog,
    collection,
    ends,
    entries,
    kernel,
    pending,
    ranklogs,
    record,
    spool,
)
from firstfault_epilog import moment as moments
from firstfault_epilog.collection import Asked
from firstfault_epilog.entries import Entry
from firstfault_epilog.job import job_of, jobs_of
from firstfault_epilog.moment import Moment
from firstfault_epilog.pending import Pending, Place
from firstfault_epilog.record import Clock, Record
from firstfault_epilog.settings import Settings

if TYPE_CHECKING:
    from firstfault_epilog.asking import Question
    from firstfault_epilog.push import Delivery

# An end that is to be collected, and what was asked for.
Granted = Tuple[Place, Pending, Asked]

# EX_TEMPFAIL and EX_SOFTWARE of sysexits.h: the script that starts the collector tells them apart.
NOT_NOW = 75
FAILED = 70
# So long a collector waits for the daemon, and for the next question on a pending end, after the
# last end that came in; then the timer's, or the next end's, goes on. Under systemd it has a limit
# (TimeoutStartSec); where the script starts it there is no timer, and it stays for as long as the
# daemon may need.
WAIT_S = 120.0
LIFE_S = 600.0
WAIT_DETACHED_S = 3600.0
POLL_S = 0.2


def run(settings: Settings, off: str) -> int:
    """Takes what waits; 0, `NOT_NOW` or `FAILED`. It does not stay once the file ``off`` is there."""
    try:
        entries.prepare(settings.queue)
        status = 0
        while True:
            handle = entries.lock(settings.queue)
            if handle is None:
                # The one that runs looks at the queue once more after it lets the lock go.
                return status
            try:
                status = max(status, _work(settings, off))
            finally:
                os.close(handle)
            if status or entries.is_empty(settings.queue):
                return status
    except OSError as error:
        warn(f"queue {settings.queue}: {error.strerror} ({error.filename})")
        return NOT_NOW


# What came in is collected before anything is sent or asked, and as soon as it comes while the
# daemon is waited for.
def _work(settings: Settings, off: str) -> int:
    status = _take_all(settings)
    begun = time.monotonic()
    patience_s = WAIT_DETACHED_S if os.environ.get("FIRSTFAULT_DETACHED") else WAIT_S
    stop_at = begun + patience_s
    over_at = begun + max(LIFE_S, patience_s)
    question: Optional["Question"] = None
    delivery: Optional["Delivery"] = None
    granted: List[Granted] = []
    asks = True
    while True:
        ask_s = None
        if asks:
            question, ask_s, asked = _ask(settings, question, granted)
            status = max(status, asked)
            # What could not be used is not tried again and again.
            asks = ask_s is not None or not asked
        delivery, send_s = _send(settings, delivery)
        left_s = min((s for s in (ask_s, send_s) if s is not None), default=None)
        waits = question is None and delivery is None and not granted
        if left_s is None or (waits and time.monotonic() + left_s > stop_at):
            break
        _wait(settings.queue, off, left_s, [c.child.receiver for c in (question, delivery) if c])
        if time.monotonic() > over_at or os.path.exists(off):
            break
        if not entries.is_empty(settings.queue):
            status = max(status, _take_all(settings))
            stop_at = min(time.monotonic() + patience_s, over_at)
    for fault in _tidy("rank logs", lambda: ranklogs.sweep(settings)) or ():
        warn(fault)
    return status


# One step of asking about pending ends, or of collecting one that is `granted`: the question under
# way, the seconds until the next step (None where no end waits), and the status. The boundary at
# which a failure in it stops.
def _ask(
    settings: Settings, question: Optional["Question"], granted: List[Granted]
) -> Tuple[Optional["Question"], Optional[float], int]:
    try:
        if granted:
            return None, 0.0, _take_wanted(granted.pop(0), settings)
        if question is None and not pending.waiting(settings.spool):
            return None, None, 0
        if settings.daemon is None:
            # The configuration changed: nobody is asked any more, and every end is collected.
            places = pending.waiting(settings.spool)
            granted += [
                (place, end, Asked())
                for place, end in pending.readable(settings.spool, places, warn)
            ]
            return None, 0.0 if granted else None, 0
        # http.client and ssl are not loaded where nobody is asked.
        from firstfault_epilog import asking

        if question is None:
            question, left_s = asking.begin(settings, time.time(), warn)
            return question, left_s, 0
        if not asking.is_answered(question):
            return question, POLL_S, 0
        outcome = asking.end(settings, question, time.time())
        if outcome.fault is not None:
            warn(f"{len(question.ends)} ends wait for the daemon's word: {outcome.fault}")
        if outcome.lost:
            warn(f"{outcome.lost} ends were given up: the daemon could not tell if they matter")
        for place, end in outcome.unwanted:
            _let_go(settings, end.entry, end.moment)
            pending.drop(place)
        granted += outcome.wanted
        return None, 0.0, 0
    except OSError as error:
        warn(f"pending ends: {error.strerror} ({error.filename})")
        return None, None, NOT_NOW
    except Exception as error:  # noqa: BLE001 (the boundary: the reason is told)
        warn(f"pending ends: {type(error).__name__}: {error}")
        return None, None, FAILED


# One step of sending: the delivery under way, and the seconds until the next step (None where no
# record waits). The boundary at which a failure in it stops: the records stay where they are.
def _send(
    settings: Settings, delivery: Optional["Delivery"]
) -> Tuple[Optional["Delivery"], Optional[float]]:
    # The node's own spool is made with the first record.
    if settings.daemon is None or not os.path.lexists(settings.spool):
        return None, None
    try:
        if delivery is None and not spool.waiting(settings.spool):
            return None, None
        # http.client and ssl are not loaded where nothing is sent.
        from firstfault_epilog import push

        if delivery is None:
            return push.begin(settings)
        if not push.is_over(delivery):
            return delivery, POLL_S
        push.end(settings, delivery, warn)
        return None, 0.0
    except Exception as error:  # noqa: BLE001 (the boundary: the reason is told)
        warn(f"sending: {type(error).__name__}: {error}")
        return None, None


# Until an entry comes in, a child has something to say, or all is turned off.
def _wait(queue: str, off: str, seconds: float, children: List[int]) -> None:
    stop_at = time.monotonic() + seconds
    while entries.is_empty(queue) and not os.path.exists(off) and time.monotonic() < stop_at:
        if select.select(children, [], [], min(POLL_S, seconds))[0]:
            return


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
        fate = ends.fate(entry, moment, settings)
        if fate.what == ends.COLLECT:
            evidence = _evidence(entry, settings, moment, Asked())
            data = record.encode(evidence)
    except Exception as error:  # noqa: BLE001 (the boundary: the reason stands beside the entry)
        reason = f"collecting failed: {type(error).__name__}: {error}"
        warn(f"entry {path}: {reason}: moved to the quarantine")
        entries.quarantine(settings.queue, path, reason)
        return FAILED
    try:
        if fate.what == ends.COLLECT:
            _write(settings, entry, evidence, data)
        elif fate.what == ends.ASK:
            _keep(settings, entry, moment)
        else:
            _let_go(settings, entry, moment)
    except OSError as error:
        warn(
            f"spool {settings.spool}: {error.strerror}: the entry is kept for the next run; "
            "make the folder, or room in it"
        )
        entries.keep_for_later(path)
        return NOT_NOW
    os.unlink(path)
    return 0


# The same for an end that the daemon wants.
def _take_wanted(granted: Granted, settings: Settings) -> int:
    place, end, asked = granted
    try:
        place = pending.begin(place)
    except FileNotFoundError:
        return 0
    if place.attempts > entries.ATTEMPTS_MAX:
        reason = f"{entries.ATTEMPTS_MAX} collectors died or failed on it"
        warn(f"pending end {place.path}: {reason}: put aside")
        pending.put_aside(settings.spool, place, reason)
        return FAILED
    try:
        clock = kernel.calibrate(settings.kernel_log, settings.kernel_offset_s, time.time())
        later = collection.look(end.entry, settings, clock)
        moment = moments.joined(end.moment, later)
        evidence = _evidence(end.entry, settings, moment, asked)
        data = record.encode(evidence)
    except Exception as error:  # noqa: BLE001 (the boundary: the reason stands beside the end)
        reason = f"collecting failed: {type(error).__name__}: {error}"
        warn(f"pending end {place.path}: {reason}: put aside")
        pending.put_aside(settings.spool, place, reason)
        return FAILED
    try:
        _write(settings, end.entry, evidence, data)
    except OSError as error:
        warn(f"spool {settings.spool}: {error.strerror}: a pending end waits: make room in it")
        pending.take_back(place, time.time() + WAIT_S)
        return NOT_NOW
    pending.drop(place)
    return 0


# With what was lost before it: somebody has to tell.
def _evidence(entry: Entry, settings: Settings, moment: Moment, asked: Asked) -> Record:
    evidence = collection.collect(entry, settings, moment, asked)
    notes = []
    missed = entries.dropped(settings.queue)
    if missed:
        notes.append(
            f"{missed} earlier ends of jobs were not noted on this node: nobody took the queue"
        )
        warn(notes[0])
    if settings.daemon is not None:
        lost = backlog.note(settings.queue)
        unanswered = pending.lost(settings.spool)
        if lost is not None:
            notes.append(lost)
        if unanswered:
            notes.append(
                f"{unanswered} earlier ends that looked like success were given up on this node: "
                "the daemon did not tell whether they matter"
            )
    return evidence._replace(notes=(*evidence.notes, *notes))


# Raises OSError.
def _write(settings: Settings, entry: Entry, evidence: Record, data: bytes) -> None:
    if settings.daemon is not None:
        spool.prepare(settings.spool)
    name = record.file_name(evidence)
    record.write(settings.spool, name, data)
    _tidy("rank logs", lambda: ranklogs.note(settings, jobs_of(entry), evidence.node, name))
    if settings.daemon is not None:
        nodes = entry.value("SLURM_JOB_NODELIST") or entry.value("SLURM_NODELIST")
        _tidy("backlog", lambda: backlog.accept(settings, name, nodes, evidence.node, warn))
        _tidy("pending ends", lambda: pending.forget_lost(settings.spool))
    entries.forget_troubles(settings.queue)


# Raises OSError.
def _keep(settings: Settings, entry: Entry, moment: Moment) -> None:
    from firstfault_epilog import asking

    now_s = time.time()
    spool.prepare(settings.spool)
    ask_at_s = asking.first_ask_at_s(entry, settings, now_s)
    dropped = pending.keep(settings, Pending(entry, moment, now_s), _id(entry, moment), ask_at_s)
    if dropped:
        warn(f"{dropped} pending ends were given up: more than FIRSTFAULT_PENDING_MAX wait")
    _tidy("rank logs", lambda: ranklogs.hold(settings, jobs_of(entry), job_of(entry).node))
    entries.forget_failures(settings.queue)


# Nobody wants it: its rank logs go as if the daemon had its record.
def _let_go(settings: Settings, entry: Entry, moment: Moment) -> None:
    name = f"none-{_id(entry, moment)}"
    _tidy("rank logs", lambda: ranklogs.note(settings, jobs_of(entry), job_of(entry).node, name))
    entries.forget_failures(settings.queue)


def _id(entry: Entry, moment: Moment) -> str:
    return collection.record_id(entry, moment)


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
        # Before 3.9 Python keeps it until the end, which may be minutes away.
        print(f"firstfault-epilog: {message}", file=sys.stderr, flush=True)
