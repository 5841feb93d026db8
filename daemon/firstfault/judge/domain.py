"""Who can act on a failure: narrower than its cause's domain where the evidence tells."""

from __future__ import annotations

import re

from firstfault.judge.decide import Judgement
from firstfault.model.run import Told

USER, SYSTEM, EITHER = "user", "system", "either"

# What the first fault's own words tell, for causes that either may have to act on.
_WORDS: tuple[tuple[str, str, str], ...] = (
    (
        "slurm.launch",
        r"command not found|bad interpreter|No such file or directory|chdir|Permission denied"
        r"|can't open file|not executable|Exec format",
        USER,
    ),
    ("slurm.launch", r"[Pp]rolog|cgroup|plugin|credential|Communication|munge", SYSTEM),
    ("gpu.not-visible", r"invalid device ordinal", USER),
    ("gpu.not-visible", r"driver|busy or unavailable|exclusive", SYSTEM),
    ("process.resource-limit", r"Too many open files", USER),
    ("rendezvous.connect", r"127\.0\.0\.1|localhost", USER),
    ("process.segfault", r"libcuda\.so|libnvidia-|libmlx5|libibverbs", SYSTEM),
)


def domain(told: Told, judgement: Judgement, default: str) -> str:
    """ "user", "system" or "either" for this case; ``default`` is the cause's own."""
    if default != EITHER:
        return default
    cause = judgement.cause
    if cause in ("rendezvous.timeout", "collective.peer-lost") and told.absent:
        return SYSTEM
    if cause == "memory.host-oom":
        return _of_memory(judgement)
    facts = {key: value for fault in judgement.roots[:1] for key, value in fault.facts}
    if facts.get("what") == "output-folder":
        return USER
    texts = [each.place.text for fault in judgement.roots[:1] for each in fault.proofs[:3]]
    for of, pattern, narrower in _WORDS:
        if of == cause and any(re.search(pattern, text) for text in texts):
            return narrower
    return EITHER


# The kernel's task table tells whether the job's own processes held the node's memory.
def _of_memory(judgement: Judgement) -> str:
    held = {dict(fault.facts).get("held_by") for fault in judgement.roots}
    if held == {"job"}:
        return USER
    return SYSTEM if held == {"others"} else EITHER
