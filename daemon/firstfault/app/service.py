"""The daemon as it runs: what is made at the start, what ends it, and in which order."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM

import msgspec
import sqlalchemy as sa

from firstfault.app import counters, journal, listeners, workers
from firstfault.app.accounting import slurm_of
from firstfault.app.channels import channels_of
from firstfault.app.credentials import store_url
from firstfault.app.crew import Crew
from firstfault.app.customs import use_customs
from firstfault.app.entrance import coordinators_of, entrance_of
from firstfault.app.intake import serving_intake
from firstfault.app.journal import say
from firstfault.app.links import links_of
from firstfault.app.metrics import Gauges, Page
from firstfault.app.notify import Systemd
from firstfault.app.reload import reloaded
from firstfault.app.rules_file import rules_of
from firstfault.app.signals import Heard, hearing
from firstfault.app.workers import Bells, Parts, StartError
from firstfault.config import Config, ConfigError
from firstfault.intake import spool, watch
from firstfault.intake.site import install
from firstfault.signatures import SignatureError, use_site
from firstfault.slurm import command
from firstfault.store import deliveries, messages, work
from firstfault.store.database import Database, open_store

# Whatever hangs, the daemon ends within this time, and a moment for the listeners.
STOP_S = 3.0
RELOAD_S = 1.5


class Running:
    """The daemon at work: its parts, and the crew that works with them. A reload changes both."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.crew = Crew(workers.table(parts), parts.bells)
        self._crews_before: list[Crew] = []
        # Of the parts and the crew as they are when it is asked.
        self.metrics = Page(Gauges(lambda: self.parts, lambda: self.crew.busy_s()))

    def is_healthy(self) -> bool:
        """True while every worker lives and gets on."""
        return self.crew.is_healthy()

    def reload(self, read_again: Callable[[], Config]) -> None:
        """Makes the configuration as it is now count; what is wrong with it is logged, and
        nothing changes."""
        try:
            new = reloaded(self.parts.config, read_again())
            channels = channels_of(new.config, self.parts.database)
            links = links_of(new.config)
            rules = rules_of(new.config)
            coordinators = coordinators_of(new.config)
            entrance = entrance_of(new.config, coordinators)
            _use_signatures(new.config)
            use_customs(new.config)
        except (ConfigError, StartError) as error:
            _refuse(str(error))
            return
        same = new.config.slurm == self.parts.config.slurm
        slurm = self.parts.slurm if same else slurm_of(new.config)
        parts = msgspec.structs.replace(
            self.parts,
            config=new.config,
            channels=channels,
            links=links,
            slurm=slurm,
            rules=rules,
            entrance=entrance,
            coordinators=coordinators,
        )
        # Who does not come to an end finishes the pass as it was begun, and then ends.
        self.stop(RELOAD_S)
        try:
            _close_unsent(parts)
        except sa.exc.SQLAlchemyError as error:
            _refuse(f"the store cannot be used: {type(error).__name__}")
            self._work(self.parts)
            return
        journal.start(new.config.log.level, new.config.log.format)
        self._work(parts)
        counters.RELOADS.labels("done").inc()
        say(logging.INFO, "reloaded", changed=",".join(new.changed) or "nothing")
        if new.need_restart:
            say(logging.WARNING, "restart-needed", keys=",".join(new.need_restart))

    def _work(self, parts: Parts) -> None:
        self._crews_before = [crew for crew in self._crews_before if not crew.is_ended()]
        self._crews_before.append(self.crew)
        self.parts = parts
        self.crew = Crew(workers.table(parts), parts.bells)
        self.crew.start()

    def begin_to_stop(self) -> None:
        """Tells the crew to come to an end."""
        self.crew.begin_to_stop()

    def stop(self, seconds: float) -> None:
        """Waits for the crew, and leaves behind who does not come."""
        names = self.crew.stop(seconds)
        if names:
            say(logging.WARNING, "left-behind", workers=",".join(names))

    def is_ended(self) -> bool:
        """True when no thread works any more, of this crew or one before a reload."""
        return all(crew.is_ended() for crew in (self.crew, *self._crews_before))


def run(config: Config, read_again: Callable[[], Config], *, once_idle: bool = False) -> bool:
    """Runs the daemon until it is told to stop (SIGTERM, SIGINT), or, with ``once_idle``, until
    nothing is left to do. SIGHUP makes it ``read_again`` its configuration.

    Returns False where a thread hangs and was left behind: the process is to be ended without
    waiting for it. Raises `StartError`, `ConfigError` or `StoreError` where it cannot start.
    """
    systemd = Systemd(os.environ)
    folder = _prepared(config)
    database = open_store(store_url(config))
    channels = channels_of(config, database)
    coordinators = coordinators_of(config)
    running = Running(
        Parts(
            config,
            database,
            slurm_of(config),
            channels,
            Bells(),
            links_of(config),
            rules_of(config),
            entrance_of(config, coordinators),
            coordinators,
        )
    )
    stop_at = float("inf")
    with ExitStack() as stack:
        stack.callback(database.close)
        heard = stack.enter_context(hearing((SIGTERM, SIGINT, SIGHUP)))
        _close_unsent(running.parts)
        # It ends last: while the listeners end, the workers finish what they have in hand.
        stack.callback(lambda: running.stop(min(STOP_S, max(0.5, stop_at - time.monotonic()))))
        healthy, metrics = running.is_healthy, running.metrics.render
        stack.enter_context(listeners.serving_pages(lambda: running.parts, healthy, metrics))
        stack.enter_context(listeners.serving_metrics(running.parts, healthy, metrics))
        stack.enter_context(serving_intake(lambda: running.parts))
        stack.callback(running.begin_to_stop)
        running.crew.start()
        if config.spool.watch:
            stack.enter_context(_watching(folder, running.parts.bells))
        say(logging.INFO, "started", spool=folder, channels=",".join(channels))
        systemd.ready()
        _until_done(running, heard, systemd, read_again, once_idle)
        systemd.stopping()
        stop_at = time.monotonic() + STOP_S
        running.begin_to_stop()
    if not running.is_ended():
        command.kill_all()
    say(logging.INFO, "stopped")
    return running.is_ended()


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
        _use_signatures(config)
    use_customs(config)
    return folder


def _use_signatures(config: Config) -> None:
    try:
        if config.diagnosis.signatures:
            install(Path(config.diagnosis.signatures))
        else:
            use_site({})
    except SignatureError as error:
        raise StartError(f"diagnosis.signatures: {error}") from error


def _refuse(reason: str) -> None:
    counters.RELOADS.labels("refused").inc()
    say(logging.ERROR, "reload-refused", reason=reason)


def _close_unsent(parts: Parts) -> None:
    """Gives up what no channel sends any more, and keeps back what shadow mode keeps back."""
    dropped = deliveries.drop_others(parts.database, parts.channels)
    if dropped:
        say(logging.WARNING, "deliveries-dropped", count=dropped, reason="channel not configured")
    shadow = workers.kept_back(parts.config, parts.channels)
    messages.drop(parts.database, parts.channels, others=True)
    messages.drop(parts.database, shadow, others=False)
    kept_back = deliveries.keep_back(parts.database, shadow)
    if parts.config.shadow:
        say(logging.WARNING, "shadow", channels=",".join(shadow), kept_back=kept_back)


def _until_done(
    running: Running,
    heard: Heard,
    systemd: Systemd,
    read_again: Callable[[], Config],
    once_idle: bool,
) -> None:
    tick_s = min(0.1 if once_idle else 1.0, (systemd.watchdog_s or 60.0) / 3)
    told: list[str] = []
    while True:
        signals = heard.wait(tick_s)
        for number in signals:
            if number != SIGHUP:
                say(logging.INFO, "stopping", signal=number.name)
                return
        if signals:
            systemd.reloading()
            running.reload(read_again)
            systemd.ready()
        dead = running.crew.dead()
        if dead:
            raise StartError(f"the worker {dead[0]} ended by itself: see the log")
        stuck = running.crew.stuck()
        if stuck and stuck != told:
            say(logging.CRITICAL, "worker-stuck", workers=",".join(stuck))
        told = stuck
        if not stuck:
            systemd.alive()
        folder = Path(running.parts.config.spool.dir)
        if once_idle and is_idle(running.parts.database, folder):
            return


@contextmanager
def _watching(folder: Path, bells: Bells) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(watch.watching(folder, lambda: bells.ring("intake")))
        except OSError as error:
            # The scan finds everything; the watch only saves the time until the next one.
            say(logging.WARNING, "not-watching", folder=folder, error=error.strerror)
        yield
