"""The versions of torch that the runs were made with, and how a rank is told to fail."""

from __future__ import annotations

T113, T20, T21, T24, T27, T213 = "1.13.1", "2.0.1", "2.1.2", "2.4.1", "2.7.1", "2.13.0"


def fault(what: str, rank: int | str = 1, **more: str) -> dict[str, str]:
    """The environment that makes a rank, or several ("0,1"), fail."""
    return {"FAULT": what, "FAULT_RANK": str(rank), **more}
