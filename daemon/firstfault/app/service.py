"""The daemon as it runs: a thread for each kind of work, and who wakes whom."""

from __future__ import annotations

import datetime as dt
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from firstfault.app import lifecycle, passes, rendering
from firstfault.app.journal import LOGGER, say
from firstfault.config import Config, ConfigError, webhook
from firstfault.deliver.files import Files
from firstfault.deliver.outcome import Channel
from firstfault.deliver.slack import Slack
from firstfault.diagnosis import diagnose
from firstfault.intake import spool, watch
from firstfault.intake.site import install
from firstfault.model.jobs import Incoming, JobSummary, StoredVerdict
from firstfault.model.slurm import JobFacts
from firstfault.signatures import SignatureError
from firstfault.slurm.facts import FactsError, SlurmFacts
from firstfault.slurm.sacct import Sacct, find
from firstfault.store import deliveries, evidence, listing, work
from firstfault.store.database import Database, StoreError, open_store
from firstfault.web import pages, server

IDLE_S = 1.0
LONGEST_PAUSE_S = 30.0
SLACK = "slack"
PRINTED = "log"


class StartError(RuntimeError):
    """The daemon cannot start; the message says why and what to do."""


class NoSlurm:
    """Stands where Slurm is not asked: it knows no job."""

    def facts(self, job_ids: Sequence[str]) -> dict[str, list[JobFacts]]:
        """Nothing."""
        return {}


class MissingSacct:
    """Stands where sacct is not installed (yet): every question fails and is asked again."""

    def facts(self, job_ids: Sequence[str]) -> dict[str, list[JobFacts]]:
        """Raises `FactsError`."""
        raise FactsError(
            'sacct is not on PATH. Set slurm.sacct to its path, or slurm.source to "none".'
        )


class StoredFailures:
    """What the pages read, from the store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def newest(self, limit: int) -> Sequence[JobSummary]:
        """See `firstfault.web.pages.Failures`."""
        return listing.newest_failures(self.database, limit)

    def verdicts(self, cluster: str | None, job: str) -> Sequence[StoredVerdict]:
        """See `firstfault.web.pages.Failures`."""
        return listing.current_verdicts(self.database, job, cluster)


class Bells:
    """One bell for each worker; ringing it wakes the worker before its time."""

    def __init__(self, names: Sequence[str]) -> None:
        self.stop = threading.Event()
        self._bells = {name: threading.Event() for name in names}

    def ring(self, name: str) -> None:
        """Wakes the worker ``name``."""
        self._bells[name].set()

    def ring_all(self) -> None:
        """Wakes all."""
        for bell in self._bells.values():
            bell.set()

    def wait(self, name: str, seconds: float) -> None:
        """Waits for the bell, at most ``seconds``."""
        bell = self._bells[name]
        bell.wait(seconds)
        bell.clear()


def now() -> dt.datetime:
    """The time, aware, in UTC."""
    return dt.datetime.now(dt.UTC)


def run(config: Config, *, once_idle: bool = False) -> None:
    """Runs the daemon until it is told to stop (SIGTERM, SIGINT), or, with ``once_idle``, until
    nothing is left to do.

    Raises `StartError`, `ConfigError` or `StoreError` where it cannot start.
    """
    if os.geteuid() == 0 and not config.allow_root:
        raise StartError(
            "firstfault does not run as root: start it as a user of its own (the systemd unit "
            "does), or set allow_root = true in a container."
        )
    folder = Path(config.spool.dir)
    try:
        spool.prepare(folder)
    except OSError as error:
        raise StartError(
            f"spool.dir {folder}: {error.strerror}. Make it, owned by root and the daemon's group, "
            f"mode 2770."
        ) from error
    if config.diagnosis.signatures:
        try:
            install(Path(config.diagnosis.signatures))
        except SignatureError as error:
            raise StartError(f"diagnosis.signatures: {error}") from error
    channels = channels_of(config)
    database = open_store(config.store.url)
    dropped = deliveries.drop_others(database, channels)
    if dropped:
        say(logging.WARNING, "deliveries-dropped", count=dropped, reason="channel not configured")
    bells = Bells(("intake", "judge", "ask", *channels))
    workers = _workers(config, database, channels, bells)
    with ExitStack() as stack:
        stack.callback(database.close)
        threads = [
            threading.Thread(target=_loop, args=(name, once, bells, wait_s), name=name)
            for name, (once, wait_s) in workers.items()
        ]
        stack.enter_context(_signals(bells))
        stack.enter_context(_pages(config, database, threads))
        for thread in threads:
            thread.start()
        stack.callback(_stop, bells, threads)
        if config.spool.watch:
            stack.enter_context(_watching(folder, bells))
        say(logging.INFO, "started", spool=folder, channels=",".join(channels))
        _until_done(database, folder, bells, threads, once_idle)
    say(logging.INFO, "stopped")


def channels_of(config: Config) -> dict[str, Channel]:
    """The channels that the configuration turns on, by name. Raises `ConfigError`."""
    channels: dict[str, Channel] = {passes.REPORT: Files(Path(config.report.dir), rendering.page)}
    url = webhook(config)
    if url:
        payload = rendering.slack_payload(config.web.public_url)
        channels[SLACK] = Slack(url, config.slack.timeout_s, payload)
    if config.log.report:
        channels[PRINTED] = rendering.Printed()
    return channels


def slurm_of(config: Config) -> SlurmFacts:
    """Who is asked about jobs, as configured."""
    if config.slurm.source == "none":
        return NoSlurm()
    path = find(config.slurm.sacct)
    return MissingSacct() if path is None else Sacct(path, config.slurm.timeout_s)


def is_idle(database: Database, folder: Path) -> bool:
    """True when the spool is empty and nothing in the store is due, now or later."""
    # In this order: a record leaves the spool only when it is due in the store.
    return not spool.waiting(folder) and work.next_due_at(database) is None


def _workers(
    config: Config, database: Database, channels: Mapping[str, Channel], bells: Bells
) -> dict[str, tuple[Callable[[], int], float]]:
    """What each thread does, and how long it waits where there was nothing to do."""
    asked = config.slurm.source != "none"
    timing = lifecycle.Timing(
        config.judge.settle_s, config.judge.early_s, config.slurm.first_ask_s if asked else 0.0
    )
    slurm = slurm_of(config)

    def take_in() -> int:
        return _take_in(config, database, bells)

    def judge() -> int:
        done = passes.judge(database, diagnose, timing, tuple(channels), now)
        if done:
            for name in channels:
                bells.ring(name)
            bells.ring("ask")
        return done

    def ask() -> int:
        done = passes.ask(database, slurm, config.slurm.give_up_s if asked else 0.0, now)
        if done:
            bells.ring("judge")
        return done

    return {
        "intake": (take_in, config.spool.scan_s),
        "judge": (judge, IDLE_S),
        "ask": (ask, IDLE_S),
    } | {
        name: (_sender(config, database, name, channel, bells), IDLE_S)
        for name, channel in channels.items()
    }


def _sender(
    config: Config, database: Database, name: str, channel: Channel, bells: Bells
) -> Callable[[], int]:
    # A worker for each channel: a receiver that hangs holds up no other.
    def send() -> int:
        done, hold_s = passes.deliver(database, name, channel, config.slack.attempts, now)
        if hold_s:
            bells.stop.wait(hold_s)
        return done

    return send


def _take_in(config: Config, database: Database, bells: Bells) -> int:
    def store(records: Sequence[Incoming]) -> None:
        new = evidence.keep(database, records, now())
        bells.ring("judge")
        jobs = sorted({record.job for record in records})
        say(logging.INFO, "records", count=len(records), new=new, jobs=",".join(jobs[:20]))

    limits = spool.Limits(config.spool.max_file_bytes, config.spool.max_record_bytes)
    folder = Path(config.spool.dir)
    swept = spool.sweep(folder, store, limits, keep=config.spool.keep, stop=bells.stop.is_set)
    for refused in swept.refused:
        say(logging.WARNING, "record-refused", moved_to=refused.path, reason=refused.reason)
    for unreadable in swept.unreadable:
        say(logging.ERROR, "record-unreadable", path=unreadable.path, reason=unreadable.reason)
    return 0  # the next scan has its own time; only the watch makes it earlier


def _loop(name: str, once: Callable[[], int], bells: Bells, wait_s: float) -> None:
    pause_s = 1.0
    while not bells.stop.is_set():
        try:
            done = once()
            pause_s = 1.0
        except Exception as error:  # noqa: BLE001 - boundary: a worker goes on after any fault
            LOGGER.exception("event=worker-error worker=%s", name)
            say(logging.ERROR, "worker-pauses", worker=name, error=type(error).__name__, s=pause_s)
            bells.stop.wait(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            continue
        if not done:
            bells.wait(name, wait_s)


def _until_done(
    database: Database,
    folder: Path,
    bells: Bells,
    threads: Sequence[threading.Thread],
    once_idle: bool,
) -> None:
    while not bells.stop.wait(0.1 if once_idle else IDLE_S):
        dead = [thread.name for thread in threads if not thread.is_alive()]
        if dead:
            raise StartError(f"the worker {dead[0]} ended by itself: see the log")
        if once_idle and is_idle(database, folder):
            return


def _stop(bells: Bells, threads: Sequence[threading.Thread]) -> None:
    bells.stop.set()
    bells.ring_all()
    for thread in threads:
        thread.join()


@contextmanager
def _signals(bells: Bells) -> Iterator[None]:
    def stop(number: int, _frame: object) -> None:
        say(logging.INFO, "stopping", signal=signal.Signals(number).name)
        bells.stop.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _pages(
    config: Config, database: Database, threads: Sequence[threading.Thread]
) -> Iterator[None]:
    if not config.web.enabled:
        yield
        return
    try:
        sock = server.listener(config.web.host, config.web.port)
    except OSError as error:
        raise StartError(
            f"web: cannot listen on {config.web.host} port {config.web.port}: {error.strerror}. "
            f"Is another firstfault running? Set web.port to a free one."
        ) from error
    healthy = lambda: all(thread.is_alive() for thread in threads)  # noqa: E731
    application = pages.application(StoredFailures(database), rendering.served_page, healthy)
    with server.serving(application, sock):
        say(logging.INFO, "pages", url=server.address(sock))
        yield


@contextmanager
def _watching(folder: Path, bells: Bells) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(watch.watching(folder, lambda: bells.ring("intake")))
        except OSError as error:
            # The scan finds everything; the watch only saves the time until the next one.
            say(logging.WARNING, "not-watching", folder=folder, error=error.strerror)
        yield


__all__ = ["Bells", "ConfigError", "StartError", "StoreError", "run"]
