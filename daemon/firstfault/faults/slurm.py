"""What Slurm itself did to the job: time limit, cancellation, preemption, a node that failed.

A step that slurmstepd ends without a reason, or for a task's failure, is a consequence; so is
every step that ends while its job is being ended. What could not be started is in
`firstfault.faults.launch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from firstfault.faults.launch import launch_faults
from firstfault.faults.launch_words import ranks_ran
from firstfault.faults.notes import notes_of_job
from firstfault.faults.tasks import task_faults
from firstfault.model.event import (
    AgentSignalled,
    Cancelled,
    ClosingSignal,
    EndFacts,
    Interrupt,
    LastWords,
    MemoryPoll,
    NodeFailure,
    OomNoticed,
    SlurmNote,
    Stack,
    StepEnded,
    TaskEnd,
    TaskStatus,
)
from firstfault.model.fault import Fault, Proof
from firstfault.model.line import Span
from firstfault.model.run import Happened, Run, Told
from firstfault.model.verdict import CONFIRMED, LIKELY, POSSIBLE

REASONS = {
    "time-limit": "slurm.time-limit",
    "preemption": "slurm.preempted",
    "node-failure": "slurm.node-fail",
}
STATES = {
    "TIMEOUT": "slurm.time-limit",
    "DEADLINE": "slurm.time-limit",
    "CANCELLED": "slurm.cancelled",
    "NODE_FAIL": "slurm.node-fail",
    "PREEMPTED": "slurm.preempted",
    "BOOT_FAIL": "slurm.boot-fail",
}
# What a daemon's note says, as a cause.
NOTES = {
    "time-limit": "slurm.time-limit",
    "node-failure": "slurm.node-fail",
    "preempted": "slurm.preempted",
    "cancelled": "slurm.cancelled",
    "boot": "slurm.boot-fail",
    "memory-poll": "slurm.memory-poll",
}
# What cancels a job may do so because of what these say: they come first.
_EARLIER = ("slurm.launch", "slurm.memory-poll")


def slurm_faults(told: Told, run: Run) -> list[Fault]:
    """One fault for each thing that Slurm did, from its lines and from its accounting."""
    lines: dict[str, list[Happened]] = {}
    notes = notes_of_job(told, run)
    for each in (*(e for e in run.happened if not isinstance(e.event, SlurmNote)), *notes):
        cause = _cause(each, told)
        if cause is not None:
            lines.setdefault(cause, []).append(each)
    if "slurm.node-fail" in lines or (told.facts and told.facts.state == "NODE_FAIL"):
        lines.setdefault("slurm.node-fail", []).extend(e for e in notes if _kind(e) == "node-down")
    state = told.facts.state if told.facts else None
    from_state = STATES.get(state or "")
    if from_state is not None:
        lines.setdefault(from_state, [])
    if _did_not_boot(lines):
        lines["slurm.boot-fail"].extend(lines.pop("slurm.node-fail"))
        from_state = "slurm.boot-fail" if state == "NODE_FAIL" else from_state
    requests = [e for e in notes if _kind(e) == "kill-request"]
    if "slurm.cancelled" in lines:
        lines["slurm.cancelled"].extend(requests)
    found = [_fault(cause, seen, told, run, from_state == cause) for cause, seen in lines.items()]
    found += launch_faults(told, run)
    if not found:
        found = _cancelled_step(told, run)
    found.sort(key=lambda fault: (fault.cause not in _EARLIER, fault.cause))
    if not found:
        found = task_faults(told, run)
    return [*found, *_interrupts(told, run), *_left_early(run), *_noted_oom(run, notes)]


# Slurm ends the job of a node that was not resumed in time as one whose node failed: 22.05.8 and
# 26.05.5 were seen to, whether it is requeued or not.
def _did_not_boot(lines: Mapping[str, list[Happened]]) -> bool:
    failed = {_node(each) for each in lines.get("slurm.node-fail", ())} - {None}
    late = {_node(each) for each in lines.get("slurm.boot-fail", ())} - {None}
    return "slurm.node-fail" in lines and bool(late) and failed <= late


def _cause(each: Happened, told: Told) -> str | None:
    event = each.event
    if isinstance(event, NodeFailure):
        return "slurm.node-fail"
    if isinstance(event, SlurmNote):
        return NOTES.get(event.kind)
    if not isinstance(event, Cancelled | MemoryPoll):
        return None
    if told.jobs and event.job is not None and event.job not in told.jobs:
        return None
    if isinstance(event, MemoryPoll):
        return "slurm.memory-poll"
    if event.reason in REASONS:
        return REASONS[event.reason]
    if event.step is None and event.reason in (None, "signal"):
        return "slurm.cancelled"
    return None


def _fault(cause: str, seen: list[Happened], told: Told, run: Run, from_state: bool) -> Fault:
    if cause == "slurm.node-fail":
        seen = sorted(seen, key=lambda each: not isinstance(each.event, NodeFailure))
    proofs = [Proof(each.event.place, each.source) for each in seen[:3]]
    sources = {"slurm log" if isinstance(e.event, SlurmNote) else "slurm" for e in seen}
    sources |= {"accounting" for _ in range(from_state)}
    spans = [e.event.at for e in seen if isinstance(e.event, Cancelled | SlurmNote) and e.event.at]
    at: Span | None = spans[0] if spans else None
    host = None
    clock = {e.event.host for e in seen if isinstance(e.event, Cancelled) and e.event.at}
    facts = [("clock", each) for each in clock if each is not None][:1]
    if cause == "slurm.node-fail":
        host, sources = _failed_node(seen, told, sources)
        # Slurm noticed it then; the node had failed before.
        at = None if at is None else Span(None, at.latest)
    if cause == "slurm.boot-fail":
        hosts = {_node(each) for each in seen} - {None}
        host = hosts.pop() if len(hosts) == 1 else None
    if cause == "slurm.memory-poll":
        hosts = {_node(each) for each in seen}
        host = next(iter(hosts)) if len(hosts) == 1 else None
        facts.extend(_poll_facts(seen))
    if cause == "slurm.cancelled":
        facts.extend(_by_whom(told, seen))
    if cause == "slurm.time-limit" and told.facts and told.facts.time_limit_s:
        facts.append(("limit_s", str(told.facts.time_limit_s)))
    return Fault(
        cause=cause,
        key=cause,
        host=host,
        at=at,
        sources=frozenset(sources),
        proofs=tuple(dict.fromkeys(proofs)),
        sure=from_state or not _are_quoted(seen),
        limit=_worth(cause, seen, told, run, sources),
        facts=tuple(facts),
    )


# A program may print a line like Slurm's into the job's output. Slurm's own comes with what it
# does: accounting or a daemon's log says so too, several nodes do, tasks and agents are told to
# stop, a node is silent; or nothing more is ever printed.
def _worth(cause: str, seen: list[Happened], told: Told, run: Run, sources: set[str]) -> str:
    state = told.facts.state if told.facts else None
    if "accounting" in sources or "absent" in sources or len(sources) > 1:
        return CONFIRMED
    stopped = any(
        isinstance(e.event, StepEnded) or (cause != "slurm.node-fail" and _is_stop(e))
        for e in run.happened
    )
    if cause == "slurm.memory-poll":
        # It kills the step, and accounting knows no state for that.
        ended = any(isinstance(e.event, Cancelled) for e in run.happened)
        return CONFIRMED if stopped or ended or state in ("FAILED", "CANCELLED") else LIKELY
    worked = any(isinstance(e.event, Cancelled) and e.event.worked for e in seen)
    if state is not None or worked:
        return LIKELY
    if len({(type(e.event), getattr(e.event, "host", None)) for e in seen}) > 1:
        return CONFIRMED
    last = any(e.last and isinstance(e.event, Cancelled) for e in seen)
    if stopped or last:
        return LIKELY if cause == "slurm.cancelled" else CONFIRMED
    return LIKELY


# Several steps of work follow all of them: they may be an older log's.
def _are_quoted(seen: list[Happened]) -> bool:
    return bool(seen) and all(isinstance(e.event, Cancelled) and e.event.worked for e in seen)


def _is_stop(each: Happened) -> bool:
    event = each.event
    return isinstance(event, AgentSignalled) or (
        isinstance(event, TaskEnd) and event.kind == "signal"
    )


# srun names the node, and so do the controller and accounting (sacct from 23.02 on); else the one
# node of the job that sent no record may be it, or the job has only one.
def _failed_node(
    seen: list[Happened], told: Told, sources: set[str]
) -> tuple[str | None, set[str]]:
    named = {_node(each) for each in seen if isinstance(each.event, NodeFailure | SlurmNote)} - {
        None
    }
    if not named and told.facts is not None and told.facts.failed_node is not None:
        named = {told.facts.failed_node}
    if len(named) == 1:
        host = named.pop()
        return host, sources | ({"absent"} if host in told.absent else set())
    if not named and len(told.absent) == 1:
        return told.absent[0], sources | {"absent"}
    if not named and len(told.nodes) == 1:
        return told.nodes[0], sources  # it may be up again by now, and have reported
    return None, sources


def _kind(each: Happened) -> str | None:
    return each.event.kind if isinstance(each.event, SlurmNote) else None


def _node(each: Happened) -> str | None:
    event = each.event
    if isinstance(event, SlurmNote):
        return event.node
    return event.host if isinstance(event, NodeFailure | MemoryPoll) else None


def _by_whom(told: Told, seen: list[Happened]) -> Iterator[tuple[str, str]]:
    facts = told.facts
    noted = (e.event.by_uid for e in seen if isinstance(e.event, SlurmNote))
    by_uid = facts.by_uid if facts else None
    if by_uid is None:
        by_uid = next((uid for uid in noted if uid is not None), None)
    if by_uid is None:
        return
    yield "by_uid", str(by_uid)
    if by_uid == 0:
        yield "by", "an administrator (root)"
    elif told.uid is not None:
        yield "by", "its owner" if by_uid == told.uid else f"another user (uid {by_uid})"


def _poll_facts(seen: list[Happened]) -> Iterator[tuple[str, str]]:
    for each in seen:
        event = each.event
        if isinstance(event, MemoryPoll) and event.used is not None and event.limit is not None:
            yield "resident_kb", str(event.used // 1024)
            yield "limit_kb", str(event.limit // 1024)
            return


# A step that was cancelled, as srun or accounting says too, and nothing else: nobody's failure made
# srun or an agent end it.
def _cancelled_step(told: Told, run: Run) -> list[Fault]:
    ends = [
        each
        for each in run.happened
        if isinstance(each.event, Cancelled)
        and each.event.step not in (None, "extern", "batch")
        and each.event.reason in (None, "signal")
        and (not told.jobs or each.event.job in told.jobs)
    ]
    if not ends or ranks_ran(run) or any(not _is_quiet(each) for each in run.happened):
        return []
    event = ends[0].event
    assert isinstance(event, Cancelled)
    steps = {step.id: step for step in told.facts.steps} if told.facts else {}
    known = event.step in steps and steps[event.step].state == "CANCELLED"
    if not known and not any(isinstance(each.event, StepEnded) for each in run.happened):
        return []
    return [
        Fault(
            cause="slurm.cancelled",
            key="slurm.cancelled",
            at=event.at,
            sources=frozenset({"slurm"} | ({"accounting"} if known else set())),
            proofs=tuple(Proof(each.event.place, each.source) for each in ends[:2]),
            sure=known,
            limit=LIKELY if known else POSSIBLE,
            step=event.step,
            facts=(("step", event.step or ""),),
        )
    ]


def _is_quiet(each: Happened) -> bool:
    event = each.event
    if isinstance(event, TaskEnd):
        return event.kind == "signal" and event.number in (9, 15)
    if isinstance(event, StepEnded):
        return event.step is None
    told = EndFacts | LastWords | SlurmNote | Stack
    return isinstance(event, Cancelled | AgentSignalled | ClosingSignal | told)


# Ctrl-C at srun's terminal: accounting then says CANCELLED, or the controller "cancelled by
# interactive user".
def _interrupts(told: Told, run: Run) -> list[Fault]:
    seen = [each for each in run.happened if isinstance(each.event, Interrupt)]
    if not seen:
        return []
    agree = any(isinstance(e.event, StepEnded | Cancelled) for e in run.happened)
    known = told.facts is not None and told.facts.state == "CANCELLED"
    return [
        Fault(
            cause="process.interrupted",
            key="srun interrupted",
            sources=frozenset({"slurm"} | ({"accounting"} if known else set())),
            proofs=tuple(Proof(each.event.place, each.source) for each in seen[:2]),
            limit=CONFIRMED if known or agree else LIKELY,
            facts=(("signal", "SIGINT"), ("by", "srun's terminal (Ctrl-C)")),
        )
    ]


# srun --wait: a task ended, and not badly; the others were still at work when srun ended them.
def _left_early(run: Run) -> list[Fault]:
    told = [each for each in run.happened if isinstance(each.event, TaskStatus)]
    kinds = {each.event.kind for each in told if isinstance(each.event, TaskStatus)}
    ends = [each for each in run.happened if isinstance(each.event, TaskEnd)]
    if not kinds >= {"first-exit", "exited"} or ranks_ran(run) or not all(map(_is_quiet, ends)):
        return []
    left = next(e for e in told if isinstance(e.event, TaskStatus) and e.event.kind == "exited")
    return [
        Fault(
            cause="process.left-early",
            key="process.left-early",
            sources=frozenset({"slurm"}),
            proofs=tuple(Proof(each.event.place, each.source) for each in (left, *told[:1])),
            limit=LIKELY,
        )
    ]


# slurmd's log, where slurmstepd's own words are not at hand.
def _noted_oom(run: Run, notes: list[Happened]) -> list[Fault]:
    if any(isinstance(each.event, OomNoticed) for each in run.happened):
        return []
    seen = [e for e in notes if _kind(e) == "oom"]
    if not seen:
        return []
    hosts = {_node(each) for each in seen}
    host = hosts.pop() if len(hosts) == 1 else None
    ended = any(isinstance(e.event, TaskEnd) and e.event.kind == "oom" for e in run.happened)
    if ended:
        return []
    return [
        Fault(
            cause="memory.cgroup-oom",
            key="oom",
            host=host,
            sources=frozenset({"slurm log"}),
            proofs=tuple(Proof(each.event.place, each.source, host) for each in seen[:2]),
            limit=LIKELY,
        )
    ]


def stop_of(each: Happened) -> str | None:
    """The kind of effect that one of Slurm's lines is, None for a line that is a fault's."""
    event = each.event
    if not isinstance(event, Cancelled) or event.reason in REASONS:
        return None
    ends_job = event.step is None and event.reason in (None, "signal")
    return None if ends_job else "step-ended"
