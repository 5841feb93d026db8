"""faulthandler's word of a fatal signal that no prefix gives to a rank, and no end to a process.

A console without prefixes whose end is cut off, or a program that no launcher started: the word is
all that there is.
"""

from __future__ import annotations

from firstfault.faults.exceptions import own_frame
from firstfault.faults.processes import AT_EXIT, proof
from firstfault.faults.signals import SIGNAL_CAUSES, signal_name
from firstfault.model.event import FatalError
from firstfault.model.fault import Fault
from firstfault.model.run import Happened, Run
from firstfault.model.verdict import LIKELY, POSSIBLE

# torch's watchdog aborts a process that waited in vain, and so does an error in a thread.
_ABORT = 6


def fatal_errors(run: Run) -> list[Fault]:
    """The first such word of each kind; none of an abort where a line says what led to it."""
    finished = [e for e in run.happened if e.means == "finished"]
    waited = any(e.means in ("waited", "peer-lost") for e in run.happened)
    found: dict[int, Happened] = {}
    for each in run.happened:
        if not isinstance(each.event, FatalError) or each.process is not None:
            continue
        if each.event.signal != _ABORT or not waited:
            found.setdefault(each.event.signal, each)
    return [_fault(each, number, finished) for number, each in sorted(found.items())]


def _fault(each: Happened, number: int, finished: list[Happened]) -> Fault:
    frame = own_frame(each.event.frames) if isinstance(each.event, FatalError) else None
    facts = [("signal", signal_name(number))]
    if frame is not None:
        facts.append(("frame", f"{frame.function} at {frame.file}:{frame.line}"))
    cause = AT_EXIT if finished else SIGNAL_CAUSES[number]
    return Fault(
        cause=cause,
        key=cause,
        host=each.event.speaker.host if isinstance(each.event, FatalError) else None,
        sources=frozenset({"rank"}),
        proofs=(proof(each), *(proof(e) for e in finished[:1])),
        limit=POSSIBLE if finished else LIKELY,
        facts=tuple(facts),
    )
