"""Who reads: what a request proves of its sender.

Ways are asked one after the other; docs/access.md tells what each is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request

from firstfault.model.board import NOBODY, Reader
from firstfault.web.refusals import Refusal

# Who does not answer (munged, a directory service) holds up so many threads, and a request so long.
WAITING_MAX = 8
WAIT_S = 10.0

T = TypeVar("T")


class Identity(NamedTuple):
    """Who a request comes from. ``ambient``: by something that a browser sends by itself, so that
    another site could make it send it; forms then need their token. ``why`` says why it is nobody;
    it may be told to the sender. ``digest`` is the SHA-256 (hex) of the body that was signed, None
    where nothing was."""

    reader: Reader
    ambient: bool = True
    why: str = ""
    digest: str | None = None


class Access(Protocol):
    """Who reads."""

    @property
    def note(self) -> str:
        """What the pages say at their foot of how access is given, "" for nothing."""

    async def identify(self, request: Request) -> Identity:
        """Who sends ``request``; nobody where nothing proves it. Raises `Refusal` where that
        cannot be found out now."""


class Way(Protocol):
    """One way to prove who one is."""

    async def identify(self, request: Request) -> Identity | None:
        """Who sends ``request``; None where it does not take this way. Raises `Refusal`."""


# What a user with a proven name may see; may block. Raises `Unasked`.
Rights = Callable[[str], Reader]


class Unasked(Exception):
    """Who knows could not be asked; the message says what to look at."""


class Open:
    """Everyone who reaches the pages is an administrator; for loopback alone."""

    note = "No access control: whoever reaches this page may see and do everything."

    async def identify(self, request: Request) -> Identity:
        """See `Access`."""
        return Identity(Reader("anyone", administrator=True))


# Who brings a proof that nothing here checks is told so.
_OFF = {
    "firstfault-munge ": "MUNGE is not turned on here: web.munge",
    "bearer firstfault_": "tokens are not turned on here: web.tokens_file",
}


class Ways:
    """The first way that a request takes decides; without one it is nobody's."""

    note = ""

    def __init__(self, ways: Sequence[Way]) -> None:
        self._ways = tuple(ways)

    async def identify(self, request: Request) -> Identity:
        """See `Access`."""
        if len(request.headers.getlist("authorization")) > 1:
            return nobody("it has two Authorization headers")
        for way in self._ways:
            found = await way.identify(request)
            if found is not None:
                return found
        given = request.headers.get("authorization", "").lower()
        return nobody(next((said for begin, said in _OFF.items() if given.startswith(begin)), ""))


def nobody(why: str) -> Identity:
    """Nobody, and why."""
    return Identity(NOBODY, why=why)


async def asked(question: Callable[[], T]) -> T:
    """What ``question``, which may block, answers; asked in a thread. Raises `Refusal` where it
    raises `Unasked` or takes too long."""
    try:
        with anyio.fail_after(WAIT_S):
            return await anyio.to_thread.run_sync(
                question, abandon_on_cancel=True, limiter=_limiter()
            )
    except Unasked as error:
        raise Refusal(503, str(error), {"retry-after": "5"}) from error
    except TimeoutError:
        raise Refusal(
            503, "Who you are could not be found out in time.", {"retry-after": "5"}
        ) from None


_WAITING: anyio.CapacityLimiter | None = None


def _limiter() -> anyio.CapacityLimiter:
    # Of threads of their own: the pages' must not be held up.
    global _WAITING
    if _WAITING is None:
        _WAITING = anyio.CapacityLimiter(WAITING_MAX)
    return _WAITING
