"""What is refused again and again, logged once and then counted: no sender fills the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from firstfault.app.journal import say

EACH_S = 60.0
# More senders than that are counted together.
SENDERS_MAX = 1000
OTHERS = "others"


class _Counted(msgspec.Struct):
    """What came since the last line: of which kind, how often, and the last of it."""

    level: int
    said_at: float
    count: int = 0
    values: dict[str, object] = {}


class Refusals:
    """The log of refused requests. The first of a sender and a status is a line; those of the
    minute after are counted, and told in one line with the last one's words. Threads may share it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counted: dict[tuple[str, int], _Counted] = {}

    def note(self, level: int, peer: str, path: str, status: int, reason: str) -> None:
        """Logs a refusal, or counts it."""
        values: dict[str, object] = {"path": path, "status": status, "reason": reason}
        with self._lock:
            key = peer, status
            if key not in self._counted and len(self._counted) >= SENDERS_MAX:
                key = OTHERS, 0
            known = self._counted.get(key)
            if known is None:
                self._counted[key] = _Counted(level, self._clock())
            else:
                known.level = max(known.level, level)
                known.count += 1
                known.values = values
                return
        say(level, "request-refused", **values, peer=key[0])

    def once(self) -> int:
        """Tells what was counted, of those whose minute is over; they are forgotten where nothing
        was. Returns 0: the next look has its own time."""
        return self._tell(self._clock() - EACH_S)

    def tell_all(self) -> None:
        """Tells what was counted, at the end."""
        self._tell(float("inf"))

    def _tell(self, until: float) -> int:
        due: list[tuple[str, _Counted]] = []
        with self._lock:
            for key, known in list(self._counted.items()):
                if known.said_at > until:
                    continue
                if not known.count:
                    del self._counted[key]
                    continue
                due.append((key[0], known))
                self._counted[key] = _Counted(known.level, self._clock())
        for peer, known in due:
            say(known.level, "request-refused", **known.values, peer=peer, count=known.count)
        return 0
