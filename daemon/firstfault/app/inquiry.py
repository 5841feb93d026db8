"""Slurm asked for those who wait a moment: many jobs in one question, paced, remembered for a while.

The nodes' questions come by the thousand as a job ends; Slurm gets one every few seconds.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

import msgspec

from firstfault.model.slurm import JobFacts
from firstfault.slurm.facts import FactsError

PACE_S = 2.0
FRESH_S = 10.0
BATCH = 500
JOBS_MAX = 10_000

Ask = Callable[[Sequence[str]], dict[str, list[JobFacts]]]


class _Known(msgspec.Struct, frozen=True):
    asked_at: float
    facts: tuple[JobFacts, ...]


class Inquiry:
    """Any thread may use `facts` and `want`; one worker, which ``wake`` wakes, calls `ask`.

    ``most_waiting`` callers may wait at once; more are told at once what is known.
    """

    def __init__(self, ask: Ask, wake: Callable[[], None], most_waiting: int) -> None:
        self._ask = ask
        self._wake = wake
        self._places = threading.Semaphore(most_waiting)
        self._changed = threading.Condition()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._wanted: OrderedDict[str, None] = OrderedDict()
        self._asked_at = -PACE_S

    def facts(self, job: str) -> tuple[JobFacts, ...]:
        """What Slurm said of the job when it was last asked."""
        with self._changed:
            known = self._known.get(job)
        return () if known is None else known.facts

    def want(self, jobs: Collection[str], wait_s: float) -> None:
        """Has Slurm asked of those ``jobs`` that it was not asked of in the last `FRESH_S`, and
        waits at most ``wait_s`` for the answer."""
        with self._changed:
            since = time.monotonic() - FRESH_S
            needed = {job for job in jobs if self._age(job) < since}
            # What finds no room is asked for again, by the node that gets no answer now.
            for job in needed:
                if len(self._wanted) < JOBS_MAX:
                    self._wanted[job] = None
        if needed:
            self._wake()
        if needed and self._places.acquire(blocking=False):
            try:
                with self._changed:
                    self._changed.wait_for(
                        lambda: all(self._age(job) >= since for job in needed), wait_s
                    )
            finally:
                self._places.release()

    def ask(self) -> int:
        """Asks Slurm once of what is wanted; returns of how many jobs. Raises `FactsError`."""
        now = time.monotonic()
        with self._changed:
            if now < self._asked_at + PACE_S or not self._wanted:
                return 0
            batch = [self._wanted.popitem(last=False)[0] for _ in range(self._batch())]
        self._asked_at = now
        try:
            found = self._ask(batch)
        except FactsError:
            with self._changed:
                self._wanted.update(dict.fromkeys(batch))
            raise
        with self._changed:
            for job in batch:
                self._known.pop(job, None)
                self._known[job] = _Known(time.monotonic(), tuple(found.get(job, ())))
            while len(self._known) > JOBS_MAX:
                self._known.popitem(last=False)
            self._changed.notify_all()
        return len(batch)

    def _batch(self) -> int:
        return min(len(self._wanted), BATCH)

    def _age(self, job: str) -> float:
        known = self._known.get(job)
        return float("-inf") if known is None else known.asked_at
