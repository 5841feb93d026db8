"""Who coordinates which accounts, as Slurm's accounting says.

``sacctmgr show user withcoord`` lists for each user the accounts of which they were made a
coordinator and the accounts below these, in every cluster (as_mysql_user.c, _get_user_coords; the
same from 20.11 to 25.11).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from firstfault.slurm.command import printed

CAP_BYTES = 32 * 1024 * 1024


def coordinated(sacctmgr: Path, timeout_s: float) -> Mapping[str, tuple[str, ...]]:
    """The accounts of each user who coordinates some. Raises `FactsError`."""
    said = printed(
        sacctmgr,
        ["-nP", "show", "user", "withcoord", "format=User,Coord"],
        "show user",
        "slurmdbd up (sacctmgr ping)",
        timeout_s=timeout_s,
        cap_bytes=CAP_BYTES,
    )
    return parse(said)


def parse(text: str) -> dict[str, tuple[str, ...]]:
    """What sacctmgr printed: "USER|ACCOUNT,ACCOUNT" lines."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        user, _, accounts = line.partition("|")
        names = tuple(dict.fromkeys(name for name in accounts.split(",") if name))
        if user and names:
            found[user] = found.get(user, ()) + names
    return found
