"""The rank that a line of nobody in particular states itself.

torch before 2.3 puts no rank before its lines, but some of its messages name their own:

| words | from |
|---|---|
| ``Parameter indices which did not receive grad for rank 3: 7 8`` | csrc/distributed/c10d/reducer.cpp |
| ``[Rank 3] NCCL watchdog thread terminated with exception: CUDA error: ...`` | csrc/distributed/c10d/ProcessGroupNCCL.cpp |

It is the rank in a process group, which may be a part of all: never more than possible.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from firstfault.model.fault import Fault
from firstfault.model.run import Process, Run

_STATED = re.compile(
    r"did not receive grad for rank (\d{1,7})\b"
    r"|^(?:\[[\w .:-]{1,60}\] )?\[Rank (\d{1,7})\] (?:NCCL|Process group) watchdog thread terminated with "
    r"exception: (?:CUDA|HIP) error"
)


def with_stated_ranks(run: Run, faults: Sequence[Fault]) -> list[Fault]:
    """``faults``, of which those of nobody are the one rank's that their own lines state."""
    return [_stated(run, fault) if fault.process is None else fault for fault in faults]


def _stated(run: Run, fault: Fault) -> Fault:
    found = {
        int(match[1] or match[2])
        for each in fault.proofs
        if (match := _STATED.search(each.place.text))
    }
    if len(found) != 1 or fault.candidates:
        return fault
    rank = found.pop()
    known = [process for process in run.roster if process.rank == rank]
    process = known[0] if known else Process(run.attempt, rank=rank, host=fault.host)
    return msgspec.structs.replace(
        fault, process=process, host=process.host or fault.host, rank_sure=False
    )
