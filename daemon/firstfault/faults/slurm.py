"""What Slurm itself did to the job: time limit, cancellation, a node that failed.

A step that slurmstepd ends without a reason, or for a task's failure, is a consequence; so is
every step that ends while its job is being ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.model.event import AgentSignalled, Cancelled, NodeFailure, TaskEnd
from firstfault.model.fault import Fault, Proof
from firstfault.model.line import Span
from firstfault.model.run import Happened, Run, Told
from firstfault.model.verdict import CONFIRMED, LIKELY

REASONS = {
    "time-limit": "slurm.time-limit",
    "preemption": "slurm.preempted",
    "node-failure": "slurm.node-fail",
}
STATES = {
    "TIMEOUT": "slurm.time-limit",
    "CANCELLED": "slurm.cancelled",
    "NODE_FAIL": "slurm.node-fail",
    "PREEMPTED": "slurm.preempted",
    "BOOT_FAIL": "slurm.boot-fail",
}


def slurm_faults(told: Told, run: Run) -> list[Fault]:
    """One fault for each thing that Slurm did, from its lines and from its accounting."""
    lines: dict[str, list[Happened]] = {}
    for each in run.happened:
        cause = _cause(each, told)
        if cause is not None:
            lines.setdefault(cause, []).append(each)
    state = told.facts.state if told.facts else None
    from_state = STATES.get(state or "")
    if from_state is not None:
        lines.setdefault(from_state, [])
    return [
        _fault(cause, seen, told, run, from_state == cause) for cause, seen in sorted(lines.items())
    ]


def _cause(each: Happened, told: Told) -> str | None:
    event = each.event
    if isinstance(event, NodeFailure):
        return "slurm.node-fail"
    if not isinstance(event, Cancelled) or (told.jobs and event.job not in told.jobs):
        return None
    if event.reason in REASONS:
        return REASONS[event.reason]
    if event.step is None and event.reason in (None, "signal"):
        return "slurm.cancelled"
    return None


def _fault(cause: str, seen: list[Happened], told: Told, run: Run, from_state: bool) -> Fault:
    if cause == "slurm.node-fail":
        seen = sorted(seen, key=lambda each: not isinstance(each.event, NodeFailure))
    proofs = [Proof(each.event.place, each.source) for each in seen[:3]]
    sources = {"slurm" for _ in seen} | {"accounting" for _ in range(from_state)}
    spans = [e.event.at for e in seen if isinstance(e.event, Cancelled) and e.event.at]
    at: Span | None = spans[0] if spans else None
    host = None
    clock = {e.event.host for e in seen if isinstance(e.event, Cancelled) and e.event.at}
    facts = [("clock", each) for each in clock if each is not None][:1]
    if cause == "slurm.node-fail":
        host, sources = _failed_node(seen, told, sources)
        # Slurm noticed it then; the node had failed before.
        at = None if at is None else Span(None, at.latest)
    if cause == "slurm.cancelled":
        facts.extend(_by_whom(told))
    if cause == "slurm.time-limit" and told.facts and told.facts.time_limit_s:
        facts.append(("limit_s", str(told.facts.time_limit_s)))
    return Fault(
        cause=cause,
        key=cause,
        host=host,
        at=at,
        sources=frozenset(sources),
        proofs=tuple(dict.fromkeys(proofs)),
        limit=_worth(cause, seen, told, run, sources),
        facts=tuple(facts),
    )


# A program may print a line like Slurm's into the job's output. Slurm's own comes with what it
# does: accounting says so too, several nodes do, tasks and agents are told to stop, a node is
# silent; or nothing more is ever printed.
def _worth(cause: str, seen: list[Happened], told: Told, run: Run, sources: set[str]) -> str:
    state = told.facts.state if told.facts else None
    if "accounting" in sources or "absent" in sources:
        return CONFIRMED
    if state is not None:
        return LIKELY
    if len({(type(e.event), getattr(e.event, "host", None)) for e in seen}) > 1:
        return CONFIRMED
    stopped = any(
        isinstance(e.event, AgentSignalled)
        or (isinstance(e.event, TaskEnd) and e.event.kind == "signal")
        for e in run.happened
    )
    last = any(e.last and isinstance(e.event, Cancelled) for e in seen)
    if stopped or last:
        return LIKELY if cause == "slurm.cancelled" else CONFIRMED
    return LIKELY


# srun names the node; else the one node of the job that sent no record may be it.
def _failed_node(
    seen: list[Happened], told: Told, sources: set[str]
) -> tuple[str | None, set[str]]:
    named = {each.event.host for each in seen if isinstance(each.event, NodeFailure)}
    if len(named) == 1:
        host = named.pop()
        return host, sources | ({"absent"} if host in told.absent else set())
    if not named and len(told.absent) == 1:
        return told.absent[0], sources | {"absent"}
    return None, sources


def _by_whom(told: Told) -> Iterator[tuple[str, str]]:
    facts = told.facts
    if facts is None or facts.by_uid is None:
        return
    yield "by_uid", str(facts.by_uid)
    if facts.by_uid == 0:
        yield "by", "an administrator (root)"
    elif told.uid is not None:
        yield (
            "by",
            "its owner" if facts.by_uid == told.uid else f"another user (uid {facts.by_uid})",
        )


def stop_of(each: Happened) -> str | None:
    """The kind of effect that one of Slurm's lines is, None for a line that is a fault's."""
    event = each.event
    if isinstance(event, Cancelled) and event.step is not None and event.reason not in REASONS:
        return "step-ended"
    return None
