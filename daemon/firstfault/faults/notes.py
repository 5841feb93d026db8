"""What Slurm's daemons noted (slurmctld.log, slurmd.log, scontrol show node), of this job alone."""

from __future__ import annotations

from firstfault.faults.memory import in_window
from firstfault.model.event import SlurmNote
from firstfault.model.run import Happened, Run, Told

# Notes that tell of an end that is no success.
_ENDS = frozenset(
    {
        "time-limit",
        "node-failure",
        "preempted",
        "cancelled",
        "oom",
        "memory-poll",
        "signal",
        "prolog",
        "launch",
        "boot",
    }
)


def notes_of_job(told: Told, run: Run) -> list[Happened]:
    """The notes that speak of the job: by its number, or of a node of it in the job's time.

    A daemon's log tells of many jobs. Where nothing else says which one is meant, its notes count
    only if they tell of the bad end of one job alone.
    """
    notes = [each for each in run.happened if isinstance(each.event, SlurmNote)]
    jobs = told.jobs or _lone_job(notes)
    return [each for each in notes if _is_jobs(each, jobs, told)]


def _lone_job(notes: list[Happened]) -> frozenset[str]:
    named = {
        e.event.job
        for e in notes
        if isinstance(e.event, SlurmNote) and e.event.job and e.event.kind in _ENDS
    }
    return frozenset(job for job in named if job) if len(named) == 1 else frozenset()


def _is_jobs(each: Happened, jobs: frozenset[str], told: Told) -> bool:
    event = each.event
    if not isinstance(event, SlurmNote) or not in_window(event.at, told):
        return False
    if event.job is not None:
        return event.job in jobs
    return event.node is not None and event.node in told.nodes
