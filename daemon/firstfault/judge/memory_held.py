"""Who held the memory that was short, as the verdict tells it: joined to the ranks by pid."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.model import verdict as v
from firstfault.model.event import HeldTogether, Holder, OomKill
from firstfault.model.fault import Fault
from firstfault.model.run import Run


def memory(roots: Sequence[Fault], run: Run | None) -> v.Memory | None:
    """What the kernel's table says at the first of the ``roots`` that has one."""
    if run is None:
        return None
    for fault in roots:
        if fault.cause not in ("memory.cgroup-oom", "memory.host-oom"):
            continue
        places = {each.place for each in fault.proofs}
        for each in run.happened:
            event = each.event
            if isinstance(event, OomKill) and event.holders and event.place in places:
                return _told(event, fault.host, run)
    return None


def _told(event: OomKill, host: str | None, run: Run) -> v.Memory:
    ranks = {
        pid: process.rank for process in run.roster if process.host == host for pid in process.pids
    }
    return v.Memory(
        host=host,
        limit_kib=None if event.limited is False else event.limit_kb,
        used_kib=event.usage_kb,
        with_swap=event.swap,
        holders=tuple(
            v.Holder(
                each.pid,
                each.command,
                each.resident_kb,
                ranks.get(each.pid),
                killed=each.pid == event.pid,
            )
            for each in event.holders
        ),
        rest=_rest(event.own, event.holders),
        others=_sum(event.others),
    )


def _rest(own: HeldTogether | None, holders: Sequence[Holder]) -> v.Sum | None:
    if own is None or own.processes <= len(holders):
        return None
    named = sum(each.resident_kb for each in holders)
    return v.Sum(own.processes - len(holders), max(0, own.resident_kb - named))


def _sum(held: HeldTogether | None) -> v.Sum | None:
    return None if held is None else v.Sum(held.processes, held.resident_kb)
