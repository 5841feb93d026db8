"""What launchers say of a process's end where they name no rank, for a job that said nothing else.

DeepSpeed's launcher and torch's before 1.9 print the end of one of their processes with the
command of another (readers/launchers.py): the cause is told, and not whose it is.
"""

from __future__ import annotations

from firstfault.faults.processes import proof
from firstfault.faults.signals import SIGNAL_CAUSES, exit_signal, signal_name
from firstfault.model.event import LauncherEnd
from firstfault.model.fault import Fault
from firstfault.model.run import Happened, Run
from firstfault.model.verdict import LIKELY


def of_launchers(run: Run) -> tuple[list[Fault], list[Fault]]:
    """The faults, and the ends without a reason, of processes that no rank is known of."""
    faults: list[Fault] = []
    unnamed: list[Fault] = []
    for each in run.happened:
        event = each.event
        if not isinstance(event, LauncherEnd) or each.process is not None:
            continue
        number = exit_signal(event.exit_code)
        if number in SIGNAL_CAUSES:
            facts = (("signal", signal_name(number)),)
            faults.append(_fault(each, event, SIGNAL_CAUSES[number], facts))
        elif number is None:
            code = event.exit_code
            told = () if code is None else (("exit_code", str(code)),)
            unnamed.append(_fault(each, event, "process.exit", told))
    return faults, unnamed


def _fault(
    each: Happened, event: LauncherEnd, cause: str, facts: tuple[tuple[str, str], ...]
) -> Fault:
    return Fault(
        cause=cause,
        key=f"{cause} {event.exit_code}",
        host=event.host or event.speaker.host,
        sources=frozenset({"launcher"}),
        proofs=(proof(each),),
        limit=LIKELY,
        pid=event.pid,
        facts=facts,
    )
