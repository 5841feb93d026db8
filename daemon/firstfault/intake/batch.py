"""Records on their way into the store: many in one transaction, each answered once it is committed.

What waits is bounded in bytes: a flood meets "not now" before it meets the end of the memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import msgspec

from firstfault.model.jobs import Incoming

BATCH = 250
BATCH_BYTES = 32 * 1024 * 1024

# Stores all or none, and returns the ids of those that it did not have yet.
Store = Callable[[Sequence[Incoming]], frozenset[str]]


class NoRoom(Exception):
    """More bytes are in flight than may be."""


class StoreAway(Exception):
    """The store takes nothing at the moment; the record was not kept."""


class Room:
    """So many bytes may be in flight, from a request's first byte to its record's commit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """Raises `NoRoom` where ``count`` more bytes are too many."""
        with self._lock:
            if self.taken + count > self.most:
                raise NoRoom(f"{self.taken} bytes of records wait to be stored")
            self.taken += count

    def give_back(self, count: int) -> None:
        """``count`` bytes are stored, or refused."""
        with self._lock:
            self.taken -= count


class _Waiting(msgspec.Struct, frozen=True):
    record: Incoming
    result: Future[bool]


class Writer:
    """The queue before the store. Any thread may `put`; one worker calls `write` and `close`."""

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._lock = threading.Lock()
        self._queue: deque[_Waiting] = deque()
        self._failing = False
        self._closed = False

    def put(self, record: Incoming) -> Future[bool]:
        """Queues ``record``; the result comes with the commit, True where the record was new.

        Raises `StoreAway`, as the result does, where the store fails: one record at a time still
        waits for it then, to see whether it is back.
        """
        waiting = _Waiting(record, Future())
        with self._lock:
            if self._closed or (self._failing and self._queue):
                raise StoreAway("the daemon stops" if self._closed else "the store is away")
            self._queue.append(waiting)
        self._wake()
        return waiting.result

    def write(self) -> int:
        """Stores what waits, in one transaction; returns how many records it took from the queue.

        Where the store fails, each record is tried alone, so that one that can never be stored
        holds up no other; after two failures in a row the store is taken for away. Raises what it
        raised last, once every record has its result.
        """
        batch = self._next()
        if not batch:
            return 0
        try:
            self._keep(batch)
        except Exception as error:  # noqa: BLE001 - boundary: whatever the store raises
            self._one_by_one(batch, error)
        self._failing = False
        return len(batch)

    def close(self) -> None:
        """Takes nothing more, and tells those that wait that they were not kept."""
        with self._lock:
            self._closed = True
            left = list(self._queue)
            self._queue.clear()
        for waiting in left:
            waiting.result.set_exception(StoreAway("the daemon stops"))

    def _next(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        with self._lock:
            while self._queue and len(batch) < BATCH and size < BATCH_BYTES:
                batch.append(self._queue.popleft())
                size += len(batch[-1].record.body)
        return batch

    def _keep(self, batch: Sequence[_Waiting]) -> None:
        new = self._store([waiting.record for waiting in batch])
        for waiting in batch:
            waiting.result.set_result(waiting.record.record_id in new)

    def _one_by_one(self, batch: Sequence[_Waiting], error: Exception) -> None:
        failures = 0
        last = error
        for number, waiting in enumerate(batch):
            try:
                if len(batch) > 1:
                    self._keep([waiting])
                    failures = 0
                    continue
            except Exception as again:  # noqa: BLE001 - boundary: as in `write`
                last = again
            waiting.result.set_exception(StoreAway("the store failed"))
            failures += 1
            if failures == 2 or len(batch) == 1:
                self._failing = True
                for left in batch[number + 1 :]:
                    left.result.set_exception(StoreAway("the store is away"))
                raise last
