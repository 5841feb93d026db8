"""Where each rank stood when the job was interrupted, by the stacks that Python prints then.

Ctrl-C reaches all ranks. One that sleeps, reads or waits for a lock prints its stack at once; those
that wait for it in a collective only come out of it as they lose their peer, and print that first.
A person who presses Ctrl-C has often seen a hang: then the one that stood elsewhere is the one that
the others waited for. A job at work has such moments, too, so it is told and not concluded.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firstfault.faults.hang import facts_of, silence
from firstfault.faults.standing import may_wait, place, waits
from firstfault.model.event import LastWords, Traceback
from firstfault.model.fault import Fault
from firstfault.model.line import Speaker
from firstfault.model.run import Process, Run, Told
from firstfault.signatures import meaning_of_exception

INTERRUPTED = "process.interrupted"
_WAITING = ("peer-lost", "waited")
# torch's wrapper of each collective writes its log as it is left.
_WRAPPER = "torch/distributed/c10d_logger.py"
_MOST = 3


def with_stands(told: Told, run: Run, faults: Sequence[Fault]) -> list[Fault]:
    """``faults``, in which the interruption of a job tells where its ranks stood.

    And since when the job had hung, where the times of its last lines tell.
    """
    if not any(_is_of_job(fault) for fault in faults):
        return list(faults)
    quiet = silence(told, run)
    facts = facts_of(quiet) if quiet is not None and quiet.hung else ()
    facts += _stands(run)
    return [
        msgspec.structs.replace(fault, facts=(*fault.facts, *facts)) if _is_of_job(fault) else fault
        for fault in faults
    ]


# A rank that was hit by a signal of its own is another matter.
def _is_of_job(fault: Fault) -> bool:
    return fault.cause == INTERRUPTED and fault.process is None


def _stands(run: Run) -> tuple[tuple[str, str], ...]:
    known = any(process.lines is not None for process in run.roster)
    heard = {process for process in run.roster if process.lines is not None}
    last: dict[Process, Traceback] = {}
    for each in run.happened:
        event = each.event
        if not isinstance(event, LastWords | Traceback):
            continue
        who = each.process if known else _task(run, event.speaker)
        if who is not None:
            heard.add(who)
            if isinstance(event, Traceback) and _tells(event):
                last[who] = event
    away = sorted((who for who in last if _is_away(last[who])), key=_by_rank)
    others = sum(_waited(each) for each in last.values())
    if not away or not others or heard - set(last) or 2 * len(away) >= len(last):
        return ()
    named = [f"{_name(who)} in {place(last[who].frames)}" for who in away[:_MOST]]
    if len(away) > _MOST:
        named.append(f"{len(away) - _MOST} more elsewhere")
    return (("stood", "; ".join(named)), ("stood_waiting", str(others)))


# Where nothing tells the ranks, srun's labels tell its tasks.
def _task(run: Run, speaker: Speaker) -> Process | None:
    return None if speaker.task is None else Process(run.attempt, task=speaker.task)


def _tells(event: Traceback) -> bool:
    return (event.type == "KeyboardInterrupt" and bool(event.frames)) or _lost_peer(event)


def _lost_peer(event: Traceback) -> bool:
    for kind, message in ((event.type, event.message), *event.causes):
        sign = meaning_of_exception(kind, message)
        if sign is not None and sign.means in _WAITING:
            return True
    return False


def _waited(event: Traceback) -> bool:
    wrapped = any(frame.file.endswith(_WRAPPER) for frame in event.frames)
    return wrapped or waits(event.frames) or _lost_peer(event)


def _is_away(event: Traceback) -> bool:
    return not _waited(event) and not may_wait(event.frames)


def _by_rank(who: Process) -> tuple[int, int, int]:
    return (who.rank or 0, who.local_rank or 0, who.task or 0)


def _name(who: Process) -> str:
    if who.rank is not None:
        return f"rank {who.rank}"
    return f"local rank {who.local_rank}" if who.local_rank is not None else f"task {who.task}"
