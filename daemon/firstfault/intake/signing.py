"""Who sent a request: the statement that its signature proves (docs/transport.md, Signatures)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import stat
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from firstfault.intake.munge import Decode, Unacceptable

WINDOW_S = 300
KEY_BYTES_MIN = 32
KEY_BYTES_MAX = 4096
NONCES_MAX = 200_000

_STATEMENT = re.compile(
    rb"firstfault\.statement/1\n"
    rb"(?P<path>/[!-~]{1,255})\n"
    rb"(?P<node>[!-~]{1,255})\n"
    rb"(?P<digest>[0-9a-f]{64})\n"
    rb"(?P<at>[0-9]{1,12})\n"
    rb"(?P<nonce>[0-9a-f]{32})\n"
    rb"firstfault\.end\n"
)
_SCHEME = re.compile(r"(Firstfault-(?:Munge|Key)) +([!-~]{1,16384}(?: [0-9a-f]{64})?)")


class Refused(Exception):
    """A signature that is not accepted; the message may be told to the sender."""


class Full(Exception):
    """No more nonces can be remembered, so that a replay could not be told."""


class Statement(msgspec.Struct, frozen=True):
    """What a sender signed: for which path, as which node, and the SHA-256 of which body (hex)."""

    path: str
    node: str
    digest: str
    signed_at_s: int
    nonce: str

    def covers(self, body: bytes) -> bool:
        """True when ``body`` is what was signed."""
        return hmac.compare_digest(hashlib.sha256(body).hexdigest(), self.digest)


class Signatures:
    """Checks signatures by the schemes that are turned on. Threads may share it.

    ``decode`` None: no MUNGE; ``key`` None: no key file. ``uids`` are those whose MUNGE credentials
    count. ``clock`` gives seconds since 1970.
    """

    def __init__(
        self,
        decode: Decode | None,
        key: bytes | None,
        uids: frozenset[int],
        clock: Callable[[], float],
    ) -> None:
        self._decode = decode
        self._key = key
        self._uids = uids
        self._clock = clock
        self._seen = _Seen()

    def statement(self, authorization: str, path: str) -> Statement:
        """What the header ``authorization`` of a request to ``path`` proves. Good for one call.

        It may block while munged answers. Raises `Refused`, `Full`, or `munge.MungeAway`.
        """
        match = _SCHEME.fullmatch(authorization)
        if match is None:
            raise Refused("a signature is needed: Firstfault-Munge or Firstfault-Key")
        if match[1] == "Firstfault-Munge":
            statement = self._checked(self._by_munge(match[2]), path)
        else:
            statement = self._checked(self._by_key(match[2]), path)
            # munged remembers its credentials by itself.
            self._seen.add(statement, int(self._clock()))
        return statement

    def _by_munge(self, credential: str) -> bytes:
        if self._decode is None:
            raise Refused("MUNGE is not turned on here (intake.munge)")
        try:
            made = self._decode(credential)
        except Unacceptable as error:
            raise Refused(f"MUNGE credential: {error}") from error
        if made.uid not in self._uids:
            raise Refused(f"the credential was made by uid {made.uid}, which may not send records")
        return made.payload

    def _by_key(self, value: str) -> bytes:
        if self._key is None:
            raise Refused("signatures by key are not turned on here (intake.key_file)")
        encoded, _, mac = value.partition(" ")
        try:
            signed = base64.b64decode(encoded + "=" * (-len(encoded) % 4), b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise Refused("the statement is not URL-safe base64") from error
        own = hmac.new(self._key, signed, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(own, mac):
            raise Refused("the signature was not made with this daemon's key")
        return signed

    def _checked(self, signed: bytes, path: str) -> Statement:
        match = _STATEMENT.fullmatch(signed)
        if match is None:
            raise Refused("what was signed is not a firstfault.statement/1")
        path_, node, digest, at, nonce = (part.decode("ascii") for part in match.groups())
        off_s = int(at) - int(self._clock())
        if abs(off_s) > WINDOW_S:
            raise Refused(
                f"signed {abs(off_s)} s {'ahead of' if off_s > 0 else 'behind'} the daemon's clock; "
                f"{WINDOW_S} s are allowed: mend the clocks"
            )
        if path_ != path:
            raise Refused(f"signed for another path than {path}")
        return Statement(path_, node, digest, int(at), nonce)


class _Seen:
    """The nonces of the last minutes; a statement is too old before its nonce is forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._order: deque[tuple[int, str]] = deque()

    def add(self, statement: Statement, now_s: int) -> None:
        with self._lock:
            # Signed up to WINDOW_S ahead, it stays good for WINDOW_S more.
            while self._order and self._order[0][0] < now_s - 2 * WINDOW_S:
                self._known.discard(self._order.popleft()[1])
            if statement.nonce in self._known:
                raise Refused("this nonce was seen before: sign anew")
            if len(self._known) >= NONCES_MAX:
                raise Full(f"more than {NONCES_MAX} requests in {2 * WINDOW_S} s")
            self._known.add(statement.nonce)
            self._order.append((now_s, statement.nonce))


def read_key(path: Path) -> bytes:
    """The key in a key file. Raises OSError, and ValueError (which quotes no byte of it)."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise ValueError("is not a regular file")
        if info.st_mode & 0o007:
            raise ValueError(f"has mode {stat.S_IMODE(info.st_mode):04o}: chmod o= it")
        data = file.read(KEY_BYTES_MAX + 1)
    key = data.removesuffix(b"\n")
    if len(key) < KEY_BYTES_MIN or len(data) > KEY_BYTES_MAX:
        raise ValueError(
            f"must hold {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes: head -c 32 /dev/urandom | base64"
        )
    return key
