"""What slurm.conf says of the Epilog. Only files are read: no Slurm command runs on a node."""

import glob
import os
import re
from typing import Iterator, List, NamedTuple, Optional, Tuple

# Where slurmd keeps it: the usual place, Debian's older one, and what configless nodes are sent.
PLACES = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf",
    "/var/spool/slurm/conf-cache/slurm.conf",
)
BYTES_MAX = 4 << 20
# Names are case-insensitive; a blank or a quoted value is allowed (slurm.conf(5)).
_LINE = re.compile(r"(?:^|\s)epilog\s*=\s*(\S+)", re.IGNORECASE)
_INCLUDE = re.compile(r"\s*include\s+\S", re.IGNORECASE)


class Scripts(NamedTuple):
    """The Epilog's ``patterns``, the ``paths`` that they match, and whether other files are read."""

    patterns: Tuple[str, ...]
    paths: Tuple[str, ...]
    includes: bool


def configuration(named: Optional[str]) -> Optional[str]:
    """The node's slurm.conf: ``named`` (SLURM_CONF) or the first of `PLACES` that is there."""
    return next((path for path in (named, *PLACES) if path and os.path.isfile(path)), None)


def scripts(path: str) -> Scripts:
    """What the slurm.conf ``path`` runs as Epilog, in the order of its lines."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(BYTES_MAX).split("\n")
    except OSError:
        return Scripts((), (), False)
    patterns: List[str] = []
    for line in lines:
        match = _LINE.search(line.split("#")[0])
        if match is not None:
            name = match.group(1).strip("\"'")
            # A name without a folder stands beside slurm.conf (configless nodes, 23.11).
            patterns.append(os.path.join(os.path.dirname(path), name))
    paths = [name for pattern in patterns for name in sorted(glob.glob(pattern), reverse=True)]
    includes = any(_INCLUDE.match(line) for line in lines)
    return Scripts(tuple(patterns), tuple(paths), includes)


def faults(found: Scripts) -> Iterator[Tuple[str, str]]:
    """What makes Slurm drain this node at the end of the next job: (path, why and the remedy)."""
    for pattern in found.patterns:
        if not glob.glob(pattern):
            yield pattern, "it matches no file, which drains the node: put a script there"
    for path in found.paths:
        if not os.access(path, os.R_OK | os.X_OK):
            yield path, "it cannot be run, which drains the node: make it executable or remove it"


def is_ours(path: str) -> bool:
    """Whether the script ``path`` is, or names, firstfault's."""
    try:
        with open(path, "rb") as file:
            return b"firstfault-epilog" in file.read(1 << 16)
    except OSError:
        return False
