"""The daemon as it runs: what is made at the start, what ends it, and in which order."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from firstfault.app import listeners, workers
from firstfault.app.accounting import slurm_of
from firstfault.app.channels import channels_of
from firstfault.app.journal import say
from firstfault.app.workers import Bells, Parts, StartError
from firstfault.config import Config
from firstfault.intake import spool, watch
from firstfault.intake.site import install
from firstfault.signatures import SignatureError
from firstfault.store import deliveries, work
from firstfault.store.database import Database, open_store


def run(config: Config, *, once_idle: bool = False) -> None:
    """Runs the daemon until it is told to stop (SIGTERM, SIGINT), or, with ``once_idle``, until
    nothing is left to do.

    Raises `StartError`, `ConfigError` or `StoreError` where it cannot start.
    """
    folder = _prepared(config)
    channels = channels_of(config)
    database = open_store(config.store.url)
    dropped = deliveries.drop_others(database, channels)
    if dropped:
        say(logging.WARNING, "deliveries-dropped", count=dropped, reason="channel not configured")
    bells = Bells()
    parts = Parts(config, database, slurm_of(config), channels, bells)
    with ExitStack() as stack:
        stack.callback(database.close)
        threads = [
            threading.Thread(target=workers.loop, args=(name, worker, bells), name=name)
            for name, worker in workers.table(parts).items()
        ]
        stack.enter_context(_signals(bells))
        stack.enter_context(
            listeners.serving_pages(parts, lambda: all(thread.is_alive() for thread in threads))
        )
        for thread in threads:
            thread.start()
        stack.callback(_stop, bells, threads)
        if config.spool.watch:
            stack.enter_context(_watching(folder, bells))
        say(logging.INFO, "started", spool=folder, channels=",".join(channels))
        _until_done(database, folder, bells, threads, once_idle)
    say(logging.INFO, "stopped")


def is_idle(database: Database, folder: Path) -> bool:
    """True when the spool is empty and nothing in the store is due, now or later."""
    # In this order: a record leaves the spool only when it is due in the store.
    return not spool.waiting(folder) and work.next_due_at(database) is None


def _prepared(config: Config) -> Path:
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
    return folder


def _until_done(
    database: Database,
    folder: Path,
    bells: Bells,
    threads: Sequence[threading.Thread],
    once_idle: bool,
) -> None:
    while not bells.stop.wait(0.1 if once_idle else workers.IDLE_S):
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
def _watching(folder: Path, bells: Bells) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(watch.watching(folder, lambda: bells.ring("intake")))
        except OSError as error:
            # The scan finds everything; the watch only saves the time until the next one.
            say(logging.WARNING, "not-watching", folder=folder, error=error.strerror)
        yield
