"""The kernel's OOM kills, joined to the ranks that they hit.

A kill is joined to a rank by pid on the same host (the rank's own process, or a DataLoader
worker that the rank names); failing that, by the host, where one rank alone died there as an
OOM kill would have it.
"""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.faults.death import Death
from firstfault.faults.processes import exit_signal, proof
from firstfault.model.event import OomKill, OomNoticed, TaskEnd
from firstfault.model.fault import Fault, Proof
from firstfault.model.line import Span
from firstfault.model.run import Happened, Process, Run, Told

CGROUP = "memory.cgroup-oom"
HOST = "memory.host-oom"


def oom_faults(told: Told, run: Run, deaths: Sequence[Death]) -> list[Fault]:
    """A fault for each OOM kill that hit this job, and for each that Slurm alone noticed."""
    kills = _kills_of_job(told, run)
    joined: dict[int, list[Death]] = {}
    for death in deaths:
        for kill in death.kills:
            joined.setdefault(id(kill.event), []).append(death)
    notices = _notices(told, run)
    faults = []
    for kill in kills:
        event = kill.event
        assert isinstance(event, OomKill)
        owners = joined.get(id(event), [])
        owner = _owner(event, owners, deaths)
        if owner is None and event.job is None and not _names_job(event, told, notices):
            continue
        host = event.host or (owner.process.host if owner else None)
        faults.append(_kill_fault(kill, event, owner, host, notices.get(host or "", ()), run))
    known = {fault.host for fault in faults}
    for host, seen in sorted(notices.items()):
        if host not in known and (not host or None not in known):
            faults.append(_noticed_fault(host, seen, deaths, run))
    return faults


def is_of_job(event: OomKill, told: Told) -> bool:
    """False when the kill's cgroup or user tells that another job was hit."""
    if event.job is not None and told.jobs:
        return event.job in told.jobs
    return not (event.uid is not None and told.uid is not None and event.uid != told.uid)


def _kills_of_job(told: Told, run: Run) -> list[Happened]:
    texts: dict[str, Happened] = {}
    for each in run.happened:
        if isinstance(each.event, OomKill) and is_of_job(each.event, told):
            texts.setdefault(each.event.place.text, each)
    return list(texts.values())


# A kill outside Slurm's cgroups (a container's, say) is this job's only if something agrees.
def _names_job(event: OomKill, told: Told, notices: dict[str, tuple[Happened, ...]]) -> bool:
    if event.uid is not None and told.uid is not None:
        return event.uid == told.uid
    return (event.host or "") in notices


def _owner(event: OomKill, owners: Sequence[Death], deaths: Sequence[Death]) -> Death | None:
    fitting = [
        death
        for death in owners
        if death.process.host == event.host is not None or _died_of_it(death)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting or event.host is None:
        return None
    on_host = [d for d in deaths if d.process.host == event.host]
    alike = [d for d in on_host if _died_of_it(d) and not (d.process.pids or d.worker_pids)]
    return alike[0] if len(alike) == 1 else None


def _died_of_it(death: Death) -> bool:
    killed = exit_signal(death.exit_code) == 9 and not death.forced
    return killed or bool(death.worker_pids)


def _kill_fault(
    kill: Happened,
    event: OomKill,
    owner: Death | None,
    host: str | None,
    notices: Sequence[Happened],
    run: Run,
) -> Fault:
    proofs = [Proof(event.place, "kernel log", host)]
    sources = {"kernel"} | {"slurm" for _ in notices}
    if owner is not None:
        # The rank's own words, or its agent's, join the kernel's pid to the rank.
        sources.add("agent")
        seen = owner.raised.seen[:1] if owner.worker_pids and owner.raised else ()
        proofs += [proof(each) for each in (*seen, *owner.exits[:2])]
    proofs += [proof(each) for each in notices[:1]]
    facts = [("victim", event.command)]
    for name, value in (("limit_kb", event.limit_kb), ("resident_kb", event.resident_kb)):
        if value is not None:
            facts.append((name, str(value)))
    if owner is not None and event.pid in owner.worker_pids:
        facts.append(("worker", str(event.pid)))
    return Fault(
        cause=HOST if event.limited is False else CGROUP,
        key="oom",
        process=owner.process if owner else None,
        host=host,
        candidates=() if owner else _possible(host, run),
        at=event.at or (owner.noticed_at if owner else None),
        sources=frozenset(sources),
        proofs=tuple(dict.fromkeys(proofs)),
        pid=event.pid,
        step=event.step,
        facts=tuple(facts),
    )


def _noticed_fault(host: str, seen: Sequence[Happened], deaths: Sequence[Death], run: Run) -> Fault:
    alike = [d for d in deaths if _died_of_it(d) and (d.process.host == host or not host)]
    if len(alike) > 1:
        alike = [d for d in alike if not d.worker_pids]
    owner = alike[0] if len(alike) == 1 else None
    proofs = [proof(each) for each in seen[:1]]
    if owner is not None:
        raised = owner.raised.seen[:1] if owner.raised else ()
        proofs += [proof(each) for each in (*owner.exits[:1], *raised)]
    proofs += [proof(each) for each in seen[1:2]]
    step = next((e.event.step for e in seen if isinstance(e.event, OomNoticed)), None)
    at: Span | None = owner.noticed_at if owner else None
    return Fault(
        cause=CGROUP,
        key="oom",
        process=owner.process if owner else None,
        host=host or (owner.process.host if owner else None),
        candidates=() if owner else _possible(host or None, run),
        at=at,
        sources=frozenset({"slurm"} | ({"agent"} if owner else set())),
        proofs=tuple(dict.fromkeys(proofs)),
        pid=owner.process.pids[0] if owner and len(owner.process.pids) == 1 else None,
        step=step,
    )


def _possible(host: str | None, run: Run) -> tuple[Process, ...]:
    return tuple(process for process in run.roster if host is not None and process.host == host)


# slurmstepd's note and srun's word, by host; "" where nothing tells the host.
def _notices(told: Told, run: Run) -> dict[str, tuple[Happened, ...]]:
    task_hosts = {
        task: each.event.host
        for each in run.happened
        if isinstance(each.event, TaskEnd)
        for task in each.event.tasks
    }
    ended = [e for e in run.happened if isinstance(e.event, TaskEnd) and e.event.kind == "oom"]
    found: dict[str, list[Happened]] = {}
    for each in run.happened:
        if isinstance(each.event, OomNoticed):
            task = each.event.speaker.task
            host = each.event.host or (None if task is None else task_hosts.get(task))
            if host is None and len({_host(e) for e in ended}) == 1:
                host = _host(ended[0])
            found.setdefault(host or "", []).append(each)
    for each in ended:
        found.setdefault(_host(each), []).append(each)
    return {host: tuple(seen) for host, seen in found.items()}


def _host(each: Happened) -> str:
    return each.event.host if isinstance(each.event, TaskEnd) else ""
