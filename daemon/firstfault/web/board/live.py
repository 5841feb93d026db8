"""New failures as they come: server-sent events to the pages that are open.

An event says that something changed, and which failures stand first in the list that a page shows;
the page finds out what of that is new to it. However many pages are open, the board is asked once
a second for each reader's rights.
https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Hashable
from typing import TypeVar, cast

import msgspec
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from firstfault.model.board import Board, FailureFilter, FailurePage, Reader
from firstfault.report.filters import segment
from firstfault.web.board import filtering
from firstfault.web.board.layout import answer
from firstfault.web.places import Place
from firstfault.web.refusals import Refusal
from firstfault.web.server import IS_ENDING

LOGGER = logging.getLogger("firstfault")

PATH = "/live"
FIRST = 20
SHOWN = 10
ASK_S = 1.0
HEARTBEAT_S = 15.0
# A browser comes again by itself; whether its reader still may is asked then.
LONGEST_S = 300.0
AGAIN_MS = 5000
MOST_ANSWERS = 500
SEND_S = 10.0

T = TypeVar("T")


class Memory:
    """Answers of the board, each asked for at most once in ``keep_s``, however many want it.

    While the board fails, what it said last is said again.
    """

    def __init__(self, keep_s: float = ASK_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._keep_s = keep_s
        self._clock = clock
        self._known: dict[Hashable, tuple[float, asyncio.Future[object]]] = {}
        self._fails = False

    async def answer(self, key: Hashable, ask: Callable[[], T]) -> T | None:
        """What ``ask`` says, or said a moment ago; None where it never could."""
        at = self._clock()
        asked_at, future = self._known.get(key, (0.0, None))
        if future is None or (future.done() and at - asked_at >= self._keep_s):
            before = None if future is None else future
            future = asyncio.ensure_future(self._ask(ask, before))
            self._known[key] = (at, future)
            self._forget(at)
        # The question is everybody's: it goes on when one of them leaves.
        return cast("T | None", await asyncio.shield(future))

    async def _ask(
        self, ask: Callable[[], object], before: asyncio.Future[object] | None
    ) -> object:
        try:
            found = await run_in_threadpool(ask)
        except Exception as error:  # noqa: BLE001 - boundary: the streams outlive a store that is away
            if not self._fails:
                self._fails = True
                LOGGER.warning("live-waits", extra={"values": {"error": type(error).__name__}})
            return None if before is None else before.result()
        self._fails = False
        return found

    def _forget(self, at: float) -> None:
        # In the order in which they were first asked: however many filters are tried, few are kept.
        excess = len(self._known) - MOST_ANSWERS
        old = [
            key
            for number, (key, (asked_at, future)) in enumerate(self._known.items())
            if future.done() and (number < excess or at - asked_at > 60 * self._keep_s)
        ]
        for key in old:
            del self._known[key]


class Stream(EventSourceResponse):
    """The events of one page. A reader that takes none is left."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends them until one of both ends leaves."""
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            return


def places(board: Board, memory: Memory | None = None) -> list[Place]:
    """The places of the events, and of the newest failures as a part of a page."""
    kept = memory or Memory()

    async def live(request: Request, reader: Reader) -> Response:
        which = _which(request)
        after = request.headers.get("last-event-id")
        is_ending = request.scope.get(IS_ENDING, lambda: False)
        events = _events(board, kept, reader, which, after, is_ending)
        return Stream(
            events,
            ping=HEARTBEAT_S,
            ping_message_factory=lambda: ServerSentEvent(comment="still here"),
            send_timeout=SEND_S,
            sep="\n",
        )

    async def newest(request: Request, reader: Reader) -> Response:
        which = _which(request)
        key = (_rights(reader), which, SHOWN)
        found = await kept.answer(key, lambda: board.failures(reader, which, None, SHOWN))
        return await run_in_threadpool(
            answer,
            "newest.html",
            request,
            reader,
            newest=(found or FailurePage(())).failures,
            listing=filtering.address(which),
        )

    return [
        Place(PATH, live, "reader", streams=True),
        Place(f"{PATH}/newest", newest, "reader"),
    ]


async def _events(
    board: Board,
    memory: Memory,
    reader: Reader,
    which: FailureFilter,
    after: str | None,
    is_ending: Callable[[], bool],
) -> AsyncIterator[ServerSentEvent]:
    yield ServerSentEvent(comment="firstfault", retry=AGAIN_MS)
    ends_at = time.monotonic() + LONGEST_S
    while time.monotonic() < ends_at and not is_ending():
        number = await memory.answer(_rights(reader), lambda: board.newest_at(reader)[0])
        if number is not None and str(number) != after:
            key = (_rights(reader), which, FIRST)
            page = await memory.answer(key, lambda: board.failures(reader, which, None, FIRST))
            if page is not None:
                after = str(number)
                yield ServerSentEvent(data=_said(page), event="failures", id=after, sep="\n")
        await asyncio.sleep(ASK_S / 2)


def _said(page: FailurePage) -> str:
    """The failures' keys, as the rows of the pages have them."""
    keys = [
        f"/jobs/{segment(each.cluster or '-')}/{segment(each.job)}?incarnation={each.incarnation}"
        for each in page.failures
    ]
    return msgspec.json.encode(keys).decode()


def _which(request: Request) -> FailureFilter:
    asked = filtering.read(request.query_params.multi_items())
    if asked.wrong:
        name, said = next(iter(asked.wrong.items()))
        raise Refusal(400, f"{name}: {said}")
    return msgspec.structs.replace(asked.which, sort=filtering.NEWEST)


def _rights(reader: Reader) -> Hashable:
    # Who sees the same is answered the same.
    return reader.administrator or (reader.user, reader.accounts)
