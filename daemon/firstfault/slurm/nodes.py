"""The present state of nodes, as ``scontrol show node -o`` prints it: a line for each, of
``Key=value`` words (slurm_sprint_node_table in src/api/node_info.c)."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from firstfault.slurm.facts import FactsError
from firstfault.slurm.scontrol import show

# Some 700 bytes a node.
CAP_BYTES = 64 * 1024 * 1024
_NAME = re.compile(r"NodeName=(\S+) ")
# The first: a reason or a comment may hold such words, too, and stands behind it.
_STATE = re.compile(r" State=(\S+)")
# It ends with who gave it, and when.
_REASON = re.compile(r" Reason=(.*?) \[[^\s\[\]]+@[^\s\[\]]+\](?: |$)")
_CLUSTER = re.compile(r"^ClusterName\s*=\s*(\S+)\s*$", re.MULTILINE)


class NodeState(msgspec.Struct, frozen=True):
    """Slurm's word for a node ("IDLE", "MIXED+DRAIN"), and why, where somebody said so."""

    state: str
    reason: str | None = None


def states(scontrol: Path, timeout_s: float, cluster: str = "") -> dict[str, NodeState]:
    """The nodes of the cluster that slurm.conf names, or of another. Raises `FactsError`."""
    printed = show(
        scontrol, "node", "-o", timeout_s=timeout_s, cap_bytes=CAP_BYTES, cluster=cluster
    )
    return read(printed)


def read(text: str) -> dict[str, NodeState]:
    """The nodes in what scontrol printed; a line that is none is left out."""
    found = {}
    for line in text.splitlines():
        name, state = _NAME.match(line), _STATE.search(line)
        if name is None or state is None:
            continue
        reason = _REASON.search(line, state.end())
        found[name[1]] = NodeState(state[1], None if reason is None else reason[1])
    return found


def cluster_name(scontrol: Path, timeout_s: float) -> str:
    """The name of the cluster that slurm.conf names. Raises `FactsError`."""
    printed = show(scontrol, "config", timeout_s=timeout_s, cap_bytes=CAP_BYTES)
    found = _CLUSTER.search(printed)
    if found is None:
        raise FactsError(f"{scontrol} show config does not name the cluster")
    return found[1]
