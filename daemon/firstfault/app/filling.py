"""Puts into the dashboard's tables what was judged by a program that had none of them."""

from __future__ import annotations

import logging
import threading

from firstfault.app.journal import say
from firstfault.store import filling
from firstfault.store.database import Database

# Another program of before may be at work on the same store: it is looked again once in a while.
EVERY_S = 6 * 3600.0
# Others write in between; a store of a million jobs takes some hours so.
PAUSE_S = 0.1


class Filling:
    """One pass goes through all jobs, the newest first, until ``stop`` is set."""

    def __init__(self, database: Database, stop: threading.Event) -> None:
        self._database = database
        self._stop = stop

    def once(self) -> int:
        """Returns 0: the next pass has its own time."""
        put = unreadable = 0
        below: int | None = None
        while not self._stop.is_set():
            step = filling.fill(self._database, below)
            put += step.put
            unreadable += step.unreadable
            below = step.below
            if below is None:
                break
            self._stop.wait(PAUSE_S if step.put else 0.0)
        if put or unreadable:
            say(logging.INFO, "failures-listed", count=put, unreadable=unreadable)
        return 0
