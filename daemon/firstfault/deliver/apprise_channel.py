"""Messages by Apprise (https://github.com/caronc/apprise): Teams, Matrix, ntfy and many more.

Apprise tells no more than whether a service took the message; why not it only logs. Its URLs hold
secrets: what it logged is quoted only where no part of the URL is in it.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from firstfault.deliver.outcome import Failed, Result, Sent
from firstfault.deliver.patience import within
from firstfault.model.jobs import Delivery

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG = "apprise"
_REASON = 300
# Shorter parts of a URL are words that any message may hold.
_SHORTEST_SECRET = 4


class Note(msgspec.Struct, frozen=True):
    """A message; ``failure`` False: it takes an earlier one back."""

    title: str
    body: str
    failure: bool = True


class AppriseError(ValueError):
    """A URL that Apprise does not know; the message does not quote it."""


class AppriseChannel:
    """Sends to the one service that ``url`` names. Raises `AppriseError`.

    ``note`` gives what a delivery says.
    """

    def __init__(self, url: str, timeout_s: float, note: Callable[[Delivery], Note]) -> None:
        import apprise  # an extra

        self._timeout_s = timeout_s
        self._note = note
        self._secrets = [
            part for part in re.split(r"[/?&=@:]+", url)[1:] if len(part) >= _SHORTEST_SECRET
        ]
        self._apprise = apprise.Apprise()
        # Apprise's own time-outs, for connecting and for each read; the URL may set its own.
        limits = f"cto={timeout_s:g}&rto={timeout_s:g}"
        with _heard():
            known = self._apprise.add(f"{url}{'&' if '?' in url else '?'}{limits}")
        if not known:
            raise AppriseError("is no URL that Apprise knows (https://appriseit.com/services)")

    def send(self, delivery: Delivery) -> Result:
        """Sends once, and waits no longer than twice the time-out."""
        note = self._note(delivery)
        seconds = 2 * self._timeout_s
        late = Failed(f"the service did not answer within {seconds:g} s")
        return within(seconds, lambda: self._notified(note), late)

    def _notified(self, note: Note) -> Result:
        with _heard() as lines:
            taken = self._apprise.notify(
                title=note.title,
                body=note.body,
                notify_type="failure" if note.failure else "info",
                body_format="text",
            )
        if taken:
            return Sent()
        said = " ".join(" ".join(lines).split())[:_REASON]
        if not said or any(secret in said for secret in self._secrets):
            return Failed("the service did not take the message")
        return Failed(f"the service did not take the message: {said}")


@contextmanager
def _heard() -> Iterator[list[str]]:
    """What Apprise logs in this thread as a warning or worse."""
    lines: list[str] = []
    here = threading.get_ident()

    class Hearer(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread == here:
                lines.append(record.getMessage())

    logger, hearer = logging.getLogger(_LOG), Hearer(logging.WARNING)
    logger.propagate = False  # else it would go to the daemon's log, URL and all
    logger.addHandler(hearer)
    try:
        yield lines
    finally:
        logger.removeHandler(hearer)
