"""What the daemon answers on the network. Each listener is a context: it serves while it is open."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from firstfault.app import rendering
from firstfault.app.journal import say
from firstfault.app.workers import Parts, StartError
from firstfault.model.jobs import JobSummary, StoredVerdict
from firstfault.store import listing
from firstfault.store.database import Database
from firstfault.web import pages, server


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


@contextmanager
def serving_pages(
    now: Callable[[], Parts], healthy: Callable[[], bool], metrics: Callable[[], bytes]
) -> Iterator[None]:
    """Serves the pages, where they are turned on, and the metrics, where they have no address of
    their own. ``now`` gives the parts of the moment. Raises `StartError`."""
    parts = now()
    web = parts.config.web
    if not web.enabled:
        yield
        return
    here = parts.config.metrics.enabled and not parts.config.metrics.host
    application = pages.application(
        StoredFailures(parts.database),
        rendering.served_page,
        healthy,
        metrics if here else None,
        lambda token: _shared(now(), token),
    )
    sock = _listening("web", web.host, web.port)
    with server.serving(application, sock):
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
    application = pages.inspection(healthy, metrics)
    sock = _listening("metrics", config.host, config.port)
    with server.serving(application, sock):
        say(logging.INFO, "metrics", url=f"{server.address(sock)}/metrics")
        yield


def _shared(parts: Parts, token: str) -> str | None:
    target = parts.links.target(token)
    if target is None:
        return None
    found = listing.current_verdicts(parts.database, target.job, target.cluster)
    # Only this report: without links to the other pages.
    return next(
        (rendering.page(stored) for stored in found if stored.incarnation == target.incarnation),
        None,
    )


def _listening(table: str, host: str, port: int) -> socket.socket:
    try:
        return server.listener(host, port)
    except OSError as error:
        raise StartError(
            f"{table}: cannot listen on {host} port {port}: {error.strerror}. "
            f"Is another firstfault running? Set {table}.port to a free one."
        ) from error
