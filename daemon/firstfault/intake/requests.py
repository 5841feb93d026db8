"""The nodes' requests (docs/transport.md): records to be kept, and which ends are wanted."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import NamedTuple

import msgspec

from firstfault.intake import questions, record, signing
from firstfault.intake.batch import NoRoom, Room, StoreAway, Writer
from firstfault.intake.listener import Answer, Exchange, TooLarge
from firstfault.intake.munge import MungeAway
from firstfault.intake.refused import Aside
from firstfault.model.evidence import EvidenceError, NewerSchema
from firstfault.model.jobs import Incoming

RECORDS = "/v1/records"
WANTED = "/v1/wanted"
HEALTH = "/healthz"
QUESTION_BYTES_MAX = 4 * 1024 * 1024
# The nodes give up after 60 s.
COMMIT_S = 30.0
NEWER_S = 3600


class Answered(NamedTuple):
    """What was answered to whom: ``reason`` is why, where it is an error."""

    path: str
    peer: str
    status: int
    seconds: float
    reason: str | None


# Runs in the listener's thread.
Seen = Callable[[Answered], None]


class _Refusal(Exception):
    def __init__(self, status: int, reason: str, retry_after_s: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.retry_after_s = retry_after_s


class Requests:
    """Handles the requests.

    The executors' threads bound how many records are unpacked at once (``checking``), how many
    wait for munged (``verifying``), and how many ask ``wanted``, which may block for seconds.
    """

    def __init__(
        self,
        *,
        signatures: signing.Signatures,
        writer: Writer,
        room: Room,
        limits: record.Limits,
        aside: Aside,
        wanted: Callable[[questions.Question], questions.Answers],
        checking: Executor,
        verifying: Executor,
        asking: Executor,
        seen: Seen,
    ) -> None:
        self._signatures = signatures
        self._writer = writer
        self._room = room
        self._limits = limits
        self._aside = aside
        self._wanted = wanted
        self._checking = checking
        self._verifying = verifying
        self._asking = asking
        self._seen = seen

    async def handle(self, exchange: Exchange) -> Answer:
        """The answer to one request. Raises `Cut`."""
        begun = time.monotonic()
        path = exchange.path if exchange.path in (RECORDS, WANTED, HEALTH) else "other"
        reason = None
        try:
            answer = await self._answer(exchange)
        except _Refusal as refusal:
            reason = str(refusal)
            answer = Answer(
                refusal.status,
                msgspec.json.encode({"error": reason}),
                retry_after_s=refusal.retry_after_s,
            )
        seconds = time.monotonic() - begun
        self._seen(Answered(path, exchange.peer, answer.status, seconds, reason))
        return answer

    async def _answer(self, exchange: Exchange) -> Answer:
        known = {RECORDS: "POST", WANTED: "POST", HEALTH: "GET"}
        method = known.get(exchange.path)
        if method is None:
            raise _Refusal(404, f"nothing here but {', '.join(known)}")
        if exchange.method != method:
            raise _Refusal(405, f"{exchange.path} takes {method}")
        if exchange.path == HEALTH:
            return Answer(200, b"ok\n", "text/plain")
        # Before the body: who may send nothing is not listened to.
        statement = await self._statement(exchange)
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            self._room.take(count)
            taken += count

        most = self._limits.file_bytes if exchange.path == RECORDS else QUESTION_BYTES_MAX
        try:
            body = await exchange.body(most, take)
            if not statement.covers(body):
                raise _Refusal(401, "the body is not the one that was signed")
            if exchange.path == WANTED:
                return await self._questioned(statement, body)
            return await self._recorded(statement, body)
        except TooLarge as error:
            raise _Refusal(413, f"larger than {most} bytes") from error
        except NoRoom as error:
            raise _Refusal(429, str(error), _spread_s()) from error
        finally:
            self._room.give_back(taken)

    async def _statement(self, exchange: Exchange) -> signing.Statement:
        given = exchange.header("authorization") or ""
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._verifying, self._signatures.statement, given, exchange.path
            )
        except signing.Refused as error:
            raise _Refusal(401, str(error)) from error
        except (MungeAway, signing.Full) as error:
            raise _Refusal(503, str(error), _spread_s()) from error

    async def _recorded(self, statement: signing.Statement, body: bytes) -> Answer:
        checked = await asyncio.get_running_loop().run_in_executor(
            self._checking, self._checked, statement, body
        )
        if checked is None:
            return Answer(200, b'{"result": "kept for a newer daemon"}')
        try:
            async with asyncio.timeout(COMMIT_S):
                new = await _result(self._writer.put(checked))
        except (StoreAway, TimeoutError) as error:
            raise _Refusal(503, str(error) or "the store is slow", _spread_s()) from error
        return Answer(200, b'{"result": "stored"}' if new else b'{"result": "known"}')

    def _checked(self, statement: signing.Statement, body: bytes) -> Incoming | None:
        """The record; None where only a newer daemon can read it, which then finds it kept."""
        try:
            incoming = record.incoming(body, self._limits)
        except NewerSchema as error:
            if self._aside.keep_newer(body, f"{error} (sent by {statement.node})") is None:
                raise _Refusal(503, f"{error}: upgrade the daemon", NEWER_S) from error
            return None
        except EvidenceError as error:
            self._aside.keep(body, f"{error} (sent by {statement.node})")
            raise _Refusal(422, str(error)) from error
        if incoming.node != statement.node:
            raise _Refusal(401, f"node {statement.node} sends a record of node {incoming.node}")
        return incoming

    async def _questioned(self, statement: signing.Statement, body: bytes) -> Answer:
        try:
            question = questions.decode(body)
        except questions.QuestionError as error:
            raise _Refusal(422, str(error)) from error
        if question.node != statement.node:
            raise _Refusal(401, f"node {statement.node} asks as node {question.node}")
        try:
            answers = await asyncio.get_running_loop().run_in_executor(
                self._asking, self._wanted, question
            )
        except StoreAway as error:
            raise _Refusal(503, str(error), _spread_s()) from error
        return Answer(200, msgspec.json.encode(answers))


async def _result(future: Future[bool]) -> bool:
    """The result, here; unlike asyncio's own bridge it does not cancel the writer's future when
    this request's time is up, and may outlive the loop."""
    loop = asyncio.get_running_loop()
    here = asyncio.Event()

    def tell(_future: object) -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(here.set)

    future.add_done_callback(tell)
    await here.wait()
    return future.result()


def _spread_s() -> int:
    # All nodes of a job are told at once: they must not come back at once.
    return random.randint(2, 10)  # noqa: S311 - spreads load, guards nothing
