"""One signature: its fields, its file's form, and what makes it sound by itself."""

from __future__ import annotations

import re
import tomllib

import msgspec

EFFECTS = frozenset({"peer-lost", "waited", "stopped", "launcher", "worker-killed"})
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


def parse(text: str, origin: str, causes: frozenset[str]) -> list[Compiled]:
    """The signatures in a TOML text.

    Raises `SignatureError` naming ``origin``, the signature and the field for anything unsound:
    no sample, a sample that does not match, a near miss that does, a pattern that matches
    everything, an empty reference, an unknown meaning or target.
    """
    try:
        file = msgspec.convert(tomllib.loads(text), _File)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise SignatureError(f"{origin}: {error}") from error
    return [_compiled(signature, origin, causes) for signature in file.signature]


def _compiled(signature: Signature, origin: str, causes: frozenset[str]) -> Compiled:
    place = f"{origin}: signature {signature.id!r}"
    for name in ("id", "reference", "wrong_if"):
        if not getattr(signature, name).strip():
            raise SignatureError(f"{place}: {name} is empty")
    if signature.target not in TARGETS:
        raise SignatureError(f"{place}: target {signature.target!r} is none of {list(TARGETS)}")
    if signature.means not in EFFECTS and signature.means not in causes:
        raise SignatureError(f"{place}: means: {signature.means!r} is no cause and no effect")
    if signature.at_most not in AT_MOST:
        raise SignatureError(f"{place}: at_most: {signature.at_most!r} is none of {list(AT_MOST)}")
    if not signature.samples:
        raise SignatureError(f"{place}: samples: there is no sample")
    try:
        regex = re.compile(signature.pattern)
    except re.error as error:
        raise SignatureError(f"{place}: pattern: {error}") from error
    if regex.search(""):
        raise SignatureError(f"{place}: pattern: it matches everything")
    for sample in signature.samples:
        if not regex.search(sample):
            raise SignatureError(f"{place}: samples: the pattern does not match {sample!r}")
    for miss in signature.near_misses:
        if regex.search(miss):
            raise SignatureError(f"{place}: near_misses: the pattern matches {miss!r}")
    return Compiled(signature, regex, origin)
