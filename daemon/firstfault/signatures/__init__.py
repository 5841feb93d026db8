"""Signatures: how one kind of line or exception looks, and what it means. Data, with its tests.

A signature is a table in a TOML file of this folder, one file for a family:

``id``, unique · ``target``: "exception" (matched against ``Type: message``), "line" (matched
against a line without its prefixes) or "kernel" (matched against a kernel's message) ·
``pattern``: a regular expression, searched · ``means``: a cause of causes.toml, or what the
fault of another would look like: "peer-lost" (a peer went away), "waited" (a peer did not come
in time), "stopped" (told to stop), "launcher" (the launcher's own report of its workers),
"worker-killed" (a DataLoader worker was killed) · ``samples`` and ``near_misses``: what must and
must not match · ``narrower_than``: the ids of those that may match the same text and then do not
count · ``at_most``: how sure a verdict by these words alone may be ("confirmed", "likely" or
"possible"), for words that something else may say too · ``reference``: where the format comes
from · ``wrong_if``: what would prove the reading wrong.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from firstfault.signatures.anchors import anchors
from firstfault.signatures.order import Ordered, ordered
from firstfault.signatures.signature import (
    EFFECTS,
    TARGETS,
    Compiled,
    Signature,
    SignatureError,
    read,
)
from firstfault.signatures.soundness import parse

__all__ = [
    "EFFECTS",
    "TARGETS",
    "Compiled",
    "Signature",
    "SignatureError",
    "known_anchors",
    "known_causes",
    "meaning",
    "parse",
    "signatures",
]


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
def _own() -> dict[str, Ordered]:
    # That they are sound is tested: asked anew, it would cost each start of the program.
    found = [each for name, text in _files() for each in read(text, name)]
    return {
        target: ordered(each for each in found if each.signature.target == target)
        for target in TARGETS
    }


def _files() -> Iterator[tuple[str, str]]:
    for entry in sorted(files("firstfault.signatures").iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            yield entry.name, entry.read_text("utf-8")


@cache
def known_anchors() -> dict[str, tuple[str, ...]]:
    """What a line must hold to be looked at in a huge log, by who says it: see ``anchors.py``."""
    return anchors(each for target in TARGETS for each in signatures(target))


def signatures(target: str) -> tuple[Compiled, ...]:
    """The signatures of one target, by id."""
    return _own()[target].all


def meaning(target: str, text: str) -> Signature | None:
    """The narrowest signature of ``target`` that matches ``text``."""
    found = _own()[target].narrowest(text)
    return found.signature if found else None
