"""The frame of made cases: a job of two nodes with two ranks each, under torchrun and srun --label.

A case tells what its ranks, its kernels and Slurm say; the frame adds the agents' words, their
tables and accounting, from the formats of tests/diagnosis/made.py, with invented values. With
``skew_s`` the clock of n2 is ahead by so much: its kernel log's and its agent's times are, too.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.diagnosis import made
from tests.diagnosis.case_files import CASES

AGENTS = (5100, 6100)
PIDS = (5201, 5202, 6201, 6202)
_FAILED_AT = dt.datetime(2026, 11, 30, 10, 0, 5, tzinfo=dt.UTC)
SKEW_S = 37 * 60
_KIND = "made: from format strings, with invented values"


@dataclass(frozen=True)
class Made:
    """One case. ``error`` and ``words`` by rank; ``codes`` of ranks that end otherwise than by 1.

    ``alive`` are ranks that their agent ends at last, ``also`` those that are first as well. ``kernel`` are (host, seconds before the
    first rank's end, text). ``said`` are lines of nobody, before the ranks' own. ``console`` in
    place of all that; ``state`` is accounting's.
    """

    name: str
    teaches: str
    cause: str
    rank: int | None = None
    host: str | None = None
    confidence: str | None = None
    key: str = ""
    near: tuple[str, ...] = ()
    error: Mapping[int, str] = field(default_factory=dict)
    words: Mapping[int, Sequence[str]] = field(default_factory=dict)
    codes: Mapping[int, int] = field(default_factory=dict)
    alive: tuple[int, ...] = ()
    also: tuple[int, ...] = ()
    first: int = 2
    kernel: tuple[tuple[str, float, str], ...] = ()
    said: tuple[str, ...] = ()
    console: tuple[str, ...] = ()
    state: str = "FAILED"
    skew_s: int = 0


def skewed(case: Made) -> Made:
    """The same case with n2's clock ahead; what it is sure of may be less."""
    teaches = "the same; the clock of n2 is 37 minutes ahead"
    return replace(
        case, name=f"{case.name}-skewed", teaches=teaches, skew_s=SKEW_S, confidence=None, near=()
    )


def nccl(rank: int, text: str, source: str = "") -> str:
    """A line of NCCL's, as it prints it without torch: host, pid, thread, card."""
    where = f"{source} " if source else ""
    return f"n{rank // 2 + 1}:{PIDS[rank]}:{PIDS[rank] + 81} [{rank % 2}] {where}NCCL WARN {text}"


def _own(rank: int, case: Made) -> list[str]:
    words = list(case.words.get(rank, ()))
    error = case.error.get(rank)
    raised = [] if error is None else made.raised(error, 90 if rank == case.first else 77)
    prefixed = made.hooked(rank, [line for each in raised for line in each.split("\n")])
    return made.of_task(rank // 2, words, prefixed)


def _clock(node: int, case: Made, after_s: int) -> dt.datetime:
    ahead = case.skew_s if node == 1 else 0
    return _FAILED_AT + dt.timedelta(seconds=after_s + ahead)


def _agent(node: int, case: Made, after_s: int) -> list[str]:
    at = _clock(node, case, after_s)
    clock, table_time = at.strftime("%H:%M:%S"), at.strftime("%Y-%m-%d_%H:%M:%S")
    ranks = [rank for rank in (2 * node, 2 * node + 1) if rank not in case.alive]
    failed = sorted(ranks, key=lambda rank: rank != case.first)
    lines = []
    for rank in case.alive:
        if rank // 2 == node:
            lines += made.closed(PIDS[rank], AGENTS[node], clock)
            lines += made.forced(PIDS[rank], AGENTS[node], clock)
    if not failed:
        return made.of_task(node, lines)
    codes = {rank: case.codes.get(rank, 1) for rank in failed}
    # An agent sees one rank fail and ends its mate, unless that has failed by then.
    own = [rank for rank in failed if rank in case.error or rank in case.codes]
    for rank in failed:
        if rank not in own:
            lines += made.closed(PIDS[rank], AGENTS[node], clock)
    own = own or failed[:1]
    lines += made.noticed(own[0] % 2, PIDS[own[0]], codes[own[0]], AGENTS[node], clock)
    table = made.table(*[(rank, rank % 2, codes[rank], PIDS[rank]) for rank in own])
    told = [line.replace("2026-11-30_10:00:05", table_time) for line in table]
    lines += made.agent_raised(told[0])
    return made.of_task(node, lines, made.hosted(told[1:], f"n{node + 1}"))


def console(case: Made) -> list[str]:
    """The job's output."""
    if case.console:
        return list(case.console)
    lines = made.of_task(0, [f"step {n} loss 0.{990 - n}" for n in range(100, 106)])
    lines += case.said
    order = sorted(range(4), key=lambda rank: (rank != case.first, rank // 2 != case.first // 2))
    for rank in order:
        lines += _own(rank, case)
    node = case.first // 2
    lines += _agent(node, case, 0) + _agent(1 - node, case, 2)
    return [*lines, *made.task_ended(f"n{node + 1}", node)]


def write(case: Made, root: Path = CASES) -> None:
    """The case's folder."""
    folder = root / case.name
    folder.mkdir(exist_ok=True)
    (folder / "slurm-500.out").write_text("\n".join(console(case)) + "\n")
    accounting = made.accounting(
        case.state, nodes="n[1-2]", code="0:0" if case.state == "COMPLETED" else "1:0"
    )
    (folder / "sacct.txt").write_bytes(accounting.excerpts[0].data)
    for host in sorted({host for host, _, _ in case.kernel}):
        (folder / host).mkdir(exist_ok=True)
        said = []
        for each, before_s, text in case.kernel:
            if each == host:
                at = _clock(int(host[1:]) - 1, case, 0) - dt.timedelta(seconds=before_s)
                said.append(f"[{at.strftime('%a %b %d %H:%M:%S %Y')}] {text}")
        (folder / host / "dmesg.txt").write_text("\n".join(said) + "\n")
    (folder / "expected.toml").write_text("\n".join(truth(case)) + "\n")


def truth(case: Made) -> list[str]:
    """What is true of the case."""
    near = ", ".join(f'"{each}"' for each in case.near)
    lines = [f'cause = ["{case.cause}"]']
    lines += [] if case.rank is None else [f"rank = {case.rank}"]
    lines += [] if case.host is None else [f'host = "{case.host}"']
    lines += [] if case.confidence is None else [f'confidence = "{case.confidence}"']
    lines += [f"key = '''{case.key}'''"] if case.key else []
    lines += [f"also = {list(case.also)}"] if case.also else []
    lines += [f"near_miss_of = [{near}]"] if near else []
    lines += ["skewed = true"] if case.skew_s else []
    return [*lines, f'kind = "{_KIND}"']
