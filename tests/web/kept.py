"""A keeper over a real store, with a report that alice keeps."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager

from firstfault.app.explained import KeptReports
from firstfault.app.links import Links
from firstfault.config import Explain
from firstfault.model.board import Reader
from firstfault.model.explained import Explained
from firstfault.model.verdict import Cause, Job, Verdict
from firstfault.store import explained
from firstfault.store.database import Database, open_store
from tests.web.boards import NOW

ID = "5e" * 16
LINKS = Links("https://faults.example.org/", "k" * 32, 14)
VERDICT = Verdict(Job(id="77"), Cause("gpu.ecc", "A GPU of n3 lost memory", "system", "likely"))


class Clock:
    """Tells `NOW`, until it is set."""

    def __init__(self) -> None:
        self.at = NOW

    def __call__(self) -> dt.datetime:
        return self.at


class Lasting(KeptReports):
    """What is forgotten is there again for who asks next: for tests that ask as everyone."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, Explain(), lambda: LINKS, Clock())
        self._store = database
        put(database)

    def forget(self, reader: Reader, name: str) -> bool:
        done = super().forget(reader, name)
        if done:
            put(self._store, name)
        return done


def put(
    database: Database, name: str = ID, owner: str = "user alice", verdict: Verdict = VERDICT
) -> None:
    """Stores a report under an id that is known."""
    title = f"Job {verdict.job.id}"
    row = explained.Row(name, owner, owner, NOW, title, "gpu.ecc", "likely")
    body = explained.packed(Explained(verdict))
    assert explained.keep(database, row, body, NOW - dt.timedelta(days=1), 1000)


@contextmanager
def lasting(url: str) -> Iterator[Lasting]:
    """A keeper over a store at ``url``."""
    database = open_store(url)
    yield Lasting(database)
    database.close()


@contextmanager
def keeping(
    url: str, settings: Explain | None = None, links: Links = LINKS
) -> Iterator[tuple[KeptReports, Clock]]:
    """A keeper over an empty store at ``url``, and its clock."""
    database, clock = open_store(url), Clock()
    yield KeptReports(database, settings or Explain(), lambda: links, clock), clock
    database.close()
