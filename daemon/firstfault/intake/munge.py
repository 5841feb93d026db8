"""MUNGE credentials, decoded by munged: who made them, and what they hold.

munged itself refuses what is expired, made by another key, or was decoded before. Error numbers:
munge.h, `munge_err_t`, unchanged from 0.5.0 to 0.5.16; `unmunge` ends with the same as status.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable

import msgspec

LIBRARY = "libmunge.so.2"

_SUCCESS = 0
# munged is away, or has no memory: nothing is known of the credential.
_AWAY = frozenset({1, 5, 6, 7})
_OPTION_SOCKET = 8
_DEADLINE_S = 10.0
_UID = re.compile(rb"^UID:.*\((\d+)\)\s*$", re.MULTILINE)


class Unacceptable(Exception):
    """A credential that proves nothing; the message is munged's reason."""


class MungeAway(Exception):
    """munged could not be asked; the message says what to look at."""


class Credential(msgspec.Struct, frozen=True):
    """Who made it, by munged's word, and what it holds."""

    uid: int
    payload: bytes


# Raises `Unacceptable` or `MungeAway`; blocks until munged has answered.
Decode = Callable[[str], Credential]


def decoder(socket: str) -> Decode:
    """Decodes by libmunge, or by the command where that cannot be loaded; ``socket`` "" is munged's
    own place. Raises `MungeAway` where neither is installed.
    """
    try:
        return Library(socket)
    except (OSError, MemoryError):
        command = shutil.which("unmunge", path="/usr/bin:/usr/local/bin:/bin")
        if command is None:
            raise MungeAway(
                f"neither {LIBRARY} nor unmunge is installed: install munge, or set intake.munge "
                f"to false and intake.key_file"
            ) from None
        return Command(command, socket)


class Library:
    """Decodes in this process, by libmunge. Raises OSError where it cannot be loaded."""

    def __init__(self, socket: str) -> None:
        self._munge = ctypes.CDLL(LIBRARY)
        self._socket = socket.encode()
        self._munge.munge_ctx_create.restype = ctypes.c_void_p
        self._munge.munge_ctx_destroy.argtypes = (ctypes.c_void_p,)
        self._munge.munge_ctx_destroy.restype = None
        self._munge.munge_ctx_set.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
        self._munge.munge_strerror.restype = ctypes.c_char_p
        self._munge.munge_decode.argtypes = (
            ctypes.c_char_p,
            ctypes.c_void_p,
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.POINTER(ctypes.c_int),
            ctypes.POINTER(ctypes.c_uint32),
            ctypes.POINTER(ctypes.c_uint32),
        )
        self._free = ctypes.CDLL(None).free
        self._free.argtypes = (ctypes.c_void_p,)
        self._free.restype = None

    def __call__(self, credential: str) -> Credential:
        """See `Decode`."""
        # A context belongs to one thread at a time.
        context = self._munge.munge_ctx_create()
        if not context:
            raise MungeAway("libmunge has no memory")
        payload, length = ctypes.c_void_p(), ctypes.c_int()
        uid, gid = ctypes.c_uint32(), ctypes.c_uint32()
        try:
            if self._socket:
                self._munge.munge_ctx_set(context, _OPTION_SOCKET, self._socket)
            error = self._munge.munge_decode(
                credential.encode("ascii", "replace"), context, payload, length, uid, gid
            )
            _check(error, (self._munge.munge_strerror(error) or b"").decode("ascii", "replace"))
            return Credential(uid.value, ctypes.string_at(payload, length.value))
        finally:
            self._free(payload)
            self._munge.munge_ctx_destroy(context)


class Command:
    """Decodes by ``unmunge``: a process for each credential."""

    def __init__(self, path: str, socket: str) -> None:
        self._argv = [path, *([f"--socket={socket}"] if socket else [])]

    def __call__(self, credential: str) -> Credential:
        """See `Decode`."""
        try:
            done = subprocess.run(  # noqa: S603 - argv list, absolute path, no shell
                self._argv,
                input=credential.encode("ascii", "replace"),
                capture_output=True,
                timeout=_DEADLINE_S,
                env={"LC_ALL": "C"},
                cwd="/",
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MungeAway(f"{self._argv[0]}: {error}") from error
        head, _, payload = done.stdout.partition(b"\n\n")
        uid = _UID.search(head)
        said = done.stderr.decode("utf-8", "replace").strip()[-200:]
        _check(done.returncode, said or f"unmunge ended with {done.returncode}")
        if uid is None:
            raise MungeAway(f"{self._argv[0]} gave no UID")
        return Credential(int(uid[1]), payload)


def _check(error: int, said: str) -> None:
    if error in _AWAY:
        raise MungeAway(f"munged cannot be asked: {said}. Is it running (systemctl status munge)?")
    if error != _SUCCESS:
        raise Unacceptable(said)
