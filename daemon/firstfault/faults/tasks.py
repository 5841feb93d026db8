"""Slurm's tasks as ranks: srun starts the program itself, and no launcher stands between.

srun then says how each rank ended. Of several bad ends one is the first fault where it alone is no
consequence: a crash, or an exit code of the program's own, beside ranks that lost a peer (exit code
1) or were ended (SIGTERM, SIGKILL).
"""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.faults.processes import SIGNAL_CAUSES, SIGNAL_NAMES, proof
from firstfault.model.event import (
    AgentSignalled,
    ClosingSignal,
    ExitNoticed,
    FatalError,
    LaunchFailure,
    OomKill,
    OomNoticed,
    TableEntry,
    TaskEnd,
    Traceback,
)
from firstfault.model.fault import Fault
from firstfault.model.run import Happened, Process, Run, Told
from firstfault.model.verdict import CONFIRMED, LIKELY
from firstfault.signatures import meaning

_AGENTS = ExitNoticed | TableEntry | AgentSignalled | ClosingSignal
# Who speaks of these has more to say than srun.
_NARROWER = FatalError | LaunchFailure | OomKill | OomNoticed
_LOST = frozenset({"peer-lost", "waited", "stopped"})
# 1 is what Python leaves for any exception, 2 what a command line that is refused does; from 126
# on a shell speaks, or a signal.
_OWN_CODES = range(3, 126)


def task_faults(told: Told, run: Run) -> list[Fault]:
    """The fault of the one task whose end no other explains; none where ranks have launchers."""
    events = [each.event for each in run.happened]
    raised = [event for event in events if isinstance(event, Traceback)]
    if any(isinstance(event, _AGENTS | _NARROWER) for event in events):
        return []
    if any(_means(event) not in _LOST for event in raised):
        return []
    ends = [each for each in run.happened if isinstance(each.event, TaskEnd)]
    first = [each for each in ends if _is_own(each)]
    if len(first) != 1 or len(ends) < 2 or any(_end(each).kind == "oom" for each in ends):
        return []
    end = _end(first[0])
    known = [process for process in run.roster if process.task is not None]
    heard = any(process.lines for process in known)
    if len(end.tasks) != 1 or (known and (heard or end.kind == "signal")):
        # Where tasks are known to be ranks, each has its end and its words.
        return []
    # Others that lost a peer, or accounting's number, say the same as srun.
    agree = bool(raised) or _accounted(told, end)
    return [_fault(first[0], end, run, CONFIRMED if agree else LIKELY)]


def _fault(each: Happened, end: TaskEnd, run: Run, limit: str) -> Fault:
    crash = end.kind == "signal"
    number = end.number or 0
    cause = SIGNAL_CAUSES[number] if crash else "process.exit"
    return Fault(
        cause=cause,
        key=cause if crash else f"exit {number}",
        # A task's number is its rank for programs that take it from SLURM_PROCID, as all that srun
        # starts without a launcher do.
        process=Process(run.attempt, rank=end.tasks[0], host=end.host, task=end.tasks[0]),
        host=end.host,
        sources=frozenset({"slurm"}),
        proofs=(proof(each),),
        rank_sure=False,
        limit=limit,
        facts=(("signal", SIGNAL_NAMES[number]) if crash else ("exit_code", str(number)),),
    )


def _is_own(each: Happened) -> bool:
    end = _end(each)
    if end.kind == "signal":
        return end.number in SIGNAL_CAUSES and end.number != 9
    return end.kind == "exit" and end.number in _OWN_CODES


def _end(each: Happened) -> TaskEnd:
    assert isinstance(each.event, TaskEnd)
    return each.event


def _means(event: Traceback) -> str | None:
    sign = meaning("exception", f"{event.type}: {event.message}")
    return None if sign is None else sign.means


def _accounted(told: Told, end: TaskEnd) -> bool:
    codes: Sequence[tuple[int, int]] = [
        (step.exit_code.code, step.exit_code.signal)
        for step in (told.facts.steps if told.facts else ())
        if step.exit_code is not None and step.id.isdigit()
    ]
    number = end.number or 0
    return ((0, number) if end.kind == "signal" else (number, 0)) in codes
