"""Which lines prove a cause, the one that says most first."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from firstfault.model.fault import Effect, Fault, Proof

# How many lines prove a cause to a reader; the rest repeats them.
MOST = 8
# What says only that a process ended: an agent's line, an exit code in its table, a task's end.
# torch 1.9 to 2.13, elastic/multiprocessing/api.py and errors/__init__.py; Slurm 22.05, srun.
_ENDS = (
    re.compile(r"\bfailed \(exitcode: -?\d{1,6}\) local_rank: "),
    re.compile(r"\bexitcode {0,4}: -?\d{1,6} \(pid: "),
    re.compile(r"\btraceback : Signal \d{1,3} "),
    re.compile(r"\bsrun: error: \S{1,255}: tasks? [\d,-]{1,200}: "),
)
# What only leads to the words that say why: a warning of c10d's sockets, libstdc++'s first line.
_LEADS = (re.compile(r"\[W[\d ][^\]]{0,60}\] \[c10d\]"), re.compile(r"\bterminate called "))


def ordered(roots: Sequence[Fault]) -> tuple[Proof, ...]:
    """The lines that the ``roots`` rest on, at most `MOST`.

    The best line of each rank comes first: of many that failed alike, none is left without one.
    What a kernel or the process itself says comes before what only says that it ended.
    """
    own = [_of_fault(fault) for fault in roots]
    most = max(map(len, own), default=0)
    found = [proofs[k] for k in range(most) for proofs in own if k < len(proofs)]
    return tuple(dict.fromkeys(found))[:MOST]


# That the work was done does not prove a crash: there the end itself comes first.
def _of_fault(fault: Fault) -> list[Proof]:
    if fault.cause == "process.abort-at-exit":
        return list(fault.proofs)
    return sorted(fault.proofs, key=_weight)


def _weight(proof: Proof) -> int:
    text = proof.place.text
    if proof.source == "kernel log":
        return 0
    if any(pattern.search(text) for pattern in _ENDS):
        return 3
    return 2 if any(pattern.search(text) for pattern in _LEADS) else 1


def of_effects(effects: Sequence[Effect], kinds: Collection[str]) -> tuple[Proof, ...]:
    """One line of each rank that the effects of these ``kinds`` befell, at most `MOST`."""
    ranks: dict[object, Proof] = {}
    for effect in effects:
        if effect.kind in kinds:
            ranks.setdefault(effect.process or effect.proof, effect.proof)
    return tuple(dict.fromkeys(ranks.values()))[:MOST]
