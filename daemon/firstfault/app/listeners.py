"""What the daemon answers on the network. Each listener is a context: it serves while it is open."""

from __future__ import annotations

import logging
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
def serving_pages(parts: Parts, healthy: Callable[[], bool]) -> Iterator[None]:
    """Serves the pages, where they are turned on. Raises `StartError`."""
    web = parts.config.web
    if not web.enabled:
        yield
        return
    try:
        sock = server.listener(web.host, web.port)
    except OSError as error:
        raise StartError(
            f"web: cannot listen on {web.host} port {web.port}: {error.strerror}. "
            f"Is another firstfault running? Set web.port to a free one."
        ) from error
    application = pages.application(StoredFailures(parts.database), rendering.served_page, healthy)
    with server.serving(application, sock):
        say(logging.INFO, "pages", url=server.address(sock))
        yield
