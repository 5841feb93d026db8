"""What the Epilog's variables say of the job that ended."""

import re
from typing import NamedTuple, Optional, Tuple

from firstfault_epilog.entries import Entry


class Job(NamedTuple):
    """The facts of an entry; None where Slurm did not tell. Times in seconds since 1970."""

    cluster: Optional[str]
    id: str
    node: str
    uid: Optional[int]
    gid: Optional[int]
    user: Optional[str]
    started_at_s: Optional[float]
    ended_at_s: float


def job_of(entry: Entry) -> Job:
    """What the Epilog's variables say of the job."""

    def number(*names: str) -> Optional[int]:
        for name in names:
            value = entry.value(name) or ""
            if re.match(r"[0-9]{1,20}\Z", value):
                return int(value)
        return None

    started = number("SLURM_JOB_START_TIME")
    return Job(
        cluster=entry.value("SLURM_CLUSTER_NAME") or None,
        id=entry.value("SLURM_JOB_ID") or "",
        node=entry.value("SLURMD_NODENAME") or "",
        uid=number("SLURM_JOB_UID", "SLURM_UID"),
        gid=number("SLURM_JOB_GID"),
        user=entry.value("SLURM_JOB_USER") or None,
        started_at_s=float(started) if started and started <= entry.ended_at_s else None,
        ended_at_s=entry.ended_at_s,
    )


def jobs_of(entry: Entry) -> Tuple[str, ...]:
    """The numbers under which the job's tasks know it: of a heterogeneous job also the first's."""
    names = (entry.value("SLURM_JOB_ID"), entry.value("SLURM_HET_JOB_ID"))
    return tuple({name: None for name in names if name and re.match(r"[0-9]{1,20}\Z", name)})
