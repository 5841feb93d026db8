"""Files that the intake has to leave in the spool: told once, and again where the reason changes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from firstfault.app import counters
from firstfault.app.journal import say
from firstfault.intake.spool import Refused, Sweep


class LeftOver:
    """What the scans of one spool left, as far as it was told."""

    def __init__(self) -> None:
        self._unreadable: dict[Path, str] = {}
        self._stuck: dict[Path, str] = {}

    def tell(self, swept: Sweep) -> None:
        """Logs what is new among the files that a scan left, and counts all of them."""
        new = _news(self._unreadable, swept.unreadable)
        for unreadable in new:
            counters.RECORDS.labels("spool", "unreadable").inc()
            path, reason = unreadable.path, unreadable.reason
            say(logging.ERROR, "record-unreadable", path=path, reason=reason)
        new = _news(self._stuck, swept.stuck)
        if new:
            count, first = len(swept.stuck), new[0]
            say(logging.ERROR, "records-stuck", count=count, path=first.path, reason=first.reason)
        for kind, left in (("unreadable", swept.unreadable), ("stuck", swept.stuck)):
            counters.SPOOL_LEFT.labels(kind).set(len(left))


def _news(told: dict[Path, str], left: Sequence[Refused]) -> list[Refused]:
    """Those of ``left`` that were not told, or not so; ``told`` is brought up to date."""
    new = [each for each in left if told.get(each.path) != each.reason]
    told.clear()
    told.update((each.path, each.reason) for each in left)
    return new
