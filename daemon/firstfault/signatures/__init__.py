"""Signatures: how one kind of line or exception looks, and what it means. Data, with its tests.

A signature is a table in a TOML file of this folder:

``id``, unique · ``target``: "exception" (matched against ``Type: message``) or "line" (matched
against a line without its prefixes) · ``pattern``: a regular expression, searched · ``means``:
a cause of causes.toml, or what the fault of another would look like: "peer-lost" (a peer went
away), "waited" (a peer did not come in time), "stopped" (told to stop), "launcher" (the
launcher's own report of its workers), "worker-killed" (a DataLoader worker was killed) ·
``samples`` and ``near_misses``: what must and must not match · ``reference``: where the format
comes from · ``wrong_if``: what would prove the reading wrong.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

import msgspec

EFFECTS = frozenset({"peer-lost", "waited", "stopped", "launcher", "worker-killed"})
TARGETS = frozenset({"exception", "line"})


class SignatureError(ValueError):
    """A signature that is not sound; the message says which and why."""


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See the module's text."""

    id: str
    target: str
    pattern: str
    means: str
    samples: tuple[str, ...]
    reference: str
    wrong_if: str
    near_misses: tuple[str, ...] = ()


class Compiled(msgspec.Struct, frozen=True):
    """A signature ready for use."""

    signature: Signature
    regex: re.Pattern[str]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    signature: tuple[Signature, ...]


def parse(text: str, origin: str, causes: frozenset[str]) -> list[Compiled]:
    """The signatures in a TOML text.

    Raises `SignatureError` naming ``origin`` and the signature for anything unsound: no sample,
    a sample that does not match, a near miss that does, a pattern that matches everything, an
    empty reference, an unknown meaning or target.
    """
    try:
        file = msgspec.convert(tomllib.loads(text), _File)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise SignatureError(f"{origin}: {error}") from error
    result = []
    seen: set[str] = set()
    for signature in file.signature:
        place = f"{origin}: signature {signature.id!r}"
        if signature.id in seen:
            raise SignatureError(f"{place} stands there twice")
        seen.add(signature.id)
        result.append(_compile(signature, place, causes))
    return result


def _compile(signature: Signature, place: str, causes: frozenset[str]) -> Compiled:
    if signature.target not in TARGETS:
        raise SignatureError(f"{place}: target {signature.target!r} is none of {sorted(TARGETS)}")
    if signature.means not in EFFECTS and signature.means not in causes:
        raise SignatureError(f"{place}: {signature.means!r} is no cause and no effect")
    for name in ("id", "reference", "wrong_if"):
        if not getattr(signature, name).strip():
            raise SignatureError(f"{place}: {name} is empty")
    if not signature.samples:
        raise SignatureError(f"{place} has no sample")
    try:
        regex = re.compile(signature.pattern)
    except re.error as error:
        raise SignatureError(f"{place}: {error}") from error
    if regex.search(""):
        raise SignatureError(f"{place} matches everything")
    for sample in signature.samples:
        if not regex.search(sample):
            raise SignatureError(f"{place} does not match its sample {sample!r}")
    for miss in signature.near_misses:
        if regex.search(miss):
            raise SignatureError(f"{place} matches its near miss {miss!r}")
    return Compiled(signature, regex)


@cache
def known_causes() -> frozenset[str]:
    """The ids of causes.toml."""
    text = files("firstfault").joinpath("causes.toml").read_text("utf-8")
    return frozenset(
        f"{family}.{name}" if isinstance(value, dict) else family
        for family, table in tomllib.loads(text).items()
        for name, value in table.items()
    )


@cache
def signatures(target: str) -> tuple[Compiled, ...]:
    """The package's own signatures of one target, in the order in which the first match counts."""
    name = f"{target}s.toml"
    text = files("firstfault.signatures").joinpath(name).read_text("utf-8")
    found = parse(text, name, known_causes())
    return tuple(each for each in found if each.signature.target == target)


def meaning(target: str, text: str) -> Signature | None:
    """The first signature of ``target`` that matches ``text``."""
    for each in signatures(target):
        if each.regex.search(text):
            return each.signature
    return None
