"""Slurm's tasks as ranks: srun starts the program itself, and no launcher stands between.

srun then says how each rank ended. Of several bad ends one is the first fault where it alone is no
consequence: a crash, or an exit code of the program's own, beside ranks that lost a peer (exit code
1) or were ended (SIGTERM, SIGKILL).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from firstfault.faults.death import steps_end
from firstfault.faults.processes import proof
from firstfault.faults.signals import SIGNAL_CAUSES, exit_signal, signal_name
from firstfault.model.event import (
    AgentSignalled,
    ClosingSignal,
    ExitNoticed,
    FatalError,
    LaunchFailure,
    OomKill,
    OomNoticed,
    Sign,
    TableEntry,
    TaskEnd,
    Traceback,
)
from firstfault.model.fault import Fault
from firstfault.model.line import Place
from firstfault.model.run import Happened, Process, Run, Told
from firstfault.model.verdict import CONFIRMED, LIKELY
from firstfault.signatures import meaning_of_exception

_AGENTS = ExitNoticed | TableEntry | AgentSignalled | ClosingSignal
# Who speaks of these has more to say than srun.
_NARROWER = FatalError | LaunchFailure | OomKill | OomNoticed
_LOST = frozenset({"peer-lost", "waited", "stopped"})
# 1 is what Python leaves for any exception, 2 what a command line that is refused does; from 126
# on a shell speaks, or a signal.
_OWN_CODES = range(3, 126)
_ABORT = 6


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
        facts=(("signal", signal_name(number)) if crash else ("exit_code", str(number)),),
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
    sign = meaning_of_exception(event.type, event.message)
    return None if sign is None else sign.means


def _accounted(told: Told, end: TaskEnd) -> bool:
    codes: Sequence[tuple[int, int]] = [
        (step.exit_code.code, step.exit_code.signal)
        for step in (told.facts.steps if told.facts else ())
        if step.exit_code is not None and step.id.isdigit()
    ]
    number = end.number or 0
    return ((0, number) if end.kind == "signal" else (number, 0)) in codes


def of_tasks(run: Run) -> tuple[list[Fault], list[Fault]]:
    """The faults and the nameless ends of Slurm's tasks, for a job whose ranks said nothing.

    A task is a rank where srun starts the program itself, and a launcher where it does not:
    which rank it was is not told.
    """
    ends = [each for each in run.happened if _is_bad_end(each)]
    faults: list[Fault] = []
    unnamed: list[Fault] = []
    for each in ends:
        event = each.event
        assert isinstance(event, TaskEnd)
        fault = Fault(
            cause="process.exit",
            key=f"task {event.kind} {event.number}",
            host=event.host,
            sources=frozenset({"slurm"}),
            proofs=(proof(each),),
            limit=LIKELY,
            facts=(("exit_code", str(event.number)),) if event.kind == "exit" else (),
        )
        number = _signal(event)
        if len(ends) == 1 and number in SIGNAL_CAUSES:
            cause = SIGNAL_CAUSES[number]
            faults.append(msgspec.structs.replace(fault, cause=cause, key=cause))
        else:
            unnamed.append(fault)
    return faults, unnamed


def killed_launchers(run: Run) -> list[Fault]:
    """A task that a signal ended, of which srun alone speaks: an agent, where ranks have agents.

    For runs in which nothing surer went wrong; one task alone, or those of one host together, before
    their step was ended.
    """
    ended = steps_end(run)
    found = [
        each
        for each in run.happened
        if isinstance(each.event, TaskEnd)
        and each.process is None
        and _signal(each.event) in SIGNAL_CAUSES
        and not _follows(each.event.place, ended)
    ]
    if len(found) != 1 or not isinstance(found[0].event, TaskEnd):
        return []
    number = _signal(found[0].event) or 0
    if number == _ABORT and any(_explains_an_abort(each) for each in run.happened):
        return []
    cause = SIGNAL_CAUSES[number]
    return [
        Fault(
            cause=cause,
            key=cause,
            host=found[0].event.host,
            sources=frozenset({"slurm"}),
            proofs=(proof(found[0]),),
            limit=LIKELY,
            facts=(("signal", signal_name(number)),),
        )
    ]


def other_exits(run: Run) -> list[Fault]:
    """The one task that ended with an exit code of its own, where others ended with another."""
    ends = [e for e in run.happened if isinstance(e.event, TaskEnd) and e.event.kind == "exit"]
    codes = {_end(each).number for each in ends}
    found = [e for e in ends if e.process is None and _end(e).number in _OWN_CODES]
    if len(found) != 1 or len(codes) < 2:
        return []
    number = _end(found[0]).number
    return [
        Fault(
            cause="process.exit",
            key=f"exit {number}",
            host=_end(found[0]).host,
            sources=frozenset({"slurm"}),
            proofs=(proof(found[0]),),
            limit=LIKELY,
            facts=(("exit_code", str(number)),),
        )
    ]


# Lost peers, cards and collectives abort processes.
def _explains_an_abort(each: Happened) -> bool:
    return isinstance(each.event, Sign) and each.event.means not in ("finished", "recovered")


# A shell that srun started leaves 128 and the number of its child's signal.
def _signal(event: TaskEnd) -> int | None:
    if event.kind == "signal":
        return event.number
    return exit_signal(event.number) if event.kind == "exit" else None


def _follows(place: Place, ended: Mapping[str, int]) -> bool:
    return place.offset > ended.get(place.document, place.offset)


def _is_bad_end(each: Happened) -> bool:
    event = each.event
    if not isinstance(event, TaskEnd):
        return False
    return (event.kind == "signal" and event.number != 15) or event.kind == "exit"
