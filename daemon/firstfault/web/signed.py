"""Readers who sign their requests by MUNGE: ``Authorization: Firstfault-Munge CREDENTIAL``.

The command line does so. What is signed is this request and no other: method, address, host name
and body. munged tells who signed it, that the credential is not older than it may be, and that it
was not decoded here before.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from typing import NamedTuple

from starlette.requests import Request

from firstfault.model.board import Reader
from firstfault.web.access import Identity, asked, nobody

SCHEME = "Firstfault-Munge"
# The clocks of login nodes and of the daemon's host may differ by so much; munged's own bound (five
# minutes) holds besides.
WINDOW_S = 120

_CREDENTIAL = re.compile(r"firstfault-munge +([!-~]{1,16384})", re.IGNORECASE)
_STATEMENT = re.compile(
    rb"firstfault\.request/1\n"
    rb"(?P<method>[A-Z]{1,10})\n"
    rb"(?P<target>/[!-~]{0,8000})\n"
    rb"(?P<host>[!-~]{1,300})\n"
    rb"(?P<digest>[0-9a-f]{64})\n"
    rb"(?P<at>[0-9]{1,12})\n"
    rb"(?P<nonce>[0-9a-f]{32})\n"
    rb"firstfault\.end\n"
)


class Unacceptable(Exception):
    """A credential that proves nothing; the message is munged's reason."""


class Signed(NamedTuple):
    """Who made a credential, by munged's word, and what it holds."""

    uid: int
    payload: bytes


# Raises `Unacceptable` or `Unasked`; blocks until munged has answered.
Decode = Callable[[str], Signed]


def statement(method: str, target: str, host: str, body: bytes, at_s: float) -> bytes:
    """What is signed: the method, path and query as they are sent, the Host header, the body, and
    the seconds since 1970."""
    lines = (
        "firstfault.request/1",
        method,
        target,
        host,
        hashlib.sha256(body).hexdigest(),
        str(int(at_s)),
        secrets.token_hex(16),
        "firstfault.end",
    )
    return "".join(f"{line}\n" for line in lines).encode("ascii")


class Signatures:
    """Readers by MUNGE. ``reader`` gives what a uid may see, and may block; None: nobody has it
    here. ``clock`` gives seconds since 1970."""

    def __init__(
        self,
        decode: Decode,
        reader: Callable[[int], Reader | None],
        clock: Callable[[], float],
    ) -> None:
        self._decode = decode
        self._reader = reader
        self._clock = clock

    async def identify(self, request: Request) -> Identity | None:
        """See `firstfault.web.access.Way`."""
        match = _CREDENTIAL.fullmatch(request.headers.get("authorization", ""))
        if match is None:
            return None
        credential = match[1]
        return await asked(lambda: self._identity(request, credential))

    def _identity(self, request: Request, credential: str) -> Identity:
        try:
            made = self._decode(credential)
        except Unacceptable as error:
            return nobody(f"MUNGE credential: {error}")
        signed = _STATEMENT.fullmatch(made.payload)
        if signed is None:
            return nobody("what was signed is not a firstfault.request/1")
        off_s = int(signed["at"]) - int(self._clock())
        if abs(off_s) > WINDOW_S:
            return nobody(
                f"signed {abs(off_s)} s {'ahead of' if off_s > 0 else 'behind'} the daemon's "
                f"clock; {WINDOW_S} s are allowed: mend the clocks"
            )
        if (signed["method"], signed["target"], signed["host"]) != _asked_for(request):
            return nobody("another request was signed than this one")
        reader = self._reader(made.uid)
        if reader is None:
            return nobody(f"no user has uid {made.uid} on the daemon's host")
        return Identity(reader, ambient=False, digest=signed["digest"].decode("ascii"))


def _asked_for(request: Request) -> tuple[bytes, bytes, bytes]:
    query = request.scope["query_string"]
    target = request.scope["raw_path"] + (b"?" + query if query else b"")
    return (
        request.method.encode("ascii", "replace"),
        target,
        request.headers.get("host", "").encode("latin-1"),
    )
