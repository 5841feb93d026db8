"""What a program's own words add to a card's fault: who held its memory, which assertion failed.

Formats: torch 2.0 to 2.13, c10/cuda/CUDACachingAllocator.cpp ("Tried to allocate", "Process N has
X memory in use", "this process has X memory in use"); CUDA 11 to 13 and HIP 6, the line that a
device-side assertion prints.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from firstfault.faults.processes import proof
from firstfault.model.event import Sign
from firstfault.model.fault import Fault
from firstfault.model.run import Run
from firstfault.model.verdict import LIKELY

_ASSERTION_LINE = "line.cuda-assertion"
_ASSERTION = re.compile(r"[Aa]ssertion [`']?([^`'\n]{1,200}?)[`']? failed\.?")
_SIZE = r"(\d{1,6}(?:\.\d{1,3})? [KMGT]iB)"
_TRIED = re.compile(rf"Tried to allocate {_SIZE}")
_OTHER = re.compile(rf"Process (\d{{1,10}}) has {_SIZE} memory in use")
_OWN = re.compile(rf"this process has {_SIZE} memory in use")


def with_card_words(run: Run, faults: Sequence[Fault]) -> list[Fault]:
    """``faults`` of cards with what the processes' own words add to them."""
    return [_with_words(fault, run) for fault in faults]


def _with_words(fault: Fault, run: Run) -> Fault:
    if fault.cause == "memory.gpu-oom" and fault.exception is not None:
        return _with_facts(fault, _held(fault, fault.exception.message or "", run))
    if fault.cause == "gpu.device-assert":
        return _asserted(fault, run)
    return fault


def _with_facts(fault: Fault, facts: dict[str, str]) -> Fault:
    return msgspec.structs.replace(fault, facts=tuple(sorted((dict(fault.facts) | facts).items())))


# In a container torch does not know its own pid, and tells of itself as of another process: only
# where it tells of itself too, another is another.
def _held(fault: Fault, message: str, run: Run) -> dict[str, str]:
    tried = _TRIED.search(message)
    found = {} if tried is None else {"tried": tried[1]}
    own = _OWN.search(message)
    others = _OTHER.findall(message)
    if own is None or not others:
        return found
    pid, held = max(others, key=lambda each: _bytes(each[1]))
    # Less than this is what CUDA itself takes for each process.
    if _bytes(held) < _bytes("2 GiB"):
        return found
    mine = [
        p for p in run.roster if int(pid) in p.pids and p.host == fault.host and p != fault.process
    ]
    rank = mine[0].rank if len(mine) == 1 else None
    who = f"process {pid}" if rank is None else f"rank {rank}"
    return {**found, "holder": who, "held": held, "own": own[1]}


def _bytes(size: str) -> float:
    number, unit = size.split()
    return float(number) * 1024.0 ** ("KMGT".index(unit[0]) + 1)


# The line that the card printed, of the same process or of nobody in the same document.
def _asserted(fault: Fault, run: Run) -> Fault:
    documents = {each.place.document for each in fault.proofs}
    lines = [
        each
        for each in run.happened
        if isinstance(each.event, Sign)
        and each.event.signature == _ASSERTION_LINE
        and (
            each.process == fault.process
            if each.process is not None
            else each.event.place.document in documents
        )
    ]
    if not lines:
        return fault
    match = _ASSERTION.search(lines[0].event.place.text)
    ended = _ended_so(fault)
    said = fault.exception is not None or ended
    seconded = msgspec.structs.replace(
        fault,
        sources=fault.sources | ({"rank", "device"} if said else {"device"}),
        proofs=tuple(dict.fromkeys((proof(lines[0]), *fault.proofs))),
        # Nothing survives an assertion of its card, nor goes on after C++ ended it for one.
        sure=fault.sure or ended,
        limit=fault.limit if said or fault.sure else LIKELY,
    )
    return _with_facts(seconded, {"assertion": match[1]} if match else {})


def _ended_so(fault: Fault) -> bool:
    return any(is_last_word(fault.cause, each.place.text) for each in fault.proofs)


def is_last_word(means: str | None, text: str) -> bool:
    """Whether a line is what C++ says of a card's error that nothing caught, as it ends the process."""
    return (means or "").startswith("gpu.") and "what():" in text
