"""Lines that alone may be harmless, and the end of a log that agrees with them."""

from __future__ import annotations

import re

import msgspec

from firstfault.model.event import ShellKill, Sign, TornTraceback, Traceback
from firstfault.model.fault import Fault
from firstfault.model.run import Happened, Run
from firstfault.model.verdict import LIKELY

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
