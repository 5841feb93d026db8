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
# What is in hand during a step is still put off by the clock of before it when it is stored. Such
# stragglers are told from what has to wait by how far off they are.
STRAGGLING_S = 120.0
_NEAR = dt.timedelta(minutes=10)


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
        self._straggling_until = 0.0
        self._far = LONGEST_WAIT

    def once(self) -> int:
        """Makes due what a step has put off. Returns 0: there is no more to do at once."""
        ahead_s = self._wall() - self._monotonic()
        back_s = 0.0 if self._ahead_s is None else self._ahead_s - ahead_s
        touched = 0
        if back_s > STEP_S:
            touched = self._bring_near(dt.timedelta(0))
            say(logging.WARNING, "clock-set-back", s=round(back_s, 1), made_due=touched)
            self._far = max(_NEAR, dt.timedelta(seconds=back_s / 2))
            self._straggling_until = self._monotonic() + STRAGGLING_S
        elif self._ahead_s is None or self._monotonic() < self._straggling_until:
            touched = self._bring_near(self._far)
        # Only now: where the store could not be written to, the next pass does it.
        self._ahead_s = ahead_s
        if touched:
            self._wake()
        return 0  # what comes later is for the next look

    def _bring_near(self, longest: dt.timedelta) -> int:
        now = dt.datetime.fromtimestamp(self._wall(), dt.UTC)
        return clock.bring_near(self._database, now, longest)
