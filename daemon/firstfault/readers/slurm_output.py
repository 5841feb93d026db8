"""What srun, slurmstepd and the batch shell write into a job's output.

Formats as in Slurm 20.11 to 26.05: src/srun/launch.c, src/srun/srun.c,
src/slurmd/slurmstepd/req.c, src/slurmd/slurmstepd/step_terminate_monitor.c,
src/interfaces/jobacct_gather.c (``exceeded memory limit``) and
src/plugins/task/cgroup/task_cgroup_memory.c (``Detected ... oom...``). What could not be started is
read by `firstfault.readers.launch`.
"""

from __future__ import annotations

import re

import msgspec

from firstfault.model.event import (
    Cancelled,
    Interrupt,
    LaunchFailure,
    MemoryPoll,
    NodeFailure,
    OomNoticed,
    ShellKill,
    StepEnded,
    TaskEnd,
    TaskStatus,
)
from firstfault.model.line import Line
from firstfault.readers.launch import launch_failure
from firstfault.readers.times import Zone, within_second

# A line without any of these is nothing to `slurm_events`.
SLURM_WORDS = (
    "srun:",
    "sbatch:",
    "salloc:",
    "slurmstepd",
    "***",
    "oom",
    "slurm_script",
    "sh: ",
    " line ",
    "env: ",
    "] error: ",
)
_STEPD = re.compile(r"slurmstepd(?:-(?P<node>[\w.-]{1,253}))?: ")
_TASK_END = re.compile(
    r"srun: error: (?P<host>[\w.-]{1,253}): tasks? (?P<tasks>[\d,\[\]-]{1,20000}): "
    r"(?P<how>(?:(?!srun: |slurmstepd)[^\r\n]){1,200})"
)
_NODE_FAILURE = re.compile(
    r"(?:srun|salloc): error: Node failure on ([\w.-]{1,253}?)(?=srun: |slurmstepd|[^\w.-]|$)"
)
_TERMINATING = re.compile(
    r"srun: (?:launch/slurm: \w{1,40}: )?(?:Terminating|Force Terminated) (?:job (?:step )?)?"
    r"(?:StepId=)?(\d[\w.+]{0,63})"
)
_OOM = re.compile(
    r"Detected \d+ oom[-_]kill events?(?:\(s\))? in (?:StepId=|step )(?P<id>[\w.+]{1,64})"
)
# Slurm 2 named no node; notes and tests of sites leave out the time.
_CANCELLED = re.compile(
    r"\*\*\* (?P<what>JOB|STEP) (?P<id>\d[\w.+]{0,63}) (?:ON (?P<host>[\w.-]{1,253}) )?CANCELLED "
    r"(?:AT (?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)|(?=DUE TO ))(?P<why>[^*]{0,120})\*\*\*"
)
# A terminal's width, or a mail's, breaks such a message.
_UNFINISHED = re.compile(
    r"\*\*\* (?:JOB|STEP) \d[\w.+]{0,63}(?: ON [\w.-]{1,253})?(?: CANCELLED| CANCELLED AT [\d:T-]{19})?"
    r"(?: DUE| DUE TO| DUE TO [A-Z]{2,12})?\s{0,80}$"
)
_REST = re.compile(
    r"\s{0,80}(?:ON|CANCELLED|AT|DUE|TO|TIME|LIMIT|JOB|NODE|PREEMPTION|FAILURE) [^*]{0,200}\*\*\*"
)
_REVOKED = re.compile(
    r"salloc: Job (\d{1,19}) has exceeded its time limit and its allocation has been revoked"
)
_FAILED = re.compile(
    r"\*\*\* (?P<what>JOB|STEP) (?P<id>[\w.+]{1,64}) (?:STEPD TERMINATED )?ON (?P<host>[\w.-]{1,253}) "
    r"(?:FAILED \(non-zero exit code|AT (?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d) DUE TO JOB NOT (?:ENDING|RUNNING))"
)
_POLL = re.compile(
    r"(?:slurmstepd(?:-(?P<node>[\w.-]{1,253}))?: (?:error: )?|^\[\d{4}-[^\]\s]{1,40}\] error: )"
    r"(?:(?:StepId=|Step |Job )(?P<id>\d[\w.+]{0,63}) exceeded (?:virtual )?memory limit "
    r"\((?P<used>\d{1,20}) ?> ?(?P<limit>\d{1,20})\), (?:being killed|cancelling it)|"
    r"Exceeded job memory limit)"
)
_ABORTED = re.compile(r"srun: (?:forcing job termination|Job step aborted)")
_FIRST_EXIT = re.compile(
    r"srun: (?:launch/slurm: \w{1,40}: )?First task exited(?: \d{1,9}s ago|\.)"
)
_STATUS = re.compile(
    r"srun: (?:StepId=\d[\w.+]{0,63} )?tasks? (?P<tasks>[\d,\[\]-]{1,20000}): (?P<kind>running|exited)"
)
_INTERRUPT = re.compile(r"srun: sending Ctrl-C to (?:StepId=|job )(\d[\w.+]{0,63})")
_EXITED = re.compile(r"Exited with exit code (\d{1,5})")
_SHELL = re.compile(
    r"(?:/slurm_script|bash|sh): line \d{1,9}: +(\d{1,10}) (Killed|Segmentation fault|Aborted|"
    r"Bus error|Terminated|Illegal instruction|Floating point exception|Trace/breakpoint trap|"
    r"Bad system call|Hangup|Quit)"
)
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?$")
_MOST_TASKS = 1_000_000
_SIGNALS = {
    "Hangup": 1,
    "Interrupt": 2,
    "Quit": 3,
    "Illegal instruction": 4,
    "Trace/breakpoint trap": 5,
    "Aborted": 6,
    "Bus error": 7,
    "Floating point exception": 8,
    "Killed": 9,
    "User defined signal 1": 10,
    "Segmentation fault": 11,
    "User defined signal 2": 12,
    "Broken pipe": 13,
    "Alarm clock": 14,
    "Terminated": 15,
    "CPU time limit exceeded": 24,
    "File size limit exceeded": 25,
    "Bad system call": 31,
}
_REASONS = (
    ("TIME LIMIT", "time-limit"),
    ("PREEMPTION", "preemption"),
    ("NODE FAILURE", "node-failure"),
    ("JOB REQUEUE", "requeue"),
    ("TASK FAILURE", "task-failure"),
    ("SIGNAL", "signal"),
)


Found = (
    TaskEnd
    | NodeFailure
    | StepEnded
    | OomNoticed
    | Cancelled
    | ShellKill
    | LaunchFailure
    | MemoryPoll
    | Interrupt
    | TaskStatus
)


class SlurmReader:
    """Takes one stream's lines and gives Slurm's events, those of messages on two lines too."""

    def __init__(self) -> None:
        self._begun: Line | None = None

    def feed(self, line: Line, zone: Zone) -> list[Found]:
        """What ``line`` tells, or ends."""
        text = line.text
        begun, self._begun = self._begun, None
        if "***" in text and _UNFINISHED.search(text):
            self._begun = line
        elif begun is not None and _REST.match(text):
            whole = f"{begun.text.rstrip()} {text.strip()}"
            return slurm_events(msgspec.structs.replace(line, text=whole), zone)
        return slurm_events(line, zone)


def slurm_events(line: Line, zone: Zone) -> list[Found]:
    """The events in one line; two Slurm messages may share a line (25.05 and later).

    srun labels the lines of its tasks, never its own: in a labelled line nothing is srun's.
    """
    found = _events(line, zone)
    if line.speaker.task is None:
        return found
    own = TaskEnd | NodeFailure | StepEnded | Interrupt | TaskStatus
    return [each for each in found if not isinstance(each, own)]


def _events(line: Line, zone: Zone) -> list[Found]:
    text = line.text
    found: list[Found] = []
    for ended in _TASK_END.finditer(text):
        found.extend(_task_end(line, ended))
    if match := _NODE_FAILURE.search(text):
        found.append(NodeFailure(line.place, match[1]))
    if match := _TERMINATING.search(text):
        found.append(StepEnded(line.place, step_id(match[1])[1]))
    elif _ABORTED.search(text):
        found.append(StepEnded(line.place, None))
    if match := _OOM.search(text):
        job, step = step_id(match["id"])
        stepd = _STEPD.search(text)
        found.append(
            OomNoticed(line.place, line.speaker, stepd["node"] if stepd else None, job, step)
        )
    found.extend(_cancelled(line, match, zone) for match in _CANCELLED.finditer(text))
    found.extend(_cancelled(line, match, zone) for match in _FAILED.finditer(text))
    if match := _REVOKED.search(text):
        found.append(Cancelled(line.place, None, None, match[1], None, "time-limit"))
    if match := _POLL.search(text):
        job, step = step_id(match["id"] or "")
        # Before StepId= was written so (20.11), the unit was not always the byte.
        told = match["used"] is not None and "StepId=" in match[0]
        used, limit = (int(match["used"]), int(match["limit"])) if told else (None, None)
        found.append(MemoryPoll(line.place, line.speaker, match["node"], job, step, used, limit))
    if _FIRST_EXIT.search(text):
        found.append(TaskStatus(line.place, "first-exit"))
    elif match := _STATUS.search(text):
        found.append(TaskStatus(line.place, match["kind"], tuple(_numbers(match["tasks"]))))
    if match := _INTERRUPT.search(text):
        found.append(Interrupt(line.place, step_id(match[1])[1]))
    if failure := launch_failure(line):
        found.append(failure)
    if match := _SHELL.search(text):
        found.append(ShellKill(line.place, line.speaker, int(match[1]), _SIGNALS[match[2]]))
    return found


def _cancelled(line: Line, match: re.Match[str], zone: Zone) -> Cancelled:
    job, step = step_id(match["id"])
    why = match.groupdict().get("why")
    if why is not None:
        reason = next((name for word, name in _REASONS if word in why.upper()), None)
    else:
        reason = "failed" if match["time"] is None else "unkillable"
    return Cancelled(
        line.place,
        None if match["time"] is None else within_second(match["time"], zone),
        match["host"],
        job or match["id"],
        None if match["what"] == "JOB" else step,
        reason,
    )


def stepd_node(text: str) -> str | None:
    """The node that a slurmstepd line of a build with several slurmd on a host names."""
    match = _STEPD.match(text)
    return match["node"] if match else None


def step_id(text: str) -> tuple[str | None, str | None]:
    """Job and step of "12.0", "12.batch", "12" or "12+1.0"."""
    job, _, step = text.rstrip(".").partition(".")
    return (job or None), (step or None)


def _task_end(line: Line, match: re.Match[str]) -> list[TaskEnd]:
    how = match["how"]
    tasks = tuple(_numbers(match["tasks"]))
    if exited := _EXITED.match(how):
        return [TaskEnd(line.place, match["host"], tasks, "exit", int(exited[1]))]
    if how.startswith("Out Of Memory"):
        return [TaskEnd(line.place, match["host"], tasks, "oom")]
    for word, number in _SIGNALS.items():
        if how.startswith(word):
            return [TaskEnd(line.place, match["host"], tasks, "signal", number)]
    return []


# "3", "0-3", "[0-3,7]". A line cannot make more tasks than a step may have.
def _numbers(text: str) -> list[int]:
    result: list[int] = []
    for part in text.strip("[]").split(","):
        match = _RANGE.match(part)
        if match is None:
            continue
        low, high = int(match[1]), int(match[2] or match[1])
        room = _MOST_TASKS - len(result)
        result.extend(range(low, min(high + 1, low + room)))
    return result
