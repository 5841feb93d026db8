"""How much may be asked at once and how often, so that no reader takes the pages from the others."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from firstfault.web.refusals import Refusal

_READERS_MAX = 10_000


class Pace(NamedTuple):
    """How often what is costly may be asked for: so many ``at_once`` (of one reader one), so many
    in a minute of each reader, and of all."""

    at_once: int = 2
    per_minute: int = 20
    all_per_minute: int = 60


USUAL = Pace()


class Rate:
    """``often`` in ``within_s`` seconds for each who, and as many at once; a bucket of tokens."""

    def __init__(
        self, often: int, within_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._often = often
        self._within_s = within_s
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> float:
        """Takes one; 0.0 where there was one, else the seconds until there is."""
        now = self._clock()
        left, at = self._buckets.pop(who, (float(self._often), now))
        left = min(float(self._often), left + (now - at) * self._often / self._within_s)
        wait_s = 0.0 if left >= 1 else (1 - left) * self._within_s / self._often
        self._buckets[who] = (left if wait_s else left - 1, now)
        if len(self._buckets) > _READERS_MAX:
            self._buckets.popitem(last=False)  # who asked least recently has the fullest bucket
        return wait_s


class Slots:
    """``most`` at once, ``each`` of one who; who finds none free waits ``wait_s`` at most."""

    def __init__(self, most: int, each: int, wait_s: float = 0.0) -> None:
        self._most = most
        self._each = each
        self._wait_s = wait_s
        self._taken: dict[str, int] = {}
        self._freed = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, who: str) -> AsyncIterator[None]:
        """Holds a place. Raises `Refusal`."""
        await self.take(who)
        try:
            yield
        finally:
            await self.give_back(who)

    async def take(self, who: str) -> None:
        """Takes a place, to be given back. Raises `Refusal`."""
        if not self._is_free(who):
            try:
                async with asyncio.timeout(self._wait_s), self._freed:
                    await self._freed.wait_for(lambda: self._is_free(who))
            except TimeoutError:
                raise Refusal(
                    503,
                    "Too many are at this at once. Try again in a moment.",
                    {"retry-after": "5"},
                ) from None
        self._taken[who] = self._taken.get(who, 0) + 1

    async def give_back(self, who: str) -> None:
        """Gives a place back."""
        self._taken[who] -= 1
        if not self._taken[who]:
            del self._taken[who]
        async with self._freed:
            self._freed.notify_all()

    def _is_free(self, who: str) -> bool:
        return sum(self._taken.values()) < self._most and self._taken.get(who, 0) < self._each
