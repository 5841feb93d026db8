"""The words of srun, slurmstepd, sbatch and shells when something cannot be started.

Formats as in Slurm 20.11 to 26.05 (src/srun/srun.c and launch.c, src/api/step_launch.c,
src/api/allocate.c, src/sbatch/sbatch.c, src/slurmd/slurmstepd/task.c and mgr.c), pyxis 0.20
(pyxis_slurmstepd.c), bash 4.2 to 5.3 (execute_cmd.c, error.c) and dash 0.5 (exec.c).
"""

from __future__ import annotations

import re

from firstfault.model.event import LaunchFailure
from firstfault.model.line import Line

# Every line that is read here holds one of these.
WORDS = (
    "not found",
    "execve(",
    "interpreter",
    "cannot execute",
    "Can not execute",
    "Permission denied",
    "No such file or directory",
    "chdir",
    "launch",
    "Unable to ",
    "submi",
    "Prolog failed",
    "Could not open std",
    "couldn't start container",
    "failed with rc",
    "Only allocated",
    "srun: fatal: ",
    "sbatch: fatal: ",
    "salloc: fatal: ",
    "srun: unrecognized option",
    "srun: invalid option",
    "srun: option ",
)
_STEPD = r"(?:slurmstepd(?:-(?P<node>[\w.-]{1,253}))?: (?:error|fatal): |^\[\d{4}-[^\]\s]{1,40}\] (?:error|fatal): )"
_STEP = r"(?:StepId=|step |job step )?(?P<id>\d{1,19}(?:\+\d{1,9})?(?:\.[\w+]{1,40})?)"

# What srun, sbatch and salloc say; none of them labels its own lines.
_COMMANDS = (
    (
        "task",
        re.compile(
            rf"srun: error: Task launch for {_STEP} failed on node (?P<host>[\w.-]{{1,253}}): "
        ),
    ),
    ("task", re.compile(r"srun: error: task (?P<task>\d{1,7}) launch failed: ")),
    ("task", re.compile(r"srun: error: (?:launch/slurm: \w{1,60}: )?Application launch failed: ")),
    ("task", re.compile(r"srun: error: timeout waiting for task launch, started ")),
    (
        "step",
        re.compile(r"srun: error: Unable to create (?:job step|step for job (?P<id>\d{1,19})): "),
    ),
    ("step", re.compile(r"srun: error: Only allocated \d{1,9} nodes asked for \d")),
    # Variables that contradict each other, no configuration: srun ends by its fatal().
    ("step", re.compile(r"srun: fatal: (?!Can not execute )")),
    (
        "step",
        re.compile(
            r"^srun: (?:(?:unrecognized|invalid) option (?:--|')|"
            r"option '[^']{1,80}' (?:is ambiguous|requires an argument))"
        ),
    ),
    (
        "submission",
        re.compile(
            r"(?:(?:sbatch|salloc): fatal: |"
            r"sbatch: error: (?:Batch job submission failed: |Unable to open file )|"
            r"srun: error: Unable to (?:allocate resources: |confirm allocation for job )|"
            r"salloc: error: (?:Job submit/allocate failed: |Unable to allocate resources: ))"
        ),
    ),
    ("output", re.compile(r"srun: error: Could not open std(?:in|out|err) file: ")),
    ("command", re.compile(r"srun: (?:fatal|error): Can not execute (?P<program>\S{1,255})")),
)
_DAEMONS = (
    (
        "interpreter",
        re.compile(rf"{_STEPD}execve\(\): bad interpreter ?\((?P<program>[^()\r\n]{{1,255}})\)"),
    ),
    ("execve", re.compile(rf"{_STEPD}execve\(\): (?P<program>[^:\r\n]{{1,255}}): ")),
    ("directory", re.compile(rf"{_STEPD}couldn't chdir to [`'](?P<program>[^'\r\n]{{1,1024}})'")),
    (
        "output",
        re.compile(
            rf"{_STEPD}Could not open std(?:in|out|err) file (?P<program>[^:\r\n]{{1,1024}}): "
        ),
    ),
    ("prolog", re.compile(rf"{_STEPD}(?:TaskProlog|task_prolog|prolog) failed status=")),
    (
        "container",
        re.compile(
            rf"{_STEPD}(?:pyxis: couldn't start container|spank: required plugin "
            r"[\w./-]{1,255}: (?:init|init_post_opt|(?:local_)?user_init|task_init(?:_privileged)?|"
            r"task_post_fork)\(\) failed with rc)"
        ),
    ),
)
_SHELL = r"(?:^|[\s/])(?:slurm_script|(?:ba|da|z|k)?sh|[\w.-]{1,100}\.(?:sh|slurm|sbatch|job)): "
_LINE = r"(?:line \d{1,9}: |\d{1,9}: )?"
_SHELLS = (
    (
        "interpreter",
        126,
        re.compile(
            rf"{_SHELL}{_LINE}[^:\r\n]{{1,1024}}: (?P<program>[^:\r\n]{{1,255}}): bad interpreter: "
        ),
    ),
    (
        "execve",
        127,
        re.compile(
            rf"{_SHELL}{_LINE}(?P<program>[^:\r\n]{{1,1024}}): cannot execute: required file not "
        ),
    ),
    (
        "not-executable",
        126,
        re.compile(
            rf"{_SHELL}{_LINE}(?P<program>[^:\r\n]{{1,1024}}): "
            r"(?:Permission denied|cannot execute|Is a directory)"
        ),
    ),
    (
        "command",
        127,
        re.compile(
            rf"{_SHELL}{_LINE}(?:exec: )?(?P<program>[^:\s]{{1,255}}): "
            r"(?:command not found|not found|No such file or directory)[ \t]*$"
        ),
    ),
    (
        "command",
        127,
        re.compile(
            r"^(?:/\S{1,100}/)?env: [‘'`\"]?(?P<program>[^’'\"\r\n]{1,255}?)[’'\"]?: No such file "
        ),
    ),
)


def launch_failure(line: Line) -> LaunchFailure | None:
    """What one line says that could not be started, None for a line that says nothing such."""
    text = line.text
    if not any(word in text for word in WORDS):
        return None
    if line.speaker.task is None:
        for what, pattern in _COMMANDS:
            if match := pattern.search(text):
                return _of_slurm(line, what, match)
    for what, pattern in _DAEMONS:
        if match := pattern.search(text):
            return _of_slurm(line, what, match)
    for what, code, pattern in _SHELLS:
        if match := pattern.search(text):
            return LaunchFailure(
                line.place,
                line.speaker,
                what,
                program=match["program"].strip()[:255],
                code=code,
                fatal=False,
            )
    return None


def _of_slurm(line: Line, what: str, match: re.Match[str]) -> LaunchFailure:
    named = match.groupdict()
    job, _, step = (named.get("id") or "").partition(".")
    task = named.get("task")
    return LaunchFailure(
        line.place,
        line.speaker,
        what,
        host=named.get("host") or named.get("node"),
        job=job or None,
        step=step or None,
        tasks=() if task is None else (int(task),),
        program=named.get("program"),
        # slurmstepd goes to /tmp instead.
        fatal=what != "directory",
    )
