"""Maintenance reservations, as ``scontrol show reservation -o`` prints them: a line for each, of
``Key=value`` words (slurm_sprint_reservation_info in src/api/reservation_info.c)."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import msgspec

from firstfault.readers.nodelist import expand
from firstfault.slurm.scontrol import show

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
    printed = show(
        scontrol,
        "reservation",
        "-o",
        timeout_s=timeout_s,
        cap_bytes=CAP_BYTES,
        cluster=cluster,
        more={"SLURM_TIME_FORMAT": _TIMES},
    )
    return read(printed)


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
