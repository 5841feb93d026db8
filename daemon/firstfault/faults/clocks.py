"""Nodes whose clock is wrong: what they say lies outside the job's time, and is of it.

Accounting has one clock, each node another. A node's clock is known to be wrong where what the
job's own agents and ranks say on it lies outside the job's time, too.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from firstfault.faults.memory import in_window
from firstfault.model.event import KernelSign, OomKill, Trap
from firstfault.model.line import Span
from firstfault.model.run import Run, Told

_GRACE = dt.timedelta(minutes=5)
_KERNELS = (KernelSign, OomKill, Trap)


def in_hosts_window(at: Span | None, host: str | None, told: Told, run: Run) -> bool:
    """False when ``at``, by the clock of ``host``, is surely not of the job's time."""
    if in_window(at, told):
        return True
    facts = told.facts
    if facts is None or facts.started_at is None or facts.ended_at is None:
        return False
    if at is None or at.earliest is None or at.latest is None or host is None:
        return False
    said = [span.latest for span in _said(host, run) if span.latest is not None]
    if not any(
        moment + _GRACE < facts.started_at or moment > facts.ended_at + _GRACE for moment in said
    ):
        return False
    last = max(said)
    lasted = facts.ended_at - facts.started_at
    return last - lasted - _GRACE <= at.latest and at.earliest <= last + _GRACE


# When the job's own processes on a host spoke, by its clock.
def _said(host: str, run: Run) -> Iterator[Span]:
    for each in run.happened:
        at = getattr(each.event, "at", None)
        if at is None or isinstance(each.event, _KERNELS):
            continue
        own = each.process.host if each.process else getattr(each.event, "host", None)
        if own == host:
            yield at
