"""What the daemon answers on the network. Each listener is a context: it serves while it is open."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from firstfault.app import rendering
from firstfault.app.board import StoredBoard
from firstfault.app.explained import KeptReports
from firstfault.app.explaining import Processes
from firstfault.app.journal import say
from firstfault.app.node_states import Known, NodeStates
from firstfault.app.workers import Parts, StartError, kept_back
from firstfault.app.workers import now as clock
from firstfault.config import Config
from firstfault.slurm.settings import find
from firstfault.store import listing
from firstfault.web import server
from firstfault.web.application import Sources, application, inspection, places
from firstfault.web.limits import Pace


@contextmanager
def serving_pages(
    now: Callable[[], Parts], healthy: Callable[[], bool], metrics: Callable[[], bytes]
) -> Iterator[None]:
    """Serves the pages and the API, where they are turned on, and the metrics, where they have no
    address of their own. ``now`` gives the parts of the moment. Raises `StartError`."""
    parts = now()
    config = parts.config
    web = config.web
    if not web.enabled:
        yield
        return
    board = StoredBoard(
        parts.database,
        channels=lambda: _sending(now()),
        healthy=healthy,
        folder=Path(config.spool.dir),
        states=_node_states(config),
    )
    explain = config.explain
    explainer = Processes(explain, config.diagnosis.signatures)
    keeps = explain.enabled and explain.keep_days > 0
    kept = KeptReports(parts.database, explain, lambda: now().links, clock) if keeps else None
    here = config.metrics.enabled and not config.metrics.host
    sources = Sources(
        board,
        healthy,
        metrics if here else None,
        lambda token: shared_report(now(), token, kept),
        explainer if explain.enabled else None,
        kept,
    )
    pace = Pace(explain.at_once, explain.per_minute, explain.all_per_minute)
    pages = application(places(sources), lambda: now().entrance, pace)
    sock = _listening("web", web.host, web.port)
    with server.serving(pages, sock):
        say(logging.INFO, "pages", url=server.address(sock))
        yield


@contextmanager
def serving_metrics(
    parts: Parts, healthy: Callable[[], bool], metrics: Callable[[], bytes]
) -> Iterator[None]:
    """Serves the metrics where they have an address of their own. Raises `StartError`."""
    config = parts.config.metrics
    if not (config.enabled and config.host):
        yield
        return
    sock = _listening("metrics", config.host, config.port)
    with server.serving(inspection(healthy, metrics), sock):
        say(logging.INFO, "metrics", url=f"{server.address(sock)}/metrics")
        yield


def shared_report(parts: Parts, token: str, kept: KeptReports | None = None) -> str | None:
    """The report that a signed link leads to, a job's as its owner is shown it, or one that is
    ``kept``; None: to none."""
    target = parts.links.target(token)
    if target is None:
        return None if kept is None else kept.shared(token)
    found = listing.current_verdicts(parts.database, target.job, target.cluster)
    # Only this report: without links to the other pages.
    return next(
        (
            rendering.owners_page(stored)
            for stored in found
            if stored.incarnation == target.incarnation
        ),
        None,
    )


def _sending(parts: Parts) -> list[str]:
    silent = kept_back(parts.config, parts.channels)
    return [name for name in parts.channels if name not in silent]


def _node_states(config: Config) -> Callable[[], Known]:
    scontrol = None if config.slurm.source == "none" else find(config.slurm.sacct)
    if scontrol is None:
        return dict
    return NodeStates(scontrol, config.slurm.clusters, config.slurm.timeout_s).known


def _listening(table: str, host: str, port: int) -> socket.socket:
    try:
        return server.listener(host, port)
    except OSError as error:
        raise StartError(
            f"{table}: cannot listen on {host} port {port}: {error.strerror}. "
            f"Is another firstfault running? Set {table}.port to a free one."
        ) from error
