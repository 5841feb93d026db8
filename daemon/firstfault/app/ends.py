"""Which ends of jobs are reported: what the configuration says of how Slurm says a job ended.

Values in, values out. docs/daemon.md has the table.
"""

from __future__ import annotations

from firstfault.config import Ends
from firstfault.model import verdict as v
from firstfault.model.slurm import JobFacts
from firstfault.slurm.facts import has_ended

ALWAYS = "always"
IF_FAILED = "if-failed"
NEVER = "never"

SUCCEEDED = "COMPLETED"
CANCELLED = "CANCELLED"
_KEYS = {
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "NODE_FAIL": "node_fail",
    "BOOT_FAIL": "node_fail",
    "PREEMPTED": "preempted",
}
# What a verdict says of the state where Slurm has not answered.
_STATES = {
    "slurm.time-limit": "TIMEOUT",
    "slurm.node-fail": "NODE_FAIL",
    "slurm.boot-fail": "BOOT_FAIL",
    "slurm.preempted": "PREEMPTED",
    "slurm.cancelled": CANCELLED,
}
# What ends a job without anything in it having failed before.
_ENDED_FROM_OUTSIDE = frozenset({"none", "unknown", "process.interrupted", *_STATES})


def is_reported(ends: Ends, verdict: v.Verdict, facts: JobFacts | None, facts_closed: bool) -> bool:
    """True when a job with this verdict is to be told of now.

    While Slurm may still answer (``facts`` None, ``facts_closed`` False) a cancellation waits for
    it, to know by whom; and so does everything where some ends are never reported.
    """
    state = facts.state if facts is not None else _STATES.get(verdict.cause.id)
    if facts is None and not facts_closed and (state == CANCELLED or NEVER in _rules(ends)):
        return False
    rule = _rule(ends, state, facts)
    return rule == ALWAYS or (rule == IF_FAILED and verdict.cause.id not in _ENDED_FROM_OUTSIDE)


def is_wanted(ends: Ends, facts: JobFacts | None) -> bool | None:
    """True when the evidence of a job that ended so is worth collecting; None: not known yet."""
    if facts is None or not has_ended(facts):
        return None
    return facts.state != SUCCEEDED and _rule(ends, facts.state, facts) != NEVER


def _rule(ends: Ends, state: str | None, facts: JobFacts | None) -> str:
    if state == CANCELLED:
        by_owner = facts is None or facts.by_uid is None or facts.by_uid == facts.uid
        return ends.cancelled_by_owner if by_owner else ends.cancelled
    rule: str = getattr(ends, _KEYS.get(state or "", "failed"))
    return rule


def _rules(ends: Ends) -> set[str]:
    return {getattr(ends, name) for name in ends.__struct_fields__}
