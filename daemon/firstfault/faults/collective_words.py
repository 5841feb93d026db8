"""What a process said of an error of NCCL's: a card, a network, a setting, or a peer that went away.

The exception ("unhandled system error", "internal error") tells no more than that a call failed; the
library's own lines (NCCL WARN, or what torch repeats as "Last error") tell which.

| its own lines tell | then it is |
|---|---|
| an error of the card, or that it was full | `gpu.*`, `memory.gpu-oom` |
| that shared memory, locked memory or a permission was lacking | `memory.shm`, `process.resource-limit`, `storage.permission` |
| an interface, a version, a card that two ranks share | `collective.config` |
| messages of another size | `collective.desync` |
| a link, a completion error, a host that cannot be reached | `collective.network` |
| only that a peer's connection was closed or refused | no fault: an effect of the peer's |
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firstfault.model.event import Traceback
from firstfault.model.fault import Fault, Proof
from firstfault.model.run import Happened
from firstfault.model.verdict import LIKELY, weaker

COLLECTIVE_ERROR = "collective.error"
# The first of these explains the others: a card that is gone takes its connections with it.
_REASONS = (
    "gpu.", "memory.", "process.resource-limit", "storage.permission",
    "collective.config", "collective.desync", "collective.network",
)  # fmt: skip
# It says no more than the exception.
_VAGUE = "gpu.unhealthy"
# So many lines below the exception torch repeats NCCL's own last error.
_LAST_ERROR = 3
# These are the program's or the card's, whatever befell a peer.
_OWN = ("unhandled cuda error", "ncclUnhandledCudaError", "invalid usage", "ncclInvalid")


def own_reason(signs: Sequence[Happened]) -> list[Happened]:
    """Of a process's telling lines those that say why its collective failed; empty if none does."""
    for prefix in _REASONS:
        found = [e for e in signs if (e.means or "").startswith(prefix) and e.means != _VAGUE]
        if found:
            return [each for each in found if each.means == found[0].means]
    return []


def only_lost_a_peer(event: Traceback, means: str | None, signs: Sequence[Happened]) -> bool:
    """Whether an error of NCCL's is the loss of a peer, by the process's own lines."""
    if means != COLLECTIVE_ERROR or any(word in event.message for word in _OWN):
        return False
    return not own_reason(signs) and any(each.means == "peer-lost" for each in signs)


def is_lost_peer(fault: Fault, loose: Sequence[Happened]) -> bool:
    """Whether a fault that is an error of NCCL's in nobody's traceback is the loss of a peer, by
    what torch repeats right below it ("Last error")."""
    if not _is_nobodys(fault):
        return False
    message = (fault.exception and fault.exception.message) or ""
    if any(word in message for word in _OWN):
        return False
    below = [each for each in loose if any(_is_below(each, proof) for proof in fault.proofs)]
    return not own_reason(below) and any(each.means == "peer-lost" for each in below)


def _is_nobodys(fault: Fault) -> bool:
    raised = fault.cause == COLLECTIVE_ERROR and fault.exception is not None
    return raised and fault.process is None


def _is_below(each: Happened, proof: Proof) -> bool:
    one, other = each.event.place, proof.place
    if one.document != other.document or one.line is None or other.line is None:
        return False
    return 0 < one.line - other.line <= _LAST_ERROR


def reasoned(fault: Fault, loose: Sequence[Happened]) -> Fault:
    """A fault that is an error of NCCL's in nobody's traceback, with what lines of nobody in the
    same document say of why."""
    if not _is_nobodys(fault):
        return fault
    documents = {each.place.document for each in fault.proofs}
    own = own_reason([each for each in loose if each.event.place.document in documents])
    if not own:
        return fault
    cause = own[0].means or fault.cause
    return msgspec.structs.replace(
        fault,
        cause=cause,
        key=cause,
        proofs=(*(Proof(e.event.place, e.source) for e in own[:2]), *fault.proofs),
        limit=weaker(fault.limit, LIKELY, *(each.at_most for each in own)),
    )
