"""What Kubernetes says of pods that ended, as faults.

A pod is the host that its processes name (its name is their host name); the node that it ran on is a
fact beside it. The kubelet's own words (OOMKilled, Evicted, DeadlineExceeded) state a cause; an exit
code alone says how a container's first process ended, not why.
"""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.faults.death import Death
from firstfault.faults.signals import SIGNAL_CAUSES, exit_signal, signal_name
from firstfault.model.event import PodEnd
from firstfault.model.fault import Fault, Proof
from firstfault.model.run import Run, Told
from firstfault.model.verdict import CONFIRMED, LIKELY

SOURCE = "kubernetes"
_NOT_STARTED = frozenset(
    {
        "ContainerCannotRun",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
        "StartError",
    }
)
_NODE_GONE = frozenset({"NodeLost", "NodeNotReady", "NodeShutdown", "Shutdown", "Terminated"})
_PREEMPTED = frozenset({"Preempted", "Preempting", "PreemptionByScheduler"})


def pod_faults(told: Told, run: Run, deaths: Sequence[Death]) -> list[Fault]:
    """A fault for each pod's bad end whose cause is told; a pod's narrowest word alone counts."""
    best: dict[str, tuple[int, Fault]] = {}
    for each in run.happened:
        event = each.event
        if not isinstance(event, PodEnd):
            continue
        found = _cause(event)
        if found is None:
            continue
        rank, cause, limit = found
        host = event.pod or event.node
        fault = _fault(event, cause, limit, host, Proof(event.place, each.source, host), deaths)
        known = best.get(host or "")
        if known is None or rank < known[0]:
            best[host or ""] = (rank, fault)
    lowest = min((rank for rank, _ in best.values()), default=0)
    # What a pod's exit code says is a consequence where the kubelet states a cause in another.
    return [fault for _, (rank, fault) in sorted(best.items()) if rank < 2 or rank == lowest]


def _cause(event: PodEnd) -> tuple[int, str, str] | None:
    """How narrow the word is (0: narrowest), the cause and what it is worth."""
    reason, message = event.reason, event.message or ""
    if reason == "OOMKilled":
        # The mark is the container's: a child may have been killed, and the process gone on.
        sure = event.exit_code in (137, None)
        return 0, "memory.cgroup-oom", CONFIRMED if sure else LIKELY
    if reason == "SystemOOM":
        return 1, "memory.host-oom", LIKELY
    if reason == "Evicted":
        return _eviction(message)
    if reason == "DeadlineExceeded":
        return 0, "slurm.time-limit", CONFIRMED
    if reason in _NOT_STARTED:
        return 0, "slurm.launch", CONFIRMED
    if reason in _PREEMPTED:
        return 0, "slurm.preempted", LIKELY
    if reason in _NODE_GONE and event.container is None:
        return 0, "slurm.node-fail", LIKELY
    number = exit_signal(event.exit_code)
    if number in SIGNAL_CAUSES:
        return 2, SIGNAL_CAUSES[number], LIKELY
    if event.exit_code in (126, 127):
        return 2, "slurm.launch", LIKELY
    return None


def _eviction(message: str) -> tuple[int, str, str] | None:
    words = message.lower()
    if "ephemeral" in words or "emptydir" in words or "disk" in words or "imagefs" in words:
        return 0, "storage.full", CONFIRMED
    if "low on resource: memory" in words:
        return 0, "memory.host-oom", CONFIRMED
    if "low on resource: pids" in words:
        return 0, "process.resource-limit", LIKELY
    return None


def _fault(
    event: PodEnd,
    cause: str,
    limit: str,
    host: str | None,
    proof: Proof,
    deaths: Sequence[Death],
) -> Fault:
    facts = [("reason", event.reason)]
    if cause == "slurm.launch":
        facts.append(("what", "container" if event.reason in _NOT_STARTED else "command"))
    if event.node is not None and event.pod is not None:
        facts.append(("node", event.node))
    if cause in ("process.segfault", "process.abort", "process.bus-error", "process.killed"):
        facts.append(("signal", signal_name(exit_signal(event.exit_code) or 9)))
    alike = [d for d in deaths if d.process.host == host and exit_signal(d.exit_code) == 9]
    owner = alike[0] if len(alike) == 1 and cause == "memory.cgroup-oom" else None
    return Fault(
        cause=cause,
        key="oom" if cause.endswith("-oom") else cause,
        process=owner.process if owner else None,
        host=host,
        at=event.at or (owner.noticed_at if owner else None),
        sources=frozenset({SOURCE} | ({"agent"} if owner else set())),
        proofs=(proof,),
        limit=limit,
        facts=tuple(facts),
    )
