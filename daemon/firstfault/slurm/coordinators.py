"""Who coordinates which accounts, as Slurm's accounting says.

``sacctmgr show user withcoord`` lists for each user the accounts of which they were made a
coordinator and the accounts below these, in every cluster (as_mysql_user.c, _get_user_coords; the
same from 20.11 to 25.11).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from firstfault.slurm.command import run
from firstfault.slurm.facts import FactsError

CAP_BYTES = 32 * 1024 * 1024


def coordinated(sacctmgr: Path, timeout_s: float) -> Mapping[str, tuple[str, ...]]:
    """The accounts of each user who coordinates some. Raises `FactsError`."""
    argv = [str(sacctmgr), "-nP", "show", "user", "withcoord", "format=User,Coord"]
    environment = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    if "SLURM_CONF" in os.environ:
        environment["SLURM_CONF"] = os.environ["SLURM_CONF"]
    try:
        output = run(argv, environment, timeout_s, CAP_BYTES)
    except OSError as error:
        raise FactsError(f"{sacctmgr} cannot be run: {error.strerror}") from error
    if output.stopped is not None:
        raise FactsError(f"{sacctmgr}: {output.stopped}. Is slurmdbd up (sacctmgr ping)?")
    if output.status != 0:
        said = output.stderr.decode("utf-8", "replace").strip()[-500:]
        raise FactsError(f"{sacctmgr} show user ended with status {output.status}: {said}")
    return parse(output.stdout.decode("utf-8", "replace"))


def parse(printed: str) -> dict[str, tuple[str, ...]]:
    """What sacctmgr ``printed``: "USER|ACCOUNT,ACCOUNT" lines."""
    found: dict[str, tuple[str, ...]] = {}
    for line in printed.splitlines():
        user, _, accounts = line.partition("|")
        names = tuple(dict.fromkeys(name for name in accounts.split(",") if name))
        if user and names:
            found[user] = found.get(user, ()) + names
    return found
