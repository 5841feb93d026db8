"""What becomes of the end of a job: collected at once, kept until the daemon says, or let go.

Slurm tells a node nothing of a time limit, a cancellation or a preemption: exit codes are zero as
after success (``create_kill_job_msg`` in src/slurmctld/job_mgr.c: the message is made before
anything dies), and with ``PrologFlags=RunInJob`` they are zero after every end.
"""

import re
from typing import NamedTuple, Optional

from firstfault_epilog import patterns
from firstfault_epilog.entries import Entry
from firstfault_epilog.job import job_of
from firstfault_epilog.moment import Moment
from firstfault_epilog.settings import Settings

COLLECT = "collect"
ASK = "ask"
LET_GO = "let go"
_CODES = ("SLURM_JOB_EXIT_CODE", "SLURM_JOB_DERIVED_EC")


class Fate(NamedTuple):
    """``what`` is one of `COLLECT`, `ASK`, `LET_GO`; ``why`` a part of a sentence for people."""

    what: str
    why: str


def fate(entry: Entry, moment: Moment, settings: Settings) -> Fate:
    """What becomes of the end in ``entry``."""
    if settings.daemon is None:
        return Fate(COLLECT, "every end is collected where the daemon reads the spool's folder")
    for name in _CODES:
        code = entry.value(name)
        if code is None:
            return Fate(COLLECT, f"Slurm gave no {name}")
        if code != "0":
            return Fate(COLLECT, f"{name} is {code[:20]}")
    if moment.alarmed:
        return Fate(COLLECT, "the kernel log tells of a fault during the job")
    return _of_quiet(entry, settings)


def _of_quiet(entry: Entry, settings: Settings) -> Fate:
    nodes = _nodes(entry)
    if nodes != 1:
        how_many = "an unknown number of" if nodes is None else "two or more"
        return Fate(ASK, f"exit codes are zero, it ran on {how_many} nodes")
    job = job_of(entry)
    if job.started_at_s is None:
        return Fate(ASK, "exit codes are zero, Slurm did not tell when it started")
    ran_s = job.ended_at_s - job.started_at_s
    if ran_s > settings.pending_after_s:
        return Fate(ASK, f"exit codes are zero, it ran for {ran_s:.0f} s")
    return Fate(LET_GO, f"exit codes are zero, it ran for {ran_s:.0f} s on one node")


# 1, 2 for any more, None where it cannot be told.
def _nodes(entry: Entry) -> Optional[int]:
    if re.match(r"[0-9]{2,9}\Z|[2-9]\Z", entry.value("SLURM_JOB_NUM_NODES") or ""):
        return 2
    # Of a heterogeneous job the other components have nodes, too.
    if entry.value("SLURM_HET_JOB_ID"):
        return 2
    listed = entry.value("SLURM_JOB_NODELIST") or entry.value("SLURM_NODELIST")
    first = patterns.first_nodes(listed, 2)
    return None if first is None else len(first)
