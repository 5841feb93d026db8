"""Where the command line reads stored failures: a daemon's API, or the store on this machine.

A daemon that is named (``--url``, FIRSTFAULT_URL) is asked; else the store, where this user may
read the configuration and open it; else the daemon of this machine.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from firstfault import config as configuration
from firstfault.app.board import StoredBoard
from firstfault.app.credentials import store_url
from firstfault.app.customs import use_customs
from firstfault.app.remote import Authorize, Remote, by_munge, by_token, token_in
from firstfault.model.board import FailureFilter, FailurePage, Reader
from firstfault.model.jobs import StoredVerdict
from firstfault.store import listing
from firstfault.store.database import Database, StoreError, connect
from firstfault.web.api import values

URL, TOKEN, TOKEN_FILE = "FIRSTFAULT_URL", "FIRSTFAULT_TOKEN", "FIRSTFAULT_TOKEN_FILE"


class Ended(NamedTuple):
    """The ends of jobs of a number: on which clusters ("-": of none), how many, and the newest
    verdict, None where there are several clusters, or none."""

    clusters: tuple[str, ...]
    ends: int
    newest: StoredVerdict | None


class Reading(Protocol):
    """What the commands ask; each may raise `RemoteError`, or what the store raises."""

    def failures(self, which: FailureFilter, page: str | None, limit: int) -> FailurePage:
        """A page of failures."""

    def nodes(self, hours: int, until: dt.datetime, cluster: str | None) -> values.Nodes:
        """The nodes of a time."""

    def ended(self, job: str, cluster: str | None) -> Ended:
        """The ends of jobs of a number, on one cluster or any."""


class Local:
    """The store on this machine: who may open it sees everything."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._board = StoredBoard(database)
        self._reader = Reader("command line", administrator=True)

    def failures(self, which: FailureFilter, page: str | None, limit: int) -> FailurePage:
        """See `Reading`."""
        return self._board.failures(self._reader, which, page, limit)

    def nodes(self, hours: int, until: dt.datetime, cluster: str | None) -> values.Nodes:
        """See `Reading`."""
        since = until - dt.timedelta(hours=hours)
        found = self._board.nodes(self._reader, since, until, cluster)
        return values.Nodes(since, until, tuple(map(values.node, found)))

    def ended(self, job: str, cluster: str | None) -> Ended:
        """See `Reading`; of jobs that did not fail, too."""
        found = listing.current_verdicts(
            self._database,
            job,
            None if cluster == "-" else cluster,
            any_cluster=cluster is None,
        )
        clusters = tuple(sorted({each.cluster or "-" for each in found}))
        return Ended(clusters, len(found), found[0] if len(clusters) == 1 else None)


class Elsewhere:
    """A daemon, by its API."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def failures(self, which: FailureFilter, page: str | None, limit: int) -> FailurePage:
        """See `Reading`."""
        return self._remote.failures(which, page, limit)

    def nodes(self, hours: int, until: dt.datetime, cluster: str | None) -> values.Nodes:
        """See `Reading`."""
        return self._remote.nodes(hours, until, cluster)

    def ended(self, job: str, cluster: str | None) -> Ended:
        """See `Reading`."""
        found = [
            each
            for each in self._remote.ends(job)
            if cluster is None or cluster == (each.cluster or "-")
        ]
        clusters = tuple(sorted({each.cluster or "-" for each in found}))
        newest = self._remote.stored(found[0]) if len(clusters) == 1 else None
        return Ended(clusters, len(found), newest)


@contextmanager
def reading(
    config_file: Path | None = None, url: str | None = None, token_file: Path | None = None
) -> Iterator[Reading]:
    """Who is asked. Raises `RemoteError`, `ConfigError` or `StoreError`."""
    named = url or os.environ.get(URL)
    if named:
        remedy = f"Is it right ({'--url' if url else URL}), and does the daemon run?"
        yield Elsewhere(Remote(named, _authorize(named, token_file), remedy))
        return
    try:
        config = configuration.load(config_file)
        use_customs(config)
        database = connect(store_url(config))
    except (configuration.ConfigError, StoreError, OSError) as error:
        if config_file is not None:
            raise
        yield Elsewhere(_here(error, token_file))
        return
    try:
        yield Local(database)
    finally:
        database.close()


def _here(error: Exception, token_file: Path | None) -> Remote:
    """The daemon of this machine, as far as one can know who may not read its configuration."""
    web = configuration.Config().web
    why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
    url = f"http://{web.host}:{web.port}"
    remedy = (
        f"The store cannot be read here either ({why}). Give the address of firstfault's pages: "
        f"--url, or {URL} in the environment."
    )
    return Remote(url, _authorize(url, token_file), remedy)


def _authorize(url: str, token_file: Path | None) -> Authorize:
    named = token_file or (Path(os.environ[TOKEN_FILE]) if os.environ.get(TOKEN_FILE) else None)
    if named is not None:
        return by_token(token_in(named), url)
    return by_token(os.environ[TOKEN], url) if os.environ.get(TOKEN) else by_munge
