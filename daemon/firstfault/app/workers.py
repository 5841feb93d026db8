"""The kinds of work that the daemon does at once: `table` lists them, each runs in a thread.

A new kind of work is a function of the `Parts` that returns how much it did, and a line in the
table. It must stand a kill at any point, and it ends its pass soon when ``bells.stop`` is set.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from firstfault.app import counters, passes
from firstfault.app.clock import CHECK_S, SetBack
from firstfault.app.filling import EVERY_S, Filling
from firstfault.app.gathering import Gathering
from firstfault.app.incidents import Incidents, Reservations
from firstfault.app.journal import say, trouble
from firstfault.app.left_over import LeftOver
from firstfault.app.links import Links
from firstfault.app.reading_processes import ReadingProcesses
from firstfault.app.retention import Retention
from firstfault.app.rights import Coordinators
from firstfault.app.routing import OWN, by_rules
from firstfault.app.rules import Rules
from firstfault.app.sender import Sender
from firstfault.app.settling import READ_EVERY_S, Settling
from firstfault.app.slack_readers import ADMINS
from firstfault.app.sweep import Sweeper
from firstfault.config import Config
from firstfault.deliver.outcome import Channel
from firstfault.diagnosis import diagnose
from firstfault.intake import record, spool
from firstfault.model.jobs import Incoming
from firstfault.slurm import settings
from firstfault.slurm.facts import SlurmFacts
from firstfault.store import evidence
from firstfault.store.database import Database
from firstfault.web.guard import Entrance

IDLE_S = 1.0
RETAIN_EVERY_S = 600.0
LONGEST_PAUSE_S = 30.0
COORDINATORS_EVERY_S = 600.0


class StartError(RuntimeError):
    """The daemon cannot start; the message says why and what to do."""


class Bells:
    """One bell for each worker; ringing it wakes the worker before its time. ``stop`` is set
    when the workers are to end the passes they are in."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._bells: dict[str, threading.Event] = {}

    def ring(self, name: str) -> None:
        """Wakes the worker ``name``."""
        self._bell(name).set()

    def ring_all(self) -> None:
        """Wakes all."""
        for bell in list(self._bells.values()):
            bell.set()

    def wait(self, name: str, seconds: float) -> None:
        """Waits for the bell, at most ``seconds``; not at all once all are to stop."""
        bell = self._bell(name)
        if not self.stop.is_set():
            bell.wait(seconds)
        bell.clear()

    def _bell(self, name: str) -> threading.Event:
        # setdefault is atomic: two threads get the same bell.
        return self._bells.setdefault(name, threading.Event())


class Parts(msgspec.Struct, frozen=True):
    """What the workers and listeners share."""

    config: Config
    database: Database
    slurm: SlurmFacts
    channels: Mapping[str, Channel]
    bells: Bells
    links: Links = Links()
    rules: Rules = Rules()
    entrance: Entrance = Entrance()
    coordinators: Coordinators | None = None


class Worker(msgspec.Struct, frozen=True):
    """``once`` does what is due and returns how much that was. Where it was nothing, the next
    pass comes when the worker's bell rings, or after ``wait_s``."""

    once: Callable[[], int]
    wait_s: float = IDLE_S


def table(parts: Parts) -> dict[str, Worker]:
    """Every worker, by name."""
    settling = Settling(parts.config)
    workers = {
        "intake": Worker(partial(_take_in, parts, LeftOver()), parts.config.spool.scan_s),
        "judge": Worker(partial(_judge, parts, settling)),
        "retention": Worker(partial(_retain, parts), RETAIN_EVERY_S),
        "ask": Worker(partial(_ask, parts)),
        "filling": Worker(Filling(parts.database, parts.bells.stop).once, EVERY_S),
        "clock": Worker(SetBack(parts.database, parts.bells.ring_all).once, CHECK_S),
    }
    slurm = parts.config.slurm
    if _is_asked(parts.config) and slurm.sweep_s:
        sweeper = Sweeper(parts.database, parts.slurm, parts.config.ends, slurm.sweep_after_s)
        workers["sweep"] = Worker(partial(_sweep, parts, sweeper), slurm.sweep_s)
    if settling.is_read:
        workers["slurm-settings"] = Worker(settling.once, READ_EVERY_S)
    # A worker for each channel: a receiver that hangs holds up no other.
    silent = kept_back(parts.config, parts.channels)
    told = [name for name in parts.channels if name not in silent]
    for name in told:
        channel = parts.channels[name]
        sender = Sender(parts.database, name, channel, parts.config.slack.attempts)
        counters.begin_channel(name)
        workers[name] = Worker(sender.once)
        if isinstance(channel, Gathering):
            workers[f"{name}-refresh"] = Worker(channel.once)
    if parts.coordinators is not None:
        workers["coordinators"] = Worker(parts.coordinators.once, COORDINATORS_EVERY_S)
    incidents = Incidents(parts.database, parts.config, tells=ADMINS in told)
    workers["incidents"] = Worker(lambda: incidents.once(now()))
    scontrol = settings.find(slurm.sacct)
    if _is_asked(parts.config) and parts.config.incidents.reservations_s and scontrol is not None:
        reservations = Reservations(parts.database, parts.config, scontrol)
        workers["reservations"] = Worker(
            partial(_reservations, reservations), parts.config.incidents.reservations_s
        )
    return workers


def kept_back(config: Config, channels: Collection[str]) -> list[str]:
    """The channels that send nothing, because the daemon works in shadow mode."""
    return [name for name in channels if config.shadow and name not in OWN]


def now() -> dt.datetime:
    """The time, aware, in UTC."""
    return dt.datetime.now(dt.UTC)


def loop(name: str, worker: Worker, bells: Bells, stop: threading.Event) -> None:
    """Does the work again and again until ``stop``."""
    counters.begin_worker(name)
    pause_s = 1.0
    while not stop.is_set():
        try:
            done = worker.once()
            pause_s = 1.0
        except Exception as error:  # noqa: BLE001 - boundary: a worker goes on after any fault
            counters.WORKER_ERRORS.labels(name).inc()
            trouble("worker-error", worker=name)
            say(logging.ERROR, "worker-pauses", worker=name, error=type(error).__name__, s=pause_s)
            stop.wait(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            continue
        if not done:
            bells.wait(name, worker.wait_s)


def _is_asked(config: Config) -> bool:
    return config.slurm.source != "none"


def _judge(parts: Parts, settling: Settling) -> int:
    config, timing = parts.config, settling.timing()
    channels, shadow = tuple(parts.channels), tuple(kept_back(config, parts.channels))
    route = by_rules(parts.database, parts.rules, channels)
    judged = partial(diagnose, read_all=ReadingProcesses())
    done = passes.judge(parts.database, judged, timing, channels, now, config.ends, shadow, route)
    if done:
        for name in parts.channels:
            parts.bells.ring(name)
        parts.bells.ring("ask")
        parts.bells.ring("incidents")
    return done


def _ask(parts: Parts) -> int:
    give_up_s = parts.config.slurm.give_up_s if _is_asked(parts.config) else 0.0
    done = passes.ask(parts.database, parts.slurm, give_up_s, now)
    if done:
        parts.bells.ring("judge")
    return done


def _sweep(parts: Parts, sweeper: Sweeper) -> int:
    if sweeper.once(now()):
        parts.bells.ring("judge")
    return 0  # what comes later than this look is for the next


def _reservations(reservations: Reservations) -> int:
    reservations.once(now())
    return 0  # the next look has its own time


def _retain(parts: Parts) -> int:
    Retention(parts.config, parts.database, parts.bells.stop).once(now())
    return 0  # once in a while is enough: what is left over has been removed, or is open


def _take_in(parts: Parts, left_over: LeftOver) -> int:
    def store(records: Sequence[Incoming]) -> None:
        new = evidence.keep(parts.database, records, now())
        counters.count_records("spool", len(records), len(new))
        parts.bells.ring("judge")
        jobs = sorted({record.job for record in records})
        say(logging.INFO, "records", count=len(records), new=len(new), jobs=",".join(jobs[:20]))

    config = parts.config.spool
    limits = record.Limits(config.max_file_bytes, config.max_record_bytes)
    swept = spool.sweep(
        Path(config.dir), store, limits, keep=config.keep, stop=parts.bells.stop.is_set
    )
    for refused in swept.refused:
        counters.RECORDS.labels("spool", refused.path.parent.name).inc()
        say(logging.WARNING, "record-refused", moved_to=refused.path, reason=refused.reason)
    left_over.tell(swept)
    return 0  # the next scan has its own time; only the watch makes it earlier
