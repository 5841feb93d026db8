"""What is asked of a signature before it counts: it carries its tests, and it passes them."""

from __future__ import annotations

import re

from firstfault.signatures import backtracking
from firstfault.signatures.anchors import compiled, derived
from firstfault.signatures.signature import (
    AT_MOST,
    EFFECTS,
    TARGETS,
    Compiled,
    SignatureError,
    read,
)


def parse(text: str, origin: str, causes: frozenset[str]) -> list[Compiled]:
    """The signatures in a TOML text, each sound by itself.

    Raises `SignatureError` naming ``origin``, the signature and the field for anything unsound:
    no sample, a sample that does not match, a near miss that does, a pattern that matches
    everything or can be made slow, an anchor that a sample lacks, an empty reference, an unknown
    meaning, target or field.
    """
    found = read(text, origin)
    for each in found:
        try:
            _check(each, causes)
        except ValueError as error:
            raise SignatureError(f"{each.place}: {error}") from error
    return found


def _check(each: Compiled, causes: frozenset[str]) -> None:
    signature = each.signature
    for name in ("id", "reference", "wrong_if"):
        if not getattr(signature, name).strip():
            raise ValueError(f"{name} is empty")
    if signature.target not in TARGETS:
        raise ValueError(f"target {signature.target!r} is none of {', '.join(TARGETS)}")
    if signature.means not in EFFECTS and signature.means not in causes:
        raise ValueError(f"means: {signature.means!r} is no cause and no effect")
    if signature.at_most not in AT_MOST:
        raise ValueError(f"at_most: {signature.at_most!r} is none of {', '.join(AT_MOST)}")
    if not signature.samples:
        raise ValueError("samples: there is no sample")
    if each.regex.search(""):
        raise ValueError("pattern: it matches everything")
    for sample in signature.samples:
        if not each.regex.search(sample):
            raise ValueError(f"samples: the pattern does not match {sample!r}")
    for miss in signature.near_misses:
        if each.regex.search(miss):
            raise ValueError(f"near_misses: the pattern matches {miss!r}")
    if reason := backtracking.fault(signature.pattern):
        raise ValueError(f"pattern: {reason}")
    _check_anchors(each)


# An exception needs none: its traceback is found.
def _check_anchors(each: Compiled) -> None:
    signature = each.signature
    if signature.target == "exception" and not signature.anchors:
        return
    found = derived(signature)
    if not found:
        raise ValueError("anchors: the pattern shows none: name a word that each match holds")
    try:
        expression = compiled(found)
    except re.error as error:
        raise ValueError(f"anchors: {error}") from error
    if expression.search(""):
        raise ValueError("anchors: one of them matches everything")
    for sample in signature.samples:
        if not expression.search(sample):
            raise ValueError(f"anchors: none of them is in the sample {sample!r}")
