"""One signature: its fields, its file's form, and what makes it sound by itself."""

from __future__ import annotations

import re
import tomllib

import msgspec

EFFECTS = frozenset(
    {"peer-lost", "waited", "stopped", "launcher", "worker-killed", "finished", "recovered"}
)
TARGETS = ("exception", "line", "kernel")
AT_MOST = ("confirmed", "likely", "possible")


class SignatureError(ValueError):
    """A signature that is not sound; the message says which, where and why."""


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a signature's table; the package's text says what each means."""

    id: str
    target: str
    pattern: str
    means: str
    samples: tuple[str, ...]
    reference: str
    wrong_if: str
    near_misses: tuple[str, ...] = ()
    narrower_than: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()
    at_most: str = "confirmed"


class Compiled(msgspec.Struct, frozen=True):
    """A signature ready for use; ``origin`` names its file."""

    signature: Signature
    regex: re.Pattern[str]
    origin: str

    @property
    def place(self) -> str:
        """Its file and id, for an error's message."""
        return f"{self.origin}: signature {self.signature.id!r}"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    signature: tuple[Signature, ...]


def read(text: str, origin: str) -> list[Compiled]:
    """The signatures in a TOML text, whether they are sound or not.

    Raises `SignatureError` naming ``origin`` where the text is none of signatures, and where a
    pattern is no regular expression.
    """
    try:
        file = msgspec.convert(tomllib.loads(text), _File)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise SignatureError(f"{origin}: {error}") from error
    return [_compiled(signature, origin) for signature in file.signature]


def _compiled(signature: Signature, origin: str) -> Compiled:
    try:
        return Compiled(signature, re.compile(signature.pattern), origin)
    except re.error as error:
        raise SignatureError(f"{origin}: signature {signature.id!r}: pattern: {error}") from error
