"""How sure the words of srun and slurmstepd on a failed start are: a program can print them.

A program that starts a step of its own, or quotes an older log, prints Slurm's very lines and goes
on. Slurm's own differ by what stands around them:

| the words | are sure where |
|---|---|
| slurmstepd's ``execve()`` | the task or the job ended with the number of that error |
| any | nothing else was ever said |
| any | the step or the job failed, the output before is a few lines without a step of work, and nothing follows |

Where work follows them they are possible at most. They are never sure where their own task has said
something else, where they do not begin their line, or where ranks ran and no task ended.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence

from firstfault.model.event import EndFacts, LastWords, LaunchFailure, StepEnded, TaskEnd
from firstfault.model.run import Happened, Run, Told
from firstfault.model.verdict import CONFIRMED, LIKELY, POSSIBLE

# What a script, slurmstepd and a shell say of a start is a few lines; they are no sign that a rank
# ran, though those of slurmstepd bear the task's label.
FEW_LINES = 20
_BAD = frozenset({"FAILED", "CANCELLED", "OUT_OF_MEMORY", "TIMEOUT", "LAUNCH_FAILED"})
# Slurm's word begins its line, but for a label or a time.
_OWN_LINE = re.compile(
    r"(?:20\d\d-\S{5,40} )?\s{0,8}(?:\d{1,7}: )?"
    r"(?:srun: |sbatch: |salloc: |slurmstepd(?:-[\w.-]{1,253})?: |\[20\d\d-)"
)
# exec_task() of slurmstepd ends with errno (Slurm 20.11 to 25.05, src/slurmd/slurmstepd/task.c).
_ERRORS = {os.strerror(number): number for number in errno.errorcode}
_EXECS = frozenset({"execve", "interpreter"})
# What srun and sbatch say themselves: then a script's last command failed.
_COMMANDS = frozenset({"step", "submission", "task", "command", "output"})


def launch(each: Happened) -> LaunchFailure:
    """The event, which is a `LaunchFailure`."""
    assert isinstance(each.event, LaunchFailure)
    return each.event


def ranks_ran(run: Run) -> bool:
    """Whether the evidence shows that a rank was at work: a pid, a file, or more than a few lines."""
    return any(
        process.pids
        or process.run is not None
        or process.local_rank is not None
        or (process.lines or 0) > FEW_LINES
        for process in run.roster
    )


def job_failed(told: Told) -> bool:
    """Whether Slurm says that the job ended badly."""
    state = told.facts.state if told.facts else None
    return state in _BAD or bool(told.exit_status)


def exit_codes(told: Told, run: Run) -> set[int]:
    """The exit codes of the job's script and of its tasks, as far as they are told; not 0."""
    tasks = {e.event.number for e in run.happened if isinstance(e.event, TaskEnd)}
    return {code for code in tasks if code} | _codes_of_job(told, run)


def worth_of_launch(
    said: Sequence[Happened], ended: Sequence[Happened], told: Told, run: Run
) -> str:
    """How sure ``said`` is, what srun or slurmstepd could not start; ``ended`` are its tasks."""
    words = [e.event for e in run.happened if isinstance(e.event, LastWords)]
    mine = [each for each in words if _is_beside(each, said)]
    after = max(launch(each).place.offset for each in said)
    later = [each for each in mine if each.place.offset > after]
    worked = {document: offset for document, offset, _ in told.worked}
    went_on = any(worked.get(launch(each).place.document, -1) > after for each in said)
    if went_on or any(each.step is not None for each in later):
        return POSSIBLE
    own = all(_OWN_LINE.match(launch(each).place.text) for each in said)
    if not own or any(_speaks(each, said) for each in mine) or (ranks_ran(run) and not ended):
        return LIKELY
    if not mine and (ended or job_failed(told) or any(each.last for each in said)):
        return CONFIRMED
    if all(launch(each).what in _EXECS for each in said):
        codes = {_code(launch(each)) for each in said}
        ends = {e.event.number for e in ended if isinstance(e.event, TaskEnd)}
        agree = bool(codes & _codes_of_job(told, run)) or (codes <= ends and not later)
    else:
        several = len({launch(each).place.text for each in said}) > 1
        step = any(isinstance(each.event, StepEnded) for each in run.happened)
        commands = all(launch(each).what in _COMMANDS for each in said) and job_failed(told)
        agree = not later and (bool(ended) or step or several or commands)
    stepped = any(each.step is not None for each in mine)
    busy = stepped or sum(each.lines for each in mine) > FEW_LINES
    return CONFIRMED if agree and not busy else LIKELY


# The error that exec_task() names at its line's end, as the number that it ends with.
def _code(failure: LaunchFailure) -> int | None:
    return _ERRORS.get(failure.place.text.rstrip().rpartition(": ")[2])


def _codes_of_job(told: Told, run: Run) -> set[int]:
    codes = set()
    if told.facts is not None and told.facts.exit_code is not None:
        codes.add(told.facts.exit_code.code)
    for each in run.happened:
        if isinstance(each.event, EndFacts):
            statuses = (each.event.exit_status, each.event.derived_status)
            codes |= {status >> 8 for status in statuses if status is not None}
    return {code for code in codes if code}


def _is_beside(words: LastWords, said: Sequence[Happened]) -> bool:
    return any(words.place.document == launch(each).place.document for each in said)


# What could not be started says nothing.
def _speaks(words: LastWords, said: Sequence[Happened]) -> bool:
    tasks = {launch(each).speaker.task for each in said} - {None}
    return words.speaker.task in tasks
