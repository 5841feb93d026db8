"""Sending on one channel, at the receiver's pace."""

from __future__ import annotations

import datetime as dt
import random
import time

from firstfault.app import passes
from firstfault.deliver.outcome import Channel, pause_s
from firstfault.store.database import Database

LONGEST_HOLD_S = 60.0


class Sender:
    """Leaves a receiver alone that is away, or asks for it: the other deliveries would fail
    alike, and use up their attempts."""

    def __init__(self, database: Database, name: str, channel: Channel, attempts: int) -> None:
        self._database = database
        self._name = name
        self._channel = channel
        self._attempts = attempts
        self._failures = 0
        self._hold_until = 0.0

    def once(self) -> int:
        """Sends the next delivery that is due; how many there were."""
        if time.monotonic() < self._hold_until:
            return 0
        turn = passes.deliver(
            self._database,
            self._name,
            self._channel,
            self._attempts,
            lambda: dt.datetime.now(dt.UTC),
        )
        if turn.away:
            self._failures += 1
            hold_s = max(turn.hold_s, pause_s(self._failures, random.random(), LONGEST_HOLD_S))  # noqa: S311 - no secret
            self._hold_until = time.monotonic() + hold_s
        elif turn.done:
            self._failures = 0
        return turn.done
