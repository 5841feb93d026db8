"""Verdicts as JSON to a program of the site's own, signed.

Where a key is set, ``X-Firstfault-Signature: t=SECONDS,v1=HEX`` holds the time of the attempt and
the HMAC-SHA256 of ``SECONDS.BODY`` under it. docs/delivery.md shows how a receiver checks it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import time
from collections.abc import Callable

import requests

from firstfault.deliver.outcome import Failed, Result, Sent
from firstfault.deliver.patience import within
from firstfault.deliver.slack import retry_after_s
from firstfault.model.jobs import Delivery

SIGNATURE = "X-Firstfault-Signature"
DELIVERY = "X-Firstfault-Delivery"
_REASON_BYTES = 200
# They say that the receiver is away or busy; any other refusal is of this very message.
_PASSING = frozenset({408, 425, 429})


class Webhook:
    """Posts to one URL. ``body`` gives a delivery's JSON; ``key`` "": unsigned."""

    def __init__(
        self, url: str, key: str, timeout_s: float, body: Callable[[Delivery], bytes]
    ) -> None:
        self._url = url
        self._key = key
        self._timeout_s = timeout_s
        self._body = body
        self._session = requests.Session()

    def send(self, delivery: Delivery) -> Result:
        """Posts once, and waits for the answer no longer than twice the time-out."""
        body = self._body(delivery)
        headers = {"Content-Type": "application/json", DELIVERY: delivery.delivery_id}
        if self._key:
            headers[SIGNATURE] = signature(self._key, int(time.time()), body)
        seconds = 2 * self._timeout_s
        late = Failed(f"the webhook did not end its answer within {seconds:g} s")
        return within(seconds, lambda: self._post(body, headers), late)

    def _post(self, body: bytes, headers: dict[str, str]) -> Result:
        try:
            with self._session.post(
                self._url,
                data=body,
                headers=headers,
                timeout=(self._timeout_s, self._timeout_s),
                allow_redirects=False,
                stream=True,
            ) as response:
                return _read(response)
        except requests.RequestException as error:
            # str(error) holds the URL, which may be a secret.
            return Failed(f"the webhook could not be reached ({type(error).__name__})")


def signature(key: str, seconds: int, body: bytes) -> str:
    """The signature's header for ``body``, sent at ``seconds`` since 1970."""
    mac = hmac.new(key.encode(), f"{seconds}.".encode() + body, hashlib.sha256)
    return f"t={seconds},v1={mac.hexdigest()}"


def _read(response: requests.Response) -> Result:
    status = response.status_code
    said = next(response.iter_content(_REASON_BYTES), b"")[:_REASON_BYTES]
    if 200 <= status < 300:
        return Sent()
    if 300 <= status < 400:
        return Failed(f"the webhook answered {status}: redirects are not followed", retry=False)
    after_s = retry_after_s(response.headers.get("Retry-After"), dt.datetime.now(dt.UTC))
    return Failed(
        f"the webhook answered {status}: {said.decode('utf-8', 'replace')!r}",
        retry=status >= 500 or status in _PASSING,
        after_s=after_s,
    )
