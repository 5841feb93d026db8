"""Signals as values: their handlers do nothing, and the main thread reads which came.

A handler runs between any two steps of the main thread: one that logs or sets an event there can
wait for a lock that the main thread holds.
"""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Heard:
    """The signals that have come since they were last asked for."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def wait(self, seconds: float) -> list[signal.Signals]:
        """The next signals, oldest first; none after ``seconds`` without one."""
        if not select.select([self._sock], [], [], seconds)[0]:
            return []
        return [signal.Signals(number) for number in self._sock.recv(4096)]


@contextmanager
def hearing(numbers: Sequence[signal.Signals]) -> Iterator[Heard]:
    """Takes these signals while the block runs. For the main thread only."""
    ours, python = socket.socketpair()
    ours.setblocking(False)
    python.setblocking(False)
    before = {number: signal.signal(number, _nothing) for number in numbers}
    wakeup = signal.set_wakeup_fd(python.fileno(), warn_on_full_buffer=False)
    try:
        yield Heard(ours)
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        ours.close()
        python.close()


def _nothing(_number: int, _frame: object) -> None:
    pass
