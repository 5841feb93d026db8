"""The kernel's OOM kills, joined to the ranks that they hit.

A kill is joined to a rank by pid on the same host (the rank's own process, or a DataLoader
worker that the rank names); failing that, by the host, where one rank alone died there as an
OOM kill would have it.

What was full: a cgroup's limit in bytes makes memory.cgroup-oom, whosever cgroup it is (a task's, a
step's, a job's, a pod's, a user's); the fact ``limit_of`` says which. All other kills are
memory.host-oom: the node's memory as a whole, or that of the NUMA nodes which a cpuset or a memory
policy allows (there, no limit in bytes was full); and the kills of earlyoom and systemd-oomd, which
end processes before the node itself is out of memory.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

import msgspec

from firstfault.faults.agreement import shell_kills
from firstfault.faults.death import Death
from firstfault.faults.processes import proof
from firstfault.faults.signals import exit_signal
from firstfault.model.event import OomKill, OomNoticed, TaskEnd
from firstfault.model.fault import Fault, Proof
from firstfault.model.line import Span
from firstfault.model.run import Happened, Process, Run, Told
from firstfault.model.verdict import CONFIRMED, LIKELY
from firstfault.readers.cgroups import limit_of

# The run's processes by their host.
Places = dict[str | None, list[Process]]
CGROUP = "memory.cgroup-oom"
HOST = "memory.host-oom"
# Processes of a job may outlive its recorded end by KillWait and an unkillable step's time-out.
_GRACE = dt.timedelta(minutes=5)
# An agent notices the end of its process so soon after it; clocks of one node differ by less.
_SOON = dt.timedelta(minutes=4)
_QUARTER = dt.timedelta(minutes=15)


def oom_faults(told: Told, run: Run, deaths: Sequence[Death]) -> list[Fault]:
    """A fault for each OOM kill that hit this job, and for each that Slurm alone noticed."""
    notices = _notices(told, run)
    joined: dict[str, list[Death]] = {}
    by_host: dict[str | None, list[Death]] = {}
    for death in deaths:
        by_host.setdefault(death.process.host, []).append(death)
        for each in death.kills:
            joined.setdefault(each.event.place.text, []).append(death)
    places: dict[str | None, list[Process]] = {}
    for process in run.roster:
        places.setdefault(process.host, []).append(process)
    faults: list[Fault] = []
    loose: list[Fault] = []
    for kill in _kills_of_job(told, run):
        event = kill.event
        assert isinstance(event, OomKill)
        owner = _owner(
            event, joined.get(event.place.text, []), by_host.get(event.host, []), deaths, told
        )
        sure = _is_surely_jobs(event, owner, told)
        if not sure and owner is None and not _may_be_jobs(event, told, run, notices, deaths):
            continue
        host = event.host or (owner.process.host if owner else None)
        fault = _kill_fault(kill, event, owner, host, notices.get(host or "", ()), places)
        if sure:
            faults.append(fault)
        else:
            counts = owner is not None or not event.quoted
            loose.append(msgspec.structs.replace(fault, limit=LIKELY, sure=counts))
    # Of several kills that may be the job's, nothing tells which one is; those of one container
    # are one.
    groups = {_container(fault) or id(fault) for fault in loose}
    if told.outputs == 0 and not run.roster and not told.jobs:
        # A kernel log alone: of a node's kills the first one tells why.
        groups = {fault.cause for fault in loose}
    if not faults and len(groups) == 1:
        faults = loose[:1]
    known = {fault.host for fault in faults}
    for host, seen in sorted(notices.items()):
        if host not in known and (not host or None not in known) and (host or not faults):
            shells = shell_kills(run, seen[0])[:1]
            faults.append(_noticed_fault(host, (*seen, *shells), deaths, places))
    return faults or _accounted(told, deaths)


# A pid is given to many processes, one after another: an agent soon notices the end of its own.
# Local times without a zone may be some quarters of an hour apart.
def _is_of_its_time(event: OomKill, owner: Death, told: Told) -> bool:
    killed, noticed = event.at, owner.noticed_at
    if owner.worker_pids or killed is None or noticed is None:
        return True
    if killed.latest is None or noticed.latest is None:
        return True
    apart = abs(noticed.latest - killed.latest)
    if not told.zoned:
        apart %= _QUARTER
        apart = min(apart, _QUARTER - apart)
    return apart <= _SOON


# Each rank's end is known, and none is what an OOM kill does: the victim was none of the job's.
def _all_died_otherwise(deaths: Sequence[Death]) -> bool:
    return bool(deaths) and all(
        death.exit_code is not None and not _died_of_it(death) for death in deaths
    )


# The kernel names the job; or it names the pid of a process that died so on that very host, in a
# boot that can be told. What stands among a program's output may be the program's own.
def _is_surely_jobs(event: OomKill, owner: Death | None, told: Told) -> bool:
    if event.quoted:
        return False
    if event.job is not None and event.job in told.jobs:
        return owner is not None or in_window(event.at, told)
    if event.boot is not None and event.at is None:
        return False
    if owner is not None and not _is_of_its_time(event, owner, told):
        return False
    joined = owner is not None and event.pid in (*owner.process.pids, *owner.worker_pids)
    return joined and owner is not None and owner.process.host == event.host is not None


# A kernel log alone, a container's cgroup, a line that was lost: the job's owner was hit, at the
# time of the job, on a node of the job, or Slurm noticed a kill on that host. Where nothing names a
# job or an owner, a kill in a container goes with a rank that was killed, and a kernel log alone
# with itself.
def _may_be_jobs(
    event: OomKill,
    told: Told,
    run: Run,
    notices: dict[str, tuple[Happened, ...]],
    deaths: Sequence[Death],
) -> bool:
    if not in_window(event.at, told):
        return False
    if told.nodes and event.host is not None and event.host not in told.nodes:
        return False
    if event.job is not None:
        return not told.jobs and not _all_died_otherwise(deaths)
    # At the head of a log that goes back for hours, a kill is as well an earlier job's of the owner.
    agrees = event.uid is not None and event.uid == told.uid and not event.torn
    if agrees or (event.host or "") in notices:
        return True
    if told.jobs or told.uid is not None:
        return False
    if told.outputs == 0 and not run.roster:
        return True
    return _is_containers(event, told) and any(_died_of_it(death) for death in deaths)


def _container(fault: Fault) -> str | None:
    cgroup = dict(fault.facts).get("cgroup")
    return cgroup if cgroup and limit_of(cgroup) in ("pod", "container") else None


# A container's pids are not the kernel's: they join nothing. Where a job or an owner is named, the
# container would be theirs by its cgroup or its user.
def _is_containers(event: OomKill, told: Told) -> bool:
    contained = event.cgroup is not None and limit_of(event.cgroup) in ("pod", "container")
    return contained and not told.jobs and told.uid is None


def in_window(at: Span | None, told: Told) -> bool:
    """False when ``at`` is surely before the job's start or long after its end.

    A kernel log goes back to boot: what came before the job, or after it, is not its affair.
    """
    facts = told.facts
    if at is None or facts is None or at.earliest is None or at.latest is None:
        return True
    early = facts.started_at is not None and at.latest < facts.started_at
    late = facts.ended_at is not None and at.earliest > facts.ended_at + _GRACE
    return not (early or late)


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


def _owner(
    event: OomKill,
    owners: Sequence[Death],
    on_host: Sequence[Death],
    deaths: Sequence[Death],
    told: Told,
) -> Death | None:
    fitting = [death for death in owners if _died_of_it(death) or _was_told_to(death, event)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting and _is_containers(event, told):
        alike = [death for death in deaths if _died_of_it(death)]
        return alike[0] if len(alike) == 1 else None
    if fitting or event.host is None or event.job not in told.jobs:
        return None
    # Its pid may be unknown, or another one in a pid namespace of the container's own.
    alike = [d for d in on_host if _died_of_it(d)]
    return alike[0] if len(alike) == 1 else None


# earlyoom asks first.
def _was_told_to(death: Death, event: OomKill) -> bool:
    return event.killer == "earlyoom" and exit_signal(death.exit_code) == 15 and not death.closed


def _died_of_it(death: Death) -> bool:
    killed = exit_signal(death.exit_code) == 9 and not death.forced
    return killed or bool(death.worker_pids)


def _kill_fault(
    kill: Happened,
    event: OomKill,
    owner: Death | None,
    host: str | None,
    notices: Sequence[Happened],
    places: Places,
) -> Fault:
    proofs = [Proof(event.place, "kernel log", host)]
    sources = {"kernel"} | {"slurm" for _ in notices}
    if owner is not None:
        # The rank's own words, or its agent's, join the kernel's pid to the rank.
        sources.add("agent")
        seen = owner.raised.seen[:1] if owner.worker_pids and owner.raised else ()
        proofs += [proof(each) for each in (*seen, *owner.exits[:2])]
    proofs += [proof(each) for each in notices[:1]]
    known = (*owner.process.pids, *owner.worker_pids) if owner is not None else ()
    joined = event.pid in known
    foreign = bool(known) and not joined
    facts = [("victim", event.command), *_facts(event)]
    if owner is not None and event.pid in owner.worker_pids:
        facts.append(("worker", str(event.pid)))
    return Fault(
        cause=HOST if event.limited is False else CGROUP,
        key="oom",
        process=owner.process if owner else None,
        host=host,
        candidates=() if owner else _possible(host, places),
        rank_sure=joined,
        limit=LIKELY if event.limited is None or foreign else CONFIRMED,
        at=event.at or (owner.noticed_at if owner else None),
        sources=frozenset(sources),
        proofs=tuple(dict.fromkeys(proofs)),
        pid=event.pid,
        step=event.step,
        facts=tuple(facts),
    )


def _facts(event: OomKill) -> Iterator[tuple[str, str]]:
    for name, value in (("limit_kb", event.limit_kb), ("resident_kb", event.resident_kb)):
        if value is not None:
            yield name, str(value)
    if event.limited is not False and event.limit_cgroup is not None:
        yield "limit_of", limit_of(event.limit_cgroup)
    if event.swap:
        yield "limit_on", "memory and swap"
    if event.cgroup is not None:
        yield "cgroup", event.cgroup
    if event.killer != "kernel":
        yield "killer", event.killer
    if event.holders:
        held = (
            f"{each.command} (pid {each.pid}) {each.resident_kb // 1024} MiB"
            for each in event.holders
        )
        others = event.others
        yield (
            "held",
            ", ".join(held)
            + (f"; processes of other users {others.resident_kb // 1024} MiB" if others else ""),
        )


def _noticed_fault(
    host: str, seen: Sequence[Happened], deaths: Sequence[Death], places: Places
) -> Fault:
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
        candidates=() if owner else _possible(host or None, places),
        at=at,
        sources=frozenset({"slurm"} | ({"agent"} if owner else set())),
        proofs=tuple(dict.fromkeys(proofs)),
        # slurmstepd and srun agree; or one of them and an agent or a shell do.
        limit=CONFIRMED if owner is not None or _agree(seen) else LIKELY,
        pid=owner.process.pid if owner else None,
        step=step,
    )


def _agree(seen: Sequence[Happened]) -> bool:
    return len({type(each.event) for each in seen}) > 1


# Accounting knows that a step ran out of memory, not which process did.
def _accounted(told: Told, deaths: Sequence[Death]) -> list[Fault]:
    facts = told.facts
    states = {facts.state, *(step.state for step in facts.steps)} if facts else set()
    if "OUT_OF_MEMORY" not in states:
        return []
    alike = [death for death in deaths if _died_of_it(death)]
    owner = alike[0] if len(alike) == 1 else None
    return [
        Fault(
            cause=CGROUP,
            key="oom",
            process=owner.process if owner else None,
            host=owner.process.host if owner else None,
            candidates=() if owner else tuple(death.process for death in alike),
            at=owner.noticed_at if owner else None,
            sources=frozenset({"accounting"} | ({"agent"} if owner else set())),
            proofs=tuple(proof(each) for each in owner.exits[:2]) if owner else (),
            limit=CONFIRMED if owner else LIKELY,
        )
    ]


def _possible(host: str | None, places: Places) -> tuple[Process, ...]:
    return () if host is None else tuple(places.get(host, ()))


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
            if each.event.job is not None and told.jobs and each.event.job not in told.jobs:
                continue
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
