"""What came of one attempt to deliver, and what follows from it."""

from __future__ import annotations

import datetime as dt
from typing import Protocol

import msgspec

from firstfault.model.jobs import Delivery

FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 600.0


class Sent(msgspec.Struct, frozen=True):
    """The receiver took it."""


class Failed(msgspec.Struct, frozen=True):
    """It was not taken. ``retry`` False: trying again cannot help; ``after_s`` is as asked.

    ``alone``: it says nothing of other deliveries, which may go.
    """

    reason: str
    retry: bool = True
    after_s: float | None = None
    alone: bool = False


class Needless(msgspec.Struct, frozen=True):
    """Nobody is to be told; ``reason`` is for administrators."""

    reason: str


Result = Sent | Failed | Needless


class Channel(Protocol):
    """One way to the readers of reports."""

    def send(self, delivery: Delivery) -> Result:
        """Tries once. Never raises for what the receiver or the network does."""


def retry_at(
    failed: Failed, attempts: int, limit: int, now: dt.datetime, chance: float = 0.0
) -> dt.datetime | None:
    """When to try again after ``attempts`` attempts of at most ``limit``; None: give up.

    The pauses double, and ``chance`` (0 to 1) makes them up to a quarter longer, so that what
    failed together does not come back together.
    """
    if not failed.retry or attempts >= limit:
        return None
    return now + dt.timedelta(seconds=max(pause_s(attempts, chance), failed.after_s or 0.0))


def pause_s(failures: int, chance: float, longest_s: float = LONGEST_RETRY_S) -> float:
    """Seconds to wait after so many failures in a row (1 or more)."""
    return min(FIRST_RETRY_S * 2.0 ** min(failures - 1, 20), longest_s) * (1.0 + chance / 4)
