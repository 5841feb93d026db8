"""A clock that is set back (NTP after a wrong start, an administrator) must not stop the work.

Everything that is due is kept with its wall-clock time, so that it outlives the daemon: after a
step back by an hour it would lie for an hour.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable

from firstfault.app.journal import say
from firstfault.store import clock
from firstfault.store.database import Database

CHECK_S = 5.0
# Less is waited out; NTP slews what is less than its 128 ms.
STEP_S = 2.0
# Nothing is put off by more: a receiver's Retry-After is the longest.
LONGEST_WAIT = dt.timedelta(hours=1)


class SetBack:
    """Looks for a step of the wall clock back, while the daemon runs and before it was started."""

    def __init__(
        self,
        database: Database,
        wake: Callable[[], None],
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._wake = wake
        self._wall = wall
        self._monotonic = monotonic
        self._ahead_s: float | None = None

    def once(self) -> int:
        """Makes due what a step has put off; how much that was."""
        ahead_s = self._wall() - self._monotonic()
        now = dt.datetime.fromtimestamp(self._wall(), dt.UTC)
        touched = 0
        if self._ahead_s is None:
            touched = clock.bring_near(self._database, now, LONGEST_WAIT)
        elif self._ahead_s - ahead_s > STEP_S:
            touched = clock.bring_near(self._database, now, dt.timedelta(0))
            s = round(self._ahead_s - ahead_s, 1)
            say(logging.WARNING, "clock-set-back", s=s, made_due=touched)
        # Only now: where the store could not be written to, the next pass does it.
        self._ahead_s = ahead_s
        if touched:
            self._wake()
        return touched
