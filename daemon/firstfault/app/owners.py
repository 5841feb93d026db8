"""Where a job's owner is reached, as [owners] tells."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from firstfault.config import Config
from firstfault.deliver.owners import OwnerError, Owners
from firstfault.slurm.command import run

_CAP_BYTES = 4096


def owners_of(config: Config) -> Owners:
    """The owners' addresses, as configured."""
    owners = config.owners
    return Owners(
        template=owners.template,
        mapping=Path(owners.file) if owners.file else None,
        command=(
            partial(asked, owners.command, owners.command_timeout_s) if owners.command else None
        ),
    )


def asked(command: Sequence[str], timeout_s: float, user: str) -> str:
    """What ``command`` prints for ``user``, its last argument. Raises `OwnerError`."""
    environment = {"LC_ALL": "C", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    named = f"owners.command {command[0]}"
    try:
        output = run([*command, user], environment, timeout_s, _CAP_BYTES)
    except OSError as error:
        raise OwnerError(f"{named} cannot be run: {error.strerror}") from error
    if output.stopped is not None:
        raise OwnerError(f"{named}: {output.stopped}")
    if output.status != 0:
        raise OwnerError(f"{named} ended with status {output.status}")
    return output.stdout.decode("utf-8", "replace")
