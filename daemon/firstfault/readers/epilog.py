"""The environment of a node's Epilog (or of EpilogSlurmctld), one KEY=VALUE a line.

Variables as in Slurm's src/plugins/prep/script/prep_script_slurmd.c (``_build_env``).
"""

from __future__ import annotations

import re

from firstfault.model.document import Document
from firstfault.model.event import EndFacts
from firstfault.model.line import Place
from firstfault.streams.lines import raw_lines

_VARIABLE = re.compile(r"([A-Z_][A-Z0-9_]{0,80})=(.*)$", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,18}$")


def looks_like_epilog(head: str) -> bool:
    """Whether a file that begins with ``head`` is an Epilog's environment."""
    return "SLURM_SCRIPT_CONTEXT=epilog" in head and "SLURM_JOB_ID=" in head


def epilog_event(document: Document) -> EndFacts | None:
    """What the node was told, None where the file names no job."""
    values: dict[str, str] = {}
    places: dict[str, Place] = {}
    for place, raw in raw_lines(document):
        if match := _VARIABLE.match(raw):
            values[match[1]] = match[2]
            places[match[1]] = place
    if "SLURM_JOB_ID" not in values:
        return None
    place = places.get("SLURM_JOB_EXIT_CODE", places["SLURM_JOB_ID"])
    return EndFacts(
        place=place,
        host=values.get("SLURMD_NODENAME"),
        job=values["SLURM_JOB_ID"],
        cluster=values.get("SLURM_CLUSTER_NAME"),
        user=values.get("SLURM_JOB_USER"),
        uid=_number(values.get("SLURM_JOB_UID")),
        nodes=values.get("SLURM_JOB_NODELIST") or values.get("SLURM_NODELIST"),
        exit_status=_number(values.get("SLURM_JOB_EXIT_CODE")),
        derived_status=_number(values.get("SLURM_JOB_DERIVED_EC")),
        restarts=_number(values.get("SLURM_JOB_RESTART_COUNT")),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _NUMBER.match(text) else None
