"""Cards that failed by the kernel's word, and the ranks of that host that met a CUDA error.

| the kernel says, before the ranks failed | a rank of that host says | then |
|---|---|---|
| the card fell off the bus, or has an uncorrectable error | a CUDA error, or NCCL's of one | the card's, sure |
| a link, the system processor or another part failed | the same | the card's, likely |
| a fault of a program's own kernel (Xid 13, 31) | the same fault | a second source, likely |

A line without a time may be days old: it makes nothing sure, and only a card that is gone for good
counts then. Which card is which rank's is not told: where several ranks met an error, none is
surely the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from firstfault.model.event import KernelSign
from firstfault.model.fault import Fault, Proof
from firstfault.model.verdict import CONFIRMED, LIKELY

# What breaks under the program, first the one that explains the others.
_DEVICE = ("gpu.bus-lost", "gpu.ecc", "gpu.gsp", "gpu.nvlink", "gpu.unhealthy")
_SURE = frozenset({"kernel.gpu-bus-lost", "kernel.gpu-ecc", "kernel.amdgpu-uncorrected"})
_LASTING = frozenset({"gpu.bus-lost"})
# A program's own assertion, its own settings.
_OWN = ("gpu.device-assert", "gpu.not-visible")
_FACTS = ("gpu", "switch", "xid", "sxid")


class Seen(Protocol):
    """A kernel's sign of one host."""

    @property
    def event(self) -> KernelSign:
        """The sign."""


def with_cards(
    host: str | None, signs: Sequence[Seen], faults: Sequence[Fault]
) -> list[Fault] | None:
    """``faults``, with what the signs of cards on ``host`` explain; None where they explain none."""
    events = [each.event for each in signs]
    said = [f for f in faults if host is not None and f.host == host and _is_cards(f)]
    if not said:
        return None
    failed = [
        event
        for cause in _DEVICE
        for event in events
        if event.means == cause and (event.at is not None or cause in _LASTING)
    ]
    if failed:
        told = [event for event in events if event.means == failed[0].means]
        return [_explained(f, told, alone=len(said) == 1) if f in said else f for f in faults]
    causes = {event.means for event in events}
    if not any(fault.cause in causes for fault in said):
        return None
    return [
        _agreed(fault, [e for e in events if e.means == fault.cause]) if fault in said else fault
        for fault in faults
    ]


def _is_cards(fault: Fault) -> bool:
    if fault.cause == "collective.error":
        words = " ".join(proof.place.text for proof in fault.proofs)
        return "unhandled cuda error" in words or "ncclUnhandledCudaError" in words
    return fault.cause.startswith("gpu.") and fault.cause not in _OWN


def _explained(fault: Fault, told: Sequence[KernelSign], *, alone: bool) -> Fault:
    first = told[0]
    sure = first.signature in _SURE and _is_dated(first) and not first.quoted and fault.sure
    facts = {name: value for name, value in fault.facts if name != "signal"}
    facts |= {name: value for name, value in first.facts if name in _FACTS}
    facts["sign"] = first.signature
    return msgspec.structs.replace(
        fault,
        cause=first.means,
        key=first.means,
        at=first.at or fault.at,
        sources=fault.sources | {"kernel"},
        proofs=tuple(dict.fromkeys((*_proofs(told[:2]), *fault.proofs))),
        rank_sure=fault.rank_sure and alone,
        limit=CONFIRMED if sure else LIKELY,
        facts=tuple(sorted(facts.items())),
    )


def _agreed(fault: Fault, told: Sequence[KernelSign]) -> Fault:
    if not told:
        return fault
    sure = any(e.signature in _SURE and _is_dated(e) and not e.quoted for e in told)
    facts = dict(told[0].facts) | dict(fault.facts)
    return msgspec.structs.replace(
        fault,
        sources=fault.sources | ({"kernel"} if sure else set()),
        proofs=tuple(dict.fromkeys((*fault.proofs, *_proofs(told[:2])))),
        facts=tuple(
            sorted((k, v) for k, v in facts.items() if k in _FACTS or (k, v) in fault.facts)
        ),
    )


# A log that goes back to boot, or over several, holds what other jobs met.
def _is_dated(event: KernelSign) -> bool:
    return event.at is not None


def _proofs(told: Sequence[KernelSign]) -> tuple[Proof, ...]:
    return tuple(Proof(event.place, "kernel log", event.host) for event in told)
