"""Crashes beside a line that says the work was done: at the end, or in the midst of more work.

A line of nobody in particular may be another rank's, or be of one of several pieces of work. Where
the crash cost other ranks a peer, they still needed it: then it was no end.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firstfault.faults.processes import AT_EXIT
from firstfault.model.fault import Effect, Fault
from firstfault.model.run import Run
from firstfault.model.verdict import LIKELY

_CRASHES = {"SIGABRT": "process.abort", "SIGSEGV": "process.segfault"}


def with_needed_ranks(run: Run, faults: Sequence[Fault], effects: Sequence[Effect]) -> list[Fault]:
    """``faults``, of which a crash that others felt is none at the exit, unless its own words say so."""
    hit = {effect.process for effect in effects if effect.kind in ("peer-lost", "waited")}
    done = {each.process for each in run.happened if each.means == "finished"}
    return [
        _crash(fault)
        if fault.cause == AT_EXIT and fault.process not in done and hit - {fault.process, None}
        else fault
        for fault in faults
    ]


def _crash(fault: Fault) -> Fault:
    cause = _CRASHES.get(dict(fault.facts).get("signal", ""))
    if cause is None:
        return fault
    # The line may be right all the same: others were only slower to end.
    return msgspec.structs.replace(fault, cause=cause, key=cause, limit=LIKELY)
