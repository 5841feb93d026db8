"""uvicorn's connection, with an end for every wait: who sends no head, or takes no answer, is cut."""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

# From connecting, or the first byte after an answer, to the end of a request's head.
HEAD_S = 10.0
# Without a byte of the answer being taken.
STALL_S = 30.0
HEAD_BYTES = 32 * 1024


class Connection(H11Protocol):
    """See the module."""

    head_s = HEAD_S
    stall_s = STALL_S
    _head: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """The head is awaited from now on."""
        super().connection_made(transport)
        self._head = self.loop.call_later(self.head_s, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        self._end_head()
        self._end_stall()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The head is awaited until it is whole; of the next request from its first byte on."""
        super().data_received(data)
        if self._is_answering():
            self._end_head()
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(self.head_s, self._head_is_late)

    def pause_writing(self) -> None:
        """The reader takes less than is sent."""
        super().pause_writing()
        self._begin_stall()

    def resume_writing(self) -> None:
        """The reader has taken what waited."""
        self._end_stall()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """The connection is idle: what it has not taken by now it gets a last moment for."""
        super().timeout_keep_alive_handler()
        self._begin_stall()

    def _is_answering(self) -> bool:
        cycle = cast("object | None", self.cycle)  # None before the first request
        return cycle is not None and not self.cycle.response_complete

    def _head_is_late(self) -> None:
        self._head = None
        if not self._is_answering():
            self._abort()

    def _abort(self) -> None:
        self.transport.abort()

    def _end_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _begin_stall(self) -> None:
        self._end_stall()
        waiting = self.transport.get_write_buffer_size()
        self._stall = self.loop.call_later(self.stall_s, self._look_at_stall, waiting)

    def _look_at_stall(self, waiting: int) -> None:
        # A slow reader of a large answer takes a while, and some of it each time.
        if self.transport.get_write_buffer_size() < waiting:
            self._begin_stall()
        else:
            self._abort()

    def _end_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
