"""Which of two faults came first."""

from __future__ import annotations

from firstfault.model.fault import Fault

OOM = frozenset({"memory.cgroup-oom", "memory.host-oom"})
_CRASHES = frozenset(
    {
        "process.segfault",
        "process.abort",
        "process.bus-error",
        "process.killed",
        "process.fatal-signal",
    }
)


def slurm_or_rank(
    slurms: list[Fault], others: list[Fault]
) -> tuple[list[Fault], list[Fault], list[tuple[Fault, str]]]:
    """Which of Slurm's end and the ranks' failures came first: what of each stays, and the rivals.

    Each rival with what speaks against it.
    """
    ended = slurms[0]
    early = [fault for fault in others if _is_before(fault, ended)]
    if early:
        return [], early, [(ended, "a rank had failed before Slurm ended the job")]
    # What a node that fails or SIGKILL after the grace time does to ranks, Slurm's end explains.
    left = [
        fault
        for fault in others
        if not came_before(ended, fault) and fault.cause != "process.killed"
    ]
    raised = [fault for fault in left if fault.cause not in _CRASHES]
    if raised and ended.cause != "slurm.node-fail":
        against = "a rank failed in a way that being ended does not explain"
        return [], raised, [(ended, against)]
    against = "nothing tells that it came before Slurm ended the job"
    return slurms, [], [(fault, against) for fault in left]


def _is_before(fault: Fault, ended: Fault) -> bool:
    if "stacks" in fault.sources:
        # They were dumped before the end, and stood still by then.
        return True
    if fault.at is None or ended.at is None:
        return fault.cause in OOM
    if ended.at.before(fault.at):
        return False
    return fault.at.before(ended.at) or fault.cause in OOM


def came_before(one: Fault, other: Fault) -> bool:
    """Whether ``one`` came before ``other``, as far as their nodes' clocks can be compared."""
    return one.at is not None and other.at is not None and one.at.before(other.at)


# The clocks of two nodes may differ by anything: nothing in the evidence compares them.
def _share_clock(one: Fault, other: Fault) -> bool:
    clocks = [dict(fault.facts).get("clock") or fault.host for fault in (one, other)]
    return clocks[0] is not None and clocks[0] == clocks[1]


def surely_before(one: Fault, other: Fault) -> bool:
    """Whether ``one`` came before ``other`` by one clock."""
    return came_before(one, other) and _share_clock(one, other)
