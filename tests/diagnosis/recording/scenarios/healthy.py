"""Runs that succeed and talk as much as they can: what no signature may match."""

from __future__ import annotations

from tests.diagnosis.recording.local import Scenario
from tests.diagnosis.recording.scenarios.versions import T20, T21, T24, T27, T113, T213

LOUD = {
    "TORCH_CPP_LOG_LEVEL": "INFO",
    "TORCH_SHOW_CPP_STACKTRACES": "1",
    "LOGLEVEL": "INFO",
    "PYTHONWARNINGS": "always",
    "FAULT": "ddp",
    "WORKERS": "1",
    "STEPS": "12",
}


def debug(torch: str) -> dict[str, str]:
    """The loudest that a version bears: DETAIL makes 2.13.0 crash."""
    return {"TORCH_DISTRIBUTED_DEBUG": "INFO" if torch == T213 else "DETAIL"}


RUNS = tuple(
    Scenario(
        f"healthy-{torch}",
        torch,
        "",
        ("none",),
        LOUD | debug(torch),
        static=static,
        nproc=nproc,
        late_s=1,
        tee=tee,
    )
    for torch, static, nproc, tee in (
        (T113, True, 1, False),
        (T20, False, 1, True),
        (T21, True, 2, False),
        (T24, False, 1, False),
        (T27, True, 1, True),
        (T213, False, 2, False),
    )
)
