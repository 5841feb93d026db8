"""What /metrics tells Prometheus: what was counted, and what is true at the moment of the scrape.

docs/metrics.md describes each; a test keeps the page and this together.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import prometheus_client as prometheus
import sqlalchemy as sa
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from firstfault import __version__
from firstfault.app.counters import NAMESPACE, REGISTRY
from firstfault.app.journal import say
from firstfault.app.workers import Parts, now
from firstfault.intake import spool
from firstfault.store import listing, silent
from firstfault.store.backlog import Backlog, Waiting, backlog

COUNT_S = 60.0


class Gauges(Collector):
    """What is true at the moment of the scrape, of the parts and the crew that work then."""

    def __init__(self, parts: Callable[[], Parts], busy_s: Callable[[], dict[str, float]]) -> None:
        self._parts = parts
        self._busy_s = busy_s
        self._jobs: dict[str, int] = {}
        self._silent = 0
        self._count_again_at = 0.0

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Reads the store and the spool; what cannot be read is left out."""
        parts = self._parts()
        yield _by("build_info", "1, with the version.", "version", {__version__: 1})
        yield _by("worker_busy_seconds", "Seconds of a worker's pass.", "worker", self._busy_s())
        yield from _spool(Path(parts.config.spool.dir))
        try:
            found = backlog(parts.database, parts.channels, now())
            self._count(parts)
        except (sa.exc.SQLAlchemyError, OSError) as error:
            say(logging.WARNING, "store-unreadable", error=type(error).__name__)
            yield _one("store_up", "1 while the store can be read.", 0)
            return
        yield _one("store_up", "1 while the store can be read.", 1)
        yield from _store(found)
        yield _by("jobs", "Ends of jobs that are stored, by state.", "state", self._jobs)
        yield _one("silent_nodes", "Nodes that send nothing though jobs end there.", self._silent)

    def _count(self, parts: Parts) -> None:
        # Of a million jobs this takes half a second, the rest of a scrape a few milliseconds.
        if time.monotonic() >= self._count_again_at:
            self._jobs = listing.states(parts.database)
            self._silent = len(silent.silent_nodes(parts.database, now()))
            self._count_again_at = time.monotonic() + COUNT_S


class Page:
    """What is served at /metrics."""

    def __init__(self, gauges: Gauges) -> None:
        self._now = prometheus.CollectorRegistry(auto_describe=False)
        self._now.register(gauges)
        self._lock = threading.Lock()

    def render(self) -> bytes:
        """The text that Prometheus reads. One scrape at a time reads the store."""
        with self._lock:
            gauges = prometheus.generate_latest(self._now)
        return prometheus.generate_latest(REGISTRY) + gauges


def _spool(folder: Path) -> Iterator[GaugeMetricFamily]:
    try:
        waiting = len(spool.waiting(folder))
        aside = {
            name: sum(not path.name.endswith(".reason") for path in (folder / name).iterdir())
            for name in (spool.QUARANTINE, spool.NEWER)
        }
    except OSError as error:
        say(logging.WARNING, "spool-unreadable", folder=folder, error=error.strerror)
        return
    yield _one("spool_records", "Records that lie in the spool.", waiting)
    yield _by("spool_aside_records", "Records that were put aside, by folder.", "folder", aside)


def _store(found: Backlog) -> Iterator[GaugeMetricFamily]:
    yield _one("store_bytes", "The store's size in bytes.", found.size)
    work: dict[str, Waiting] = {"judge": found.judge, "ask": found.ask}
    yield _by("due_jobs", "Jobs that are due now, by work.", "work", _each(work, "count"))
    yield _by(
        "oldest_due_seconds",
        "For how long the first of them has been due.",
        "work",
        _each(work, "oldest_s"),
    )
    yield _one(
        "oldest_unjudged_seconds",
        "Seconds since the first job that has no verdict yet was seen.",
        found.unjudged.oldest_s,
    )
    yield _by(
        "incidents_open",
        "Incidents that go on, by whether somebody takes care of them.",
        "acknowledged",
        {"yes" if taken else "no": count for taken, count in found.incidents.items()},
    )
    outbox = {each.channel: each for each in found.outbox}
    for name, help_text, field in (
        ("deliveries_pending", "Deliveries that wait, by channel.", "pending"),
        ("deliveries_due", "Deliveries that are due now, by channel.", "due"),
        ("deliveries_dead", "Deliveries that were given up and are not sent.", "dead"),
        ("deliveries_shadow", "Deliveries that shadow mode keeps back.", "shadow"),
        ("oldest_delivery_seconds", "Age of the oldest delivery that waits.", "oldest_s"),
    ):
        yield _by(name, help_text, "channel", _each(outbox, field))


def _each(values: Mapping[str, object], field: str) -> dict[str, float]:
    return {name: getattr(value, field) for name, value in values.items()}


def _one(name: str, help_text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{NAMESPACE}_{name}", help_text, value=value)


def _by(name: str, help_text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{NAMESPACE}_{name}", help_text, labels=[label])
    for word, value in values.items():
        family.add_metric([word], value)
    return family
