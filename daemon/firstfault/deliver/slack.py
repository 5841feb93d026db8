"""Slack's incoming webhooks (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks).

A webhook answers 200 "ok"; 429 carries Retry-After; 400, 403, 404 and 410 say that the message or
the webhook is wrong, which no repetition mends. A posted message cannot be changed. The URL is a
secret: nothing here puts it, or an exception that quotes it, into a message or a log.
"""

from __future__ import annotations

import datetime as dt
import email.utils
from collections.abc import Callable

import msgspec
import requests

from firstfault.deliver.outcome import Failed, Needless, Result, Sent
from firstfault.deliver.patience import within
from firstfault.model.jobs import Delivery
from firstfault.model.verdict import Verdict

LONGEST_RETRY_AFTER_S = 3600.0
_REASON_BYTES = 200


class Slack:
    """Posts to one webhook. ``payload`` gives a delivery's message as JSON-able values."""

    def __init__(
        self, webhook: str, timeout_s: float, payload: Callable[[Delivery], dict[str, object]]
    ) -> None:
        self._webhook = webhook
        self._timeout_s = timeout_s
        self._payload = payload
        self._session = requests.Session()

    def send(self, delivery: Delivery) -> Result:
        """Posts once, and waits for the answer no longer than twice the time-out.

        What stands in the channel cannot be changed: a revision that names the same cause, rank
        and host is not worth another message.
        """
        if delivery.previous is not None and _same(delivery.previous, delivery.current.verdict):
            return Needless("the message that was sent names the same cause and place")
        body = msgspec.json.encode(self._payload(delivery))
        seconds = 2 * self._timeout_s
        late = Failed(f"Slack did not end its answer within {seconds:g} s")
        return within(seconds, lambda: self._post(body), late)

    def _post(self, body: bytes) -> Sent | Failed:
        try:
            with self._session.post(
                self._webhook,
                data=body,
                headers={"Content-Type": "application/json; charset=utf-8"},
                timeout=(self._timeout_s, self._timeout_s),
                allow_redirects=False,
                stream=True,
            ) as response:
                return _read(response)
        except requests.RequestException as error:
            # str(error) holds the URL.
            return Failed(f"Slack could not be reached ({type(error).__name__})")


def retry_after_s(value: str | None, now: dt.datetime) -> float | None:
    """Seconds of a Retry-After header: a number, or a date (RFC 9110, 10.2.3)."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return min(float(text), LONGEST_RETRY_AFTER_S)
    try:
        when = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=dt.UTC)
    return min(max((when - now).total_seconds(), 0.0), LONGEST_RETRY_AFTER_S)


def _same(before: Verdict, after: Verdict) -> bool:
    old, new = before.initiator, after.initiator
    return before.cause.id == after.cause.id and (old.rank, old.host) == (new.rank, new.host)


def _read(response: requests.Response) -> Sent | Failed:
    status = response.status_code
    # "ok" is read too: a connection with an unread answer cannot be used again.
    said = next(response.iter_content(_REASON_BYTES), b"")[:_REASON_BYTES]
    if status == 200:
        return Sent()
    reason = f"Slack answered {status}: {said.decode('utf-8', 'replace')!r}"
    if status == 429:
        after_s = retry_after_s(response.headers.get("Retry-After"), dt.datetime.now(dt.UTC))
        return Failed(reason, after_s=after_s)
    return Failed(reason, retry=status >= 500 or status == 408)
