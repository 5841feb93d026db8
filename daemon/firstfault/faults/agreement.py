"""Lines that alone may be harmless, and the end of a log that agrees with them."""

from __future__ import annotations

import re

import msgspec

from firstfault.faults.processes import proof
from firstfault.faults.signals import SIGNAL_CAUSES, signal_name
from firstfault.model.event import ShellKill, Sign, TornTraceback, Traceback
from firstfault.model.fault import Fault
from firstfault.model.run import Happened, Run
from firstfault.model.verdict import LIKELY, POSSIBLE

# Where a process joins the others: the frames of what it raises there.
_JOINING = re.compile(r"/torch/distributed/(?:elastic|run\.py|launch|distributed_c10d|rendezvous)")
_JOINING_TYPES = re.compile(r"(?:^|\.)(?:Rendezvous\w*Error|Dist(?:Network|Store)?Error)$")
_RENDEZVOUS = "rendezvous."


def with_torn_ends(run: Run, faults: list[Fault]) -> list[Fault]:
    """``faults``, likely where they are a line's alone and the log ends in a cut traceback.

    Or, for a rendezvous that failed, in an exception of it that says less: nothing else went wrong,
    and the process did not go on.
    """
    if len(faults) != 1 or faults[0].sure or faults[0].exception is not None:
        return faults
    fault = faults[0]
    signs = [e for e in run.happened if isinstance(e.event, Sign) and e.event.means == fault.cause]
    # argparse ends its program with these words.
    said = fault.cause == "python.arguments" and any(each.last for each in signs)
    if not said and not any(
        _agrees(each, sign, fault.cause) for each in run.happened for sign in signs[:1]
    ):
        return faults
    return [msgspec.structs.replace(fault, sure=True, limit=LIKELY)]


def _agrees(each: Happened, sign: Happened, cause: str) -> bool:
    event, place = each.event, sign.event.place
    if each.process != sign.process or event.place.document != place.document:
        return False
    if event.place.offset <= place.offset:
        return False
    joining = cause.startswith(_RENDEZVOUS)
    if isinstance(event, TornTraceback):
        return not joining or any(_JOINING.search(frame.file) for frame in event.frames)
    return (
        joining
        and isinstance(event, Traceback)
        and not event.followed
        and _JOINING_TYPES.search(event.type) is not None
    )


def shells_ends(run: Run) -> list[Fault]:
    """What a shell says of the one signal that its children died of, where nothing else is told.

    A script goes on after such a child: it is likely only where nothing follows.
    """
    seen = [e for e in run.happened if isinstance(e.event, ShellKill)]
    numbers = {each.event.signal for each in seen if isinstance(each.event, ShellKill)}
    number = numbers.pop() if len(numbers) == 1 else None
    if number not in SIGNAL_CAUSES:
        return []
    last = any(each.last for each in seen)
    return [
        Fault(
            cause=SIGNAL_CAUSES[number],
            key=SIGNAL_CAUSES[number],
            sources=frozenset({"shell"}),
            proofs=tuple(proof(each) for each in seen[:2]),
            sure=last,
            limit=LIKELY if last else POSSIBLE,
            facts=(("signal", signal_name(number)),),
        )
    ]


def shell_kills(run: Run, seen: Happened) -> tuple[Happened, ...]:
    """The shells' words of children that SIGKILL ended, in the document of ``seen``, before it."""
    place = seen.event.place
    return tuple(
        each
        for each in run.happened
        if isinstance(each.event, ShellKill)
        and each.event.signal == 9
        and each.event.place.document == place.document
        and each.event.place.offset < place.offset
    )
