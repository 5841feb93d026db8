"""How much of each host's kernel log was read: what a missing OOM kill is worth hangs on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firstfault.model.case import Case
from firstfault.model.evidence import Coverage
from firstfault.model.run import KernelLog
from firstfault.model.slurm import JobFacts


def kernel_logs(
    case: Case, hosts: Iterable[str | None], facts: JobFacts | None
) -> tuple[KernelLog, ...]:
    """The kernel logs that the case's collectors read, or tried to.

    Without collectors, ``hosts`` are those of the kernel logs that a person named (None: of
    nobody in particular); how far these reach is not known.
    """
    found: dict[str | None, KernelLog] = {}
    for node in case.coverage:
        rows = [row for row in node.coverage if row.what == "kernel"]
        if rows:
            found[node.node] = _log(node.node, rows, facts)
    if not case.coverage:
        found = {host: KernelLog(host, "partial") for host in hosts}
    return tuple(sorted(found.values(), key=lambda log: log.host or ""))


# A log whose beginning was overwritten before the job started is whole as far as the job goes.
def _log(node: str, rows: Sequence[Coverage], facts: JobFacts | None) -> KernelLog:
    short = [row for row in rows if row.state != "full"]
    if not short:
        return KernelLog(node, "full")
    since = short[0].since if len(short) == 1 and short[0].state == "partial" else None
    if since is not None and facts is not None and facts.started_at is not None:
        return KernelLog(node, "full" if since <= facts.started_at else "partial")
    state = "none" if all(row.state == "none" for row in rows) else "partial"
    return KernelLog(node, state, since)
