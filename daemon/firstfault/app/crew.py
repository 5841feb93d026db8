"""The threads that do the workers' work under one configuration, and how they are ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from firstfault.app import workers
from firstfault.app.workers import Bells, Worker

# A pass that lasts longer hangs in something that has no end of its own.
STUCK_S = 900.0


class Crew:
    """A thread for each worker of a table. It works from `start` to `stop`, once."""

    def __init__(self, table: Mapping[str, Worker], bells: Bells) -> None:
        self._bells = bells
        self._stop = threading.Event()
        self._begun: dict[str, float] = {}
        bells.stop = self._stop
        self._threads = [
            # daemon: the process may end while one of them hangs.
            threading.Thread(target=self._work, args=(name, worker), name=name, daemon=True)
            for name, worker in table.items()
        ]

    def start(self) -> None:
        """Begins to work."""
        for thread in self._threads:
            thread.start()

    def begin_to_stop(self) -> None:
        """Tells all to come to an end after the pass that they are in."""
        self._stop.set()
        self._bells.ring_all()

    def stop(self, seconds: float) -> list[str]:
        """Ends the work; the names of those that were still in a pass after ``seconds``.

        What these have in hand is theirs until the lease ends, and is done again after it.
        """
        self.begin_to_stop()
        deadline = time.monotonic() + seconds
        for thread in self._started():
            thread.join(max(0.0, deadline - time.monotonic()))
        return [thread.name for thread in self._threads if thread.is_alive()]

    def is_ended(self) -> bool:
        """True when no worker is in a pass any more."""
        return not any(thread.is_alive() for thread in self._threads)

    def dead(self) -> list[str]:
        """The workers whose thread ended though it should not."""
        if self._stop.is_set():
            return []
        return [thread.name for thread in self._started() if not thread.is_alive()]

    def busy_s(self) -> dict[str, float]:
        """For how many seconds each worker has been in its present pass; 0 while it waits."""
        now = time.monotonic()
        begun = dict(self._begun)
        return {
            thread.name: max(0.0, now - begun.get(thread.name, now)) for thread in self._threads
        }

    def stuck(self) -> list[str]:
        """The workers whose pass lasts too long."""
        return [name for name, seconds in self.busy_s().items() if seconds > STUCK_S]

    def is_healthy(self) -> bool:
        """True while every worker lives and none is stuck."""
        return not self.dead() and not self.stuck()

    def _started(self) -> list[threading.Thread]:
        return [thread for thread in self._threads if thread.ident is not None]

    def _work(self, name: str, worker: Worker) -> None:
        def once() -> int:
            self._begun[name] = time.monotonic()
            try:
                return worker.once()
            finally:
                del self._begun[name]

        workers.loop(name, Worker(once, worker.wait_s), self._bells, self._stop)
