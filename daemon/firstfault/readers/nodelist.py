"""Slurm's node lists ("n[1-4],gpu07"), expanded and folded."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

MAX_NODES = 200_000

# What Slurm prints in a node list. ClusterShell also knows groups (which run commands of the
# site), wildcards and set operators: none of them may come out of a record.
_SLURM = re.compile(r"[A-Za-z0-9._,\[\]-]+")
_RANGE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


class NodeListError(ValueError):
    """A text that is not a node list, or one of more nodes than any cluster has."""


@functools.lru_cache(maxsize=32)  # every record of a job carries the same list
def expand(text: str) -> tuple[str, ...]:
    """The nodes of ``text`` in natural order ("n2" before "n10"), each once.

    Raises `NodeListError` for anything that Slurm does not print.
    """
    if not _SLURM.fullmatch(text):
        raise NodeListError(f"not a Slurm node list: {text[:80]!r}")
    for low, high in _RANGE.findall(text):
        if int(high) - int(low) >= MAX_NODES:
            raise NodeListError(f"a node list of more than {MAX_NODES} nodes: {text[:80]!r}")
    if text.count("[") > 1 and _upper_bound(text) > MAX_NODES:
        raise NodeListError(f"a node list of more than {MAX_NODES} nodes: {text[:80]!r}")
    try:
        return tuple(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except (NodeSetException, ValueError) as error:
        raise NodeListError(f"not a Slurm node list: {text[:80]!r}: {error}") from error


def fold(nodes: Iterable[str]) -> str:
    """``nodes`` as Slurm would print them: "n[1-4]". Names that do not fold are listed."""
    names = sorted(set(nodes))
    try:
        return str(NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP))
    except (NodeSetException, ValueError):
        return ",".join(names)


def _upper_bound(text: str) -> int:
    # "r[1-9]n[1-9]" multiplies: the bound is counted before ClusterShell builds the set.
    total = 0
    for name in re.split(r",(?![^\[]*\])", text):
        product = 1
        for group in re.findall(r"\[([^\]]*)\]", name):
            size = 0
            for part in group.split(","):
                match = _RANGE.fullmatch(part)
                size += int(match[2]) - int(match[1]) + 1 if match else 1
            product *= max(size, 1)
        total += product
    return total
