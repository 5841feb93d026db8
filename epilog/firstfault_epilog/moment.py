"""What is known of a job's end only while it is fresh: the kernel's words, the cgroup's counters.

Kernel records are overwritten, a cgroup is removed, a boot ends; logs stay for a while.
"""

from typing import List, NamedTuple, Optional, Set, Tuple

from firstfault_epilog import cgroup, former_boots, kernel, kernel_evidence, oom_table
from firstfault_epilog.entries import Entry
from firstfault_epilog.job import Job, jobs_of
from firstfault_epilog.record import Clock, Coverage, File, instant
from firstfault_epilog.settings import Settings

# Where Slurm does not tell the start (22.05): how long before the end a fault is an alarm.
ALARM_S = 3600.0
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Moment(NamedTuple):
    """``kernel`` and ``counters`` are what was read, each with the rows of coverage on it.

    ``alarmed``: the kernel told of a fault of the node or of this job during the job's time.
    """

    boot_id: Optional[str]
    clock: Clock
    kernel: Tuple[File, ...] = ()
    kernel_rows: Tuple[Coverage, ...] = ()
    counters: Tuple[File, ...] = ()
    counter_rows: Tuple[Coverage, ...] = ()
    alarmed: bool = False


def boot_id(settings: Settings) -> Optional[str]:
    """The running kernel's boot id, or that of the file that stands in for its log."""
    if settings.boot_id is not None:
        return settings.boot_id
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read(64).strip()
    except (OSError, ValueError):
        return None


def read(entry: Entry, job: Job, settings: Settings, clock: Clock) -> Moment:
    """What can be had now of the end in ``entry``."""
    files, rows, alarmed = _kernel(entry, job, settings, clock)
    counters, row = cgroup.read(
        cgroup.Job(job.id, job.uid, job.node, entry.value("SLURM_JOB_SLUID"))
    )
    return Moment(
        boot_id(settings), clock, tuple(files), tuple(rows), tuple(counters), (row,), alarmed
    )


def joined(kept: Moment, later: Moment) -> Moment:
    """The end as ``kept`` saw it, with what the kernel said right after.

    ``later`` is the same end looked at again: after a boot, or where records were overwritten
    meanwhile, it has lost some of what was kept, and does not count.
    """
    same_boot = kept.boot_id is not None and kept.boot_id == later.boot_id
    if not same_boot or not _sequences(kept) < _sequences(later):
        return kept
    return kept._replace(clock=later.clock, kernel=later.kernel)


def _sequences(moment: Moment) -> Set[int]:
    return {
        line.sequence
        for file in moment.kernel
        for excerpt in file.excerpts
        for line in kernel.parse(excerpt.data)
    }


def started_at_s(job: Job, settings: Settings) -> float:
    """When the job started, or the earliest time looked at where Slurm does not tell."""
    if job.started_at_s is not None:
        return job.started_at_s
    return job.ended_at_s - settings.max_job_age_s


def _kernel(
    entry: Entry, job: Job, settings: Settings, clock: Clock
) -> Tuple[List[File], List[Coverage], bool]:
    log = kernel.read(settings.kernel_log)
    coverage = list(log.coverage)
    if not log.lines:
        return [], coverage, False
    offset = clock.kernel_offset_s
    since = started_at_s(job, settings)
    lines = oom_table.reduced(
        kernel_evidence.in_window(log.lines, offset, since, job.ended_at_s), job.uid
    )
    selection = kernel_evidence.select(lines)
    if offset is None:
        coverage[0] = Coverage(
            "kernel", log.name, "partial", "clock", "its clock is not known: nothing is left out"
        )
    elif settings.kernel_log == kernel.DEVICE:
        coverage[0] = overwritten(log, offset, since) or coverage[0]
    if selection.dropped:
        detail = f"{selection.dropped} lines that tell of faults had no room"
        coverage.append(Coverage("kernel", log.name, "partial", "size", detail))
    whole = sum(len(excerpt.data) for excerpt in selection.excerpts) == log.size
    file = File(log.name, "kernel", log.size, None, None, whole, selection.excerpts, False)
    if offset is not None and job.started_at_s is None:
        # What is older may be of another job's time; it is kept, and tells once the job is known.
        recent_s = job.ended_at_s - ALARM_S
        lines = kernel_evidence.in_window(lines, offset, recent_s, job.ended_at_s)
    alarmed = kernel_evidence.alarms(lines, jobs_of(entry))
    if offset is None or settings.kernel_log != kernel.DEVICE:
        return [file], coverage, alarmed
    row = rebooted(log, offset, _doubtful_since_s(job))
    if row is None:
        return [file], coverage, alarmed
    former, former_alarmed = _former(entry, job, settings, offset)
    if former:
        names = ", ".join(each.name for each in former)
        row = row._replace(detail=f"{row.detail}; what was kept of it: {names}")
    return [file, *former], [*coverage, row], alarmed or former_alarmed


# From when on a boot may have been during the job: where nobody tells the start, in the last hour.
def _doubtful_since_s(job: Job) -> float:
    return job.ended_at_s - ALARM_S if job.started_at_s is None else job.started_at_s


# The kernel's words of before the boot at ``booted_at_s``, and whether they are an alarm.
def _former(
    entry: Entry, job: Job, settings: Settings, booted_at_s: float
) -> Tuple[List[File], bool]:
    since = started_at_s(job, settings)
    present = boot_id(settings)
    files = []
    alarmed = False
    for boot in former_boots.read(since, present, booted_at_s):
        lines = oom_table.reduced(
            kernel_evidence.in_window(boot.lines, boot.offset_s, since, job.ended_at_s), job.uid
        )
        excerpts = kernel_evidence.select(lines).excerpts
        size = sum(len(line.data) for line in boot.lines)
        name = boot.id or f"before {present}"
        files.append(
            File(boot.name, "kernel", size, None, None, False, excerpts, False, name, boot.offset_s)
        )
        recent = kernel_evidence.in_window(
            lines, boot.offset_s, _doubtful_since_s(job), job.ended_at_s
        )
        alarmed = alarmed or kernel_evidence.alarms(recent, jobs_of(entry))
    return files, alarmed


def overwritten(log: kernel.Log, offset_s: float, started_at_s: float) -> Optional[Coverage]:
    """That the log begins too late, None where it does not.

    ``offset_s`` is wall clock minus kernel clock. Only an overwritten beginning hides records:
    before the boot's first one there was nothing.
    """
    first = log.lines[0]
    begins_at_s = first.microseconds / 1e6 + offset_s
    if first.sequence == 0 or begins_at_s <= started_at_s:
        return None
    detail = "older records were overwritten: it begins after the earliest time looked at"
    since = instant(begins_at_s)
    return Coverage("kernel", log.name, "partial", "overwritten", detail, since)


def rebooted(log: kernel.Log, offset_s: float, started_at_s: float) -> Optional[Coverage]:
    """That the node was booted after ``started_at_s``, so that its log of before is another's.

    ``offset_s`` is wall clock minus kernel clock: when the kernel's clock began. None where it
    was not.
    """
    if offset_s <= started_at_s + kernel_evidence.BEFORE_S:
        return None
    at = instant(offset_s)
    detail = (
        f"the node was booted at {at}, after the job had started (where that is known): what its "
        "kernel said before is not in this log"
    )
    return Coverage("kernel", log.name, "partial", "rebooted", detail, at)
