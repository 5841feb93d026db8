"""Cards that failed by the kernel's word, and the ranks of that host that met a CUDA error.

| the kernel says, before the ranks failed | a rank of that host says | then |
|---|---|---|
| the card fell off the bus, or has an uncorrectable error | a CUDA error, or NCCL's of one | the card's, sure |
| a row could not be remapped, or a link, the system processor or another part failed | the same | the card's, likely |
| any of these | that its watchdog is stuck | the card's, likely |
| a fault of a program's own kernel (Xid 13, 31) | the same fault | a second source, likely |

A line counts for a rank that failed within minutes after it: nodes are shared, and jobs run for
weeks. A line without a time may be days old: it makes nothing sure, and only a card that is gone for
good counts then. Nor is a line sure that names a process which is no rank's, though in a container
a rank has another pid than the kernel gives it. Which card is which rank's is not told: where
several ranks met an error, none is surely the first.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Protocol

import msgspec

from firstfault.model.event import KernelSign
from firstfault.model.fault import Fault, Proof
from firstfault.model.run import Run
from firstfault.model.verdict import CONFIRMED, LIKELY

# What breaks under the program, first the one that explains the others.
DEVICE = (
    "gpu.bus-lost", "gpu.ecc", "gpu.row-remap", "gpu.gsp", "gpu.nvlink", "gpu.unhealthy",
)  # fmt: skip
# A row that waits for the next reset stops no process.
_HARMLESS = "kernel.gpu-row-remap"
_SURE = frozenset({"kernel.gpu-bus-lost", "kernel.gpu-ecc", "kernel.amdgpu-uncorrected"})
_LASTING = frozenset({"gpu.bus-lost"})
# A program's own assertion, its own settings.
_OWN = ("gpu.device-assert", "gpu.not-visible")
# A watchdog that a call of the driver holds up: it tells of no error.
_STUCK = "process.stuck"
# NCCL's watchdog waits 10 minutes for a rank whose card is gone.
_NEAR = dt.timedelta(minutes=20)
_FACTS = ("gpu", "switch", "xid", "sxid")


class Seen(Protocol):
    """A kernel's sign of one host."""

    @property
    def event(self) -> KernelSign:
        """The sign."""


def with_cards(
    run: Run, host: str | None, signs: Sequence[Seen], faults: Sequence[Fault]
) -> list[Fault] | None:
    """``faults``, with what the signs of cards on ``host`` explain; None where they explain none."""
    events = [each.event for each in signs]
    said = [f for f in faults if host is not None and f.host == host and _is_cards(f)]
    if not said:
        return None
    pids = {pid for process in run.roster for pid in process.pids}
    near = {id(fault): _failed_before(fault, events) for fault in said}
    if any(near.values()):
        alone = len(said) == 1
        return [
            _explained(fault, near[id(fault)], pids, alone=alone) if near.get(id(fault)) else fault
            for fault in faults
        ]
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
    return fault.cause == _STUCK or (fault.cause.startswith("gpu.") and fault.cause not in _OWN)


# The lines of the card's failure that explains most, of those that a rank may have failed of.
def _failed_before(fault: Fault, events: Sequence[KernelSign]) -> list[KernelSign]:
    for cause in DEVICE:
        own = [e for e in events if e.means == cause and e.signature != _HARMLESS]
        near = [e for e in own if _is_near(e, fault)]
        if near or (cause in _LASTING and any(e.at is None for e in own)):
            return near or own
    return []


def _is_near(event: KernelSign, fault: Fault) -> bool:
    if event.at is None or event.at.latest is None or fault.at is None or fault.at.latest is None:
        return False
    return fault.at.latest - event.at.latest <= _NEAR


def _explained(fault: Fault, told: Sequence[KernelSign], pids: set[int], *, alone: bool) -> Fault:
    first = told[0]
    ours = fault.cause == first.means or first.pid is None or first.pid in pids
    sure = (first.signature in _SURE and _is_near(first, fault) and ours and not first.quoted) and (
        fault.sure and fault.cause != _STUCK
    )
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
    sure = any(e.signature in _SURE and _is_near(e, fault) and not e.quoted for e in told)
    facts = dict(told[0].facts) | dict(fault.facts)
    return msgspec.structs.replace(
        fault,
        sources=fault.sources | ({"kernel"} if sure else set()),
        proofs=tuple(dict.fromkeys((*fault.proofs, *_proofs(told[:2])))),
        facts=tuple(
            sorted((k, v) for k, v in facts.items() if k in _FACTS or (k, v) in fault.facts)
        ),
    )


def _proofs(told: Sequence[KernelSign]) -> tuple[Proof, ...]:
    return tuple(Proof(event.place, "kernel log", event.host) for event in told)
