"""Waiting for a receiver no longer than a given time.

requests' own time-outs begin anew with each byte: a receiver that sends its answer byte by byte
would hold a channel for ever. Whoever does is left to a thread of its own.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from firstfault.deliver.outcome import Result


def within(seconds: float, work: Callable[[], Result], late: Result) -> Result:
    """What ``work`` returns, or ``late`` where it takes longer. What it raises is raised here."""
    done: queue.SimpleQueue[Result | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put(work())
        except BaseException as error:  # noqa: BLE001 - boundary: whoever waits must hear of it
            done.put(error)

    threading.Thread(target=run, name="deliver", daemon=True).start()
    try:
        result = done.get(timeout=seconds)
    except queue.Empty:
        return late
    if isinstance(result, BaseException):
        raise result
    return result
