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
    """It was not taken. ``retry`` False: trying again cannot help; ``after_s`` is as asked."""

    reason: str
    retry: bool = True
    after_s: float | None = None


class Channel(Protocol):
    """One way to the readers of reports."""

    def send(self, delivery: Delivery) -> Sent | Failed:
        """Tries once. Never raises for what the receiver or the network does."""


def retry_at(failed: Failed, attempts: int, limit: int, now: dt.datetime) -> dt.datetime | None:
    """When to try again after ``attempts`` attempts of at most ``limit``; None: give up."""
    if not failed.retry or attempts >= limit:
        return None
    wait_s = min(FIRST_RETRY_S * 2.0 ** min(attempts - 1, 20), LONGEST_RETRY_S)
    if failed.after_s is not None:
        wait_s = max(wait_s, failed.after_s)
    return now + dt.timedelta(seconds=wait_s)
