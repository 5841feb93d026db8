"""What a node sends, signed as docs/transport.md says; written anew, not the collector's own code."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import os
import time
from typing import Any

from tests.intake.munged import Munged

RECORDS = "/v1/records"
WANTED = "/v1/wanted"
KEY = b"k" * 40


def statement(
    body: bytes,
    node: str = "n1",
    path: str = RECORDS,
    *,
    at: float | None = None,
    nonce: str | None = None,
) -> bytes:
    return (
        f"firstfault.statement/1\n{path}\n{node}\n{hashlib.sha256(body).hexdigest()}\n"
        f"{int(time.time() if at is None else at)}\n{nonce or os.urandom(16).hex()}\nfirstfault.end\n"
    ).encode()


def by_key(signed: bytes, key: bytes = KEY) -> str:
    encoded = base64.urlsafe_b64encode(signed).rstrip(b"=").decode()
    return f"Firstfault-Key {encoded} {hmac.new(key, signed, hashlib.sha256).hexdigest()}"


def by_munge(munged: Munged, signed: bytes, *options: str, uid: int | None = None) -> str:
    return "Firstfault-Munge " + munged.credential(signed, *options, uid=uid)


def packed(content: dict[str, Any]) -> bytes:
    return gzip.compress(json.dumps(content).encode(), 6, mtime=0)
