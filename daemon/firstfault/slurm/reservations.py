"""Maintenance reservations, as ``scontrol show reservation -o`` prints them: a line for each, of
``Key=value`` words (slurm_sprint_reservation_info in src/api/reservation_info.c)."""

from __future__ import annotations

import datetime as dt
import os
import re
from pathlib import Path

import msgspec

from firstfault.readers.nodelist import expand
from firstfault.slurm.command import run
from firstfault.slurm.facts import FactsError

CAP_BYTES = 16 * 1024 * 1024
# scontrol(1), SLURM_TIME_FORMAT: without a zone a time cannot be told from elsewhere.
_TIMES = "%Y-%m-%dT%H:%M:%S%z"
_WORD = re.compile(r"(?:^|\s)(ReservationName|StartTime|EndTime|Nodes|Flags)=(\S*)")


class Reservation(msgspec.Struct, frozen=True):
    """Nodes that are kept free for maintenance from one time to another."""

    name: str
    start_at: dt.datetime
    end_at: dt.datetime
    nodes: tuple[str, ...]


def maintenance(scontrol: Path, timeout_s: float, cluster: str = "") -> list[Reservation]:
    """The reservations with the flag MAINT, of the cluster that slurm.conf names or another.

    Raises `FactsError`.
    """
    argv = [str(scontrol), *([f"--clusters={cluster}"] if cluster else [])]
    argv += ["show", "reservation", "-o"]
    environment = {"LC_ALL": "C", "PATH": "/usr/bin:/bin", "SLURM_TIME_FORMAT": _TIMES}
    if "SLURM_CONF" in os.environ:
        environment["SLURM_CONF"] = os.environ["SLURM_CONF"]
    try:
        output = run(argv, environment, timeout_s, CAP_BYTES)
    except OSError as error:
        raise FactsError(f"{scontrol} cannot be run: {error.strerror}") from error
    if output.stopped is not None:
        raise FactsError(f"{scontrol}: {output.stopped}. Is slurmctld up (scontrol ping)?")
    if output.status != 0:
        said = output.stderr.decode("utf-8", "replace").strip()[-500:]
        raise FactsError(f"{scontrol} show reservation ended with status {output.status}: {said}")
    return read(output.stdout.decode("utf-8", "replace"))


def read(text: str) -> list[Reservation]:
    """The maintenance reservations in what scontrol printed; what is none is left out."""
    found = []
    for line in text.splitlines():
        # Where a value holds what looks like a word, the first one counts.
        words = dict(reversed(_WORD.findall(line)))
        if "MAINT" not in words.get("Flags", "").split(","):
            continue
        try:
            start_at, end_at = (_time(words[key]) for key in ("StartTime", "EndTime"))
            nodes = expand(words["Nodes"]) if words["Nodes"] not in ("", "(null)") else ()
        except (KeyError, ValueError):
            continue
        found.append(Reservation(words["ReservationName"], start_at, end_at, nodes))
    return found


def _time(text: str) -> dt.datetime:
    return dt.datetime.strptime(text, _TIMES).astimezone(dt.UTC)
