"""A bot's messages: one for what is one failure, kept up to date, posted once.

A delivery puts its job into a message (`firstfault.store.messages`); the message is then posted, or
changed. So a crash between the two, or between Slack's answer and the note of it, leaves a message
that is due, and one that may be posted already is looked for first.
"""

from __future__ import annotations

import datetime as dt
import logging
import random
import uuid
from collections.abc import Callable
from typing import Protocol

import msgspec

from firstfault.app.journal import say, trouble
from firstfault.deliver.bot import Bot, SlackError
from firstfault.deliver.outcome import Failed, Needless, Result, Sent, pause_s
from firstfault.deliver.patience import within
from firstfault.model.jobs import Delivery
from firstfault.store import messages
from firstfault.store.database import Database
from firstfault.store.messages import Message, Pace, Place

# Longer than all calls for a message may take, and shorter than a delivery's lease.
LEASE_S = 55.0
_MARGIN = dt.timedelta(minutes=10)

Clock = Callable[[], dt.datetime]


class Said(msgspec.Struct, frozen=True):
    """What a message is to say, and a file for its thread, by name."""

    payload: dict[str, object]
    file: tuple[str, bytes] | None = None


class Reader(Protocol):
    """Whom a channel is for."""

    def place(self, delivery: Delivery) -> Place | Needless | Failed:
        """Where the delivery's job is told. Raises `SlackError`."""

    def say(self, message: Message) -> Said | None:
        """What the message is to say now; None where nothing is left to be told."""


class Gathering:
    """One channel of the bot: ``name`` in the outbox."""

    def __init__(
        self,
        database: Database,
        name: str,
        bot: Bot,
        reader: Reader,
        pace: Pace,
        seconds: float,
        clock: Clock,
    ) -> None:
        self._database = database
        self._name = name
        self._bot = bot
        self._reader = reader
        self._pace = pace
        self._seconds = seconds
        self._clock = clock

    def send(self, delivery: Delivery) -> Result:
        """Tries once to bring the delivery's job into its message, and that to its readers."""
        late = Failed(f"Slack did not end its answers within {self._seconds:g} s")
        return within(self._seconds, lambda: self._send(delivery), late)

    def once(self) -> int:
        """Brings one message up to date that is due; how many there were."""
        message = messages.claim(self._database, self._name, self._clock(), LEASE_S)
        if message is None:
            return 0
        late = Failed("Slack did not end its answers in time")
        result = within(self._seconds, lambda: self._bring(message), late)
        if isinstance(result, Failed):
            say(
                logging.WARNING,
                "message-failed",
                channel=self._name,
                message=message.message_id,
                error=result.reason,
            )
        return 1

    def _send(self, delivery: Delivery) -> Result:
        try:
            place = self._reader.place(delivery)
        except SlackError as error:
            return error.failed
        if not isinstance(place, Place):
            return place
        database, now = self._database, self._clock()
        key = messages.place(
            database, place, delivery.job_key, delivery.delivery_id, self._pace, now
        )
        message = messages.claim(database, self._name, now, LEASE_S, key)
        if message is not None:
            return self._bring(message)
        # It is changed a little later, with what else there is by then.
        if messages.is_posted(database, key):
            return Sent()
        return Failed("the message is not posted yet", alone=True)

    def _bring(self, message: Message) -> Result:
        try:
            return self._brought(message)
        except SlackError as error:
            failed = error.failed
        except Exception as error:  # noqa: BLE001 - boundary: the message is due again later
            trouble("message-error", message=message.message_id)
            failed = Failed(f"could not be made: {type(error).__name__}", alone=True)
        now = self._clock()
        wait_s = max(pause_s(message.attempts, random.random()), failed.after_s or 0.0)  # noqa: S311 - no secret
        again = now + dt.timedelta(seconds=wait_s) if failed.retry else None
        messages.put_off(self._database, message, failed.reason, again)
        return failed

    def _brought(self, message: Message) -> Result:
        said = self._reader.say(message)
        if said is not None:
            if message.ts is None:
                self._post(message, said)
            elif not self._bot.update(
                message.conversation, message.ts, said.payload, message.message_id
            ):
                say(logging.INFO, "message-fixed", message=message.message_id)
        messages.shown(self._database, message, self._pace, self._clock())
        return Sent()

    def _post(self, message: Message, said: Said) -> None:
        found = None
        if message.attempts > 1:
            since = message.created_at - _MARGIN
            found = self._bot.find(message.conversation, message.message_id, since)
        if found is not None:
            self._bot.update(message.conversation, found.ts, said.payload, message.message_id)
            ts, replies = found
        else:
            ts = self._bot.post(message.conversation, said.payload, message.message_id)
            replies = 0
        if said.file is not None and not replies:
            self._attach(message, ts, said.file)
        messages.posted(self._database, message, ts)

    def _attach(self, message: Message, ts: str, file: tuple[str, bytes]) -> None:
        try:
            self._bot.attach(message.conversation, ts, *file)
        except SlackError as error:
            # The message stands, and says where the report is.
            say(logging.WARNING, "not-attached", message=message.message_id, error=error)


def message_id() -> str:
    """A new message's id."""
    return uuid.uuid4().hex[:12]
