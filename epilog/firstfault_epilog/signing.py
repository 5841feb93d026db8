"""Signatures of what is sent to the daemon: docs/transport.md describes both schemes."""

import base64
import hashlib
import hmac
import os
import re
import stat
import time

from firstfault_epilog import command
from firstfault_epilog.settings import Settings

MUNGE = "/usr/bin/munge"
MUNGE_DEADLINE_S = 10.0
# A credential is the statement, a digest and a few numbers in base64.
CREDENTIAL_BYTES_MAX = 16 << 10
KEY_BYTES_MIN = 32
KEY_BYTES_MAX = 4096
_CREDENTIAL = re.compile(rb"MUNGE:[A-Za-z0-9+/=]+:\n?\Z")


class SigningError(Exception):
    """Nothing can be signed; the message says why and what to do, and holds no secret."""


def scheme(settings: Settings) -> str:
    """``munge`` or ``key``: with ``auto`` the key where a key file is named."""
    if settings.sign != "auto":
        return settings.sign
    return "munge" if settings.key_file is None else "key"


def authorization(settings: Settings, path: str, node: str, body: bytes) -> str:
    """The value of the header Authorization for ``body`` sent to ``path`` by ``node``.

    Good for one request. Raises `SigningError`.
    """
    signed = statement(path, node, body, int(time.time()), os.urandom(16).hex())
    if scheme(settings) == "munge":
        return "Firstfault-Munge " + _credential(settings, signed)
    mac = hmac.new(read_key(settings), signed, hashlib.sha256).hexdigest()
    encoded = base64.urlsafe_b64encode(signed).rstrip(b"=").decode("ascii")
    return f"Firstfault-Key {encoded} {mac}"


def statement(path: str, node: str, body: bytes, signed_at_s: int, nonce: str) -> bytes:
    """What is signed. Raises `SigningError` where ``node`` is no name of a node."""
    if not re.match(r"[!-~]{1,255}\Z", node):
        raise SigningError(f"{node[:80]!r} is not a node's name")
    digest = hashlib.sha256(body).hexdigest()
    lines = ("firstfault.statement/1", path, node, digest, str(signed_at_s), nonce)
    return "".join(f"{line}\n" for line in (*lines, "firstfault.end")).encode("ascii")


def read_key(settings: Settings) -> bytes:
    """The key in ``settings.key_file``. Raises `SigningError`, also where others may read it."""
    path = settings.key_file
    if path is None:
        raise SigningError("FIRSTFAULT_SIGN=key needs FIRSTFAULT_KEY_FILE")
    try:
        with open(path, "rb", opener=_open_no_link) as file:
            info = os.fstat(file.fileno())
            data = file.read(KEY_BYTES_MAX + 1) if stat.S_ISREG(info.st_mode) else b""
    except OSError as error:
        raise SigningError(f"key file {path}: {error.strerror}")
    if info.st_uid not in (0, os.geteuid()) or info.st_mode & 0o077:
        raise SigningError(f"key file {path}: others may read it: chown root, chmod 400")
    key = data[:-1] if data.endswith(b"\n") else data
    if len(key) < KEY_BYTES_MIN or len(data) > KEY_BYTES_MAX:
        raise SigningError(
            f"key file {path}: {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes are needed: "
            "the same on all nodes and for the daemon"
        )
    return key


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _credential(settings: Settings, signed: bytes) -> str:
    argv = [MUNGE, "--string=" + signed.decode("ascii")]
    if settings.munge_socket is not None:
        argv.append("--socket=" + settings.munge_socket)
    printed = command.output(argv, MUNGE_DEADLINE_S, CREDENTIAL_BYTES_MAX)
    if printed.fault is not None or not _CREDENTIAL.match(printed.data):
        why = printed.fault or f"{MUNGE} gave no credential"
        raise SigningError(f"{why}: is munged running? Or set FIRSTFAULT_KEY_FILE")
    return printed.data.decode("ascii").strip()
