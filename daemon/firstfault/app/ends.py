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
    "REQUEUED": "requeued",
}
# What a verdict says of the state where Slurm has not answered.
_STATES = {
    "slurm.time-limit": "TIMEOUT",
    "slurm.node-fail": "NODE_FAIL",
    "slurm.boot-fail": "BOOT_FAIL",
    "slurm.preempted": "PREEMPTED",
    "slurm.cancelled": CANCELLED,
}
# What tells of no failure of the job: it was ended from outside.
_NO_FAILURE = frozenset(
    {"none", "unknown", "process.interrupted", "slurm.cancelled", "slurm.preempted"}
)


def is_reported(ends: Ends, verdict: v.Verdict, facts: JobFacts | None, facts_closed: bool) -> bool:
    """True when a job with this verdict is to be told of now.

    While Slurm may still answer (``facts`` None, ``facts_closed`` False) a cancellation waits for
    it, to know by whom; and so does everything where some ends are never reported.
    """
    state = facts.state if facts is not None else _STATES.get(verdict.cause.id)
    if facts is None and not facts_closed and (state == CANCELLED or NEVER in _rules(ends)):
        return False
    chosen = rule(ends, state, facts)
    return chosen == ALWAYS or (chosen == IF_FAILED and _had_failed(verdict.cause.id, state))


def is_wanted(ends: Ends, facts: JobFacts | None) -> bool | None:
    """True when the evidence of a job that ended so is worth collecting; None: not known yet."""
    if facts is None or not has_ended(facts):
        return None
    return facts.state != SUCCEEDED and rule(ends, facts.state, facts) != NEVER


def _had_failed(cause: str, state: str | None) -> bool:
    """True where the cause is another than the end itself."""
    itself = _STATES.get(cause)
    return cause not in _NO_FAILURE and (itself is None or _key(itself) != _key(state))


def _key(state: str | None) -> str:
    return _KEYS.get(state or "", "failed")


def rule(ends: Ends, state: str | None, facts: JobFacts | None) -> str:
    """What is configured for jobs in this base state."""
    if state == CANCELLED:
        by_owner = facts is None or facts.by_uid is None or facts.by_uid == facts.uid
        return ends.cancelled_by_owner if by_owner else ends.cancelled
    chosen: str = getattr(ends, _key(state))
    return chosen


def _rules(ends: Ends) -> set[str]:
    return {getattr(ends, name) for name in ends.__struct_fields__}
