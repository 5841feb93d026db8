"""What srun, slurmstepd and the batch shell write into a job's output.

Formats as in Slurm 22.05 to 26.05: src/srun/launch.c, src/slurmd/slurmstepd/req.c,
src/plugins/task/cgroup/task_cgroup_memory.c (``Detected ... oom...``).
"""

from __future__ import annotations

import re

from firstfault.model.event import (
    Cancelled,
    NodeFailure,
    OomNoticed,
    ShellKill,
    StepEnded,
    TaskEnd,
)
from firstfault.model.line import Line
from firstfault.readers.times import Zone, within_second

_STEPD = re.compile(r"slurmstepd(?:-(?P<node>[\w.-]{1,253}))?: ")
_TASK_END = re.compile(
    r"srun: error: (?P<host>[\w.-]{1,253}): tasks? (?P<tasks>[\d,\[\]-]{1,20000}): "
    r"(?P<how>(?:(?!srun: |slurmstepd)[^\r\n]){1,200})"
)
_NODE_FAILURE = re.compile(
    r"srun: error: Node failure on ([\w.-]{1,253}?)(?=srun: |slurmstepd|[^\w.-]|$)"
)
_TERMINATING = re.compile(
    r"srun: (?:launch/slurm: _step_signal: )?(?:Terminating|Force Terminated) (?:job step )?(?:StepId=)?(\S{1,64})"
)
_OOM = re.compile(
    r"Detected \d+ oom[-_]kill events?(?:\(s\))? in (?:StepId=|step )(?P<id>[\w.+]{1,64})"
)
_CANCELLED = re.compile(
    r"\*\*\* (?P<what>JOB|STEP) (?P<id>[\w.+]{1,64}) ON (?P<host>[\w.-]{1,253}) CANCELLED AT "
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?P<why>[^*]{0,120})\*\*\*"
)
_EXITED = re.compile(r"Exited with exit code (\d{1,5})")
_SHELL = re.compile(
    r"(?:/slurm_script|bash|sh): line \d{1,9}: +(\d{1,10}) (Killed|Segmentation fault|Aborted|Bus error|Terminated)"
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


def slurm_events(
    line: Line, zone: Zone
) -> list[TaskEnd | NodeFailure | StepEnded | OomNoticed | Cancelled | ShellKill]:
    """The events in one line; two Slurm messages may share a line (25.05 and later)."""
    text = line.text
    found: list[TaskEnd | NodeFailure | StepEnded | OomNoticed | Cancelled | ShellKill] = []
    for ended in _TASK_END.finditer(text):
        found.extend(_task_end(line, ended))
    if match := _NODE_FAILURE.search(text):
        found.append(NodeFailure(line.place, match[1]))
    if match := _TERMINATING.search(text):
        found.append(StepEnded(line.place, step_id(match[1])[1]))
    if match := _OOM.search(text):
        job, step = step_id(match["id"])
        stepd = _STEPD.search(text)
        found.append(
            OomNoticed(line.place, line.speaker, stepd["node"] if stepd else None, job, step)
        )
    for cancelled in _CANCELLED.finditer(text):
        job, step = step_id(cancelled["id"])
        why = cancelled["why"].upper()
        reason = next((name for word, name in _REASONS if word in why), None)
        found.append(
            Cancelled(
                line.place,
                within_second(cancelled["time"], zone),
                cancelled["host"],
                job or cancelled["id"],
                None if cancelled["what"] == "JOB" else step,
                reason,
            )
        )
    if match := _SHELL.search(text):
        found.append(ShellKill(line.place, line.speaker, int(match[1]), _SIGNALS[match[2]]))
    return found


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
