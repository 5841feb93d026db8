"""Whether the work went on after what a verdict rests on.

An older log that a program or a script quotes ends as a job does: with an agent's table, with the
words of srun and slurmstepd. What then counts its steps is the job itself, or a next launch of which
nothing else is told; how that one ended is another matter.
"""

from __future__ import annotations

from firstfault.judge.decide import Judgement
from firstfault.model.event import (
    AgentSignalled,
    Cancelled,
    ExitNoticed,
    MemoryPoll,
    NodeFailure,
    OomNoticed,
    StepEnded,
    TableEntry,
    TaskEnd,
)
from firstfault.model.line import Place
from firstfault.model.run import Run, Told

# torchrun starts its ranks unbuffered: what they say after their agent's words was done after them,
# but for what another agent passes on, with a prefix.
_AGENTS = (ExitNoticed, TableEntry)
# srun's tasks may hold their output back until they end, which srun then tells.
_SLURMS = (Cancelled, NodeFailure, OomNoticed, StepEnded, TaskEnd)
# It kills its whole step at once: nothing of that step is said any more.
_AT_ONCE = (MemoryPoll,)


def went_on(told: Told, run: Run, judgement: Judgement) -> bool:
    """Whether several steps of work stand behind all that ``judgement`` rests on."""
    worked = {document: offset for document, offset, _ in told.worked}
    plain = {document: offset for document, _, offset in told.worked}
    proofs = [proof.place for root in judgement.roots for proof in root.proofs]
    if not proofs or any(place.document not in worked for place in proofs):
        return False
    agents, slurms, at_once = (_places(run, kinds) for kinds in (_AGENTS, _SLURMS, _AT_ONCE))
    ended = {
        place.document
        for place in slurms | _places(run, (AgentSignalled,))
        if place.offset > worked.get(place.document, -1)
    }
    return all(
        (place in agents and place.offset < plain[place.document])
        or (place in at_once and place.offset < worked[place.document])
        or (
            place in slurms
            and place.offset < worked[place.document]
            and place.document not in ended
        )
        for place in proofs
    )


def _places(run: Run, kinds: tuple[type, ...]) -> set[Place]:
    found = {each.event.place for each in run.happened if isinstance(each.event, kinds)}
    told_at = {e.event.told_at for e in run.happened if isinstance(e.event, TableEntry)}
    return found | {place for place in told_at if place and TableEntry in kinds}
