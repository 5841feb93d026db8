"""How long a report takes to make, for a job of 64 ranks and for one of 131,072.

    python -m tests.bench.report [--runs 5]

All ranks but one lost a peer, one in two of them on hosts that are named; in the second part all
ranks failed alike, so that the verdict names each. Printed are the best of some runs, in milliseconds
and in ratios to writing the same verdict as JSON: a busy machine makes any of them slow.
"""

from __future__ import annotations

import argparse
import datetime as dt
import time
from collections.abc import Callable

from firstfault.model import verdict as v
from firstfault.report import html, text

RANKS_OF_A_NODE = 8
BEGIN = dt.datetime(2026, 11, 30, 15, 0, tzinfo=dt.UTC)


def verdict(ranks: int, alike: bool) -> v.Verdict:
    """One of a job of so many ranks; ``alike``: all raised, else one did and the others saw it."""
    members = tuple(v.Member(rank, f"n{rank // RANKS_OF_A_NODE}") for rank in range(ranks))
    proof = v.Evidence("cause", "job output", "n0", "slurm.out", 7, 400, "ValueError: batch 17")
    later = BEGIN + dt.timedelta(seconds=3)
    nodes = ranks // RANKS_OF_A_NODE
    peers = f"1-{ranks - 1}"
    return v.Verdict(
        job=v.Job("main", "4242", name="train", user="alice", nodes=nodes, ranks=ranks),
        cause=v.Cause("python.exception", "Rank 0 on n0 raised ValueError", "user", v.CONFIRMED),
        initiator=v.Initiator(
            rank=0,
            host="n0",
            earliest=BEGIN,
            latest=BEGIN,
            confidence=v.CONFIRMED,
            also=members[1:] if alike else (),
        ),
        evidence=(proof,) * 8,
        chain=(
            v.ChainLink(BEGIN, BEGIN, "n0", 0, "raised ValueError", "cause", 0),
            v.ChainLink(BEGIN, later, "n1", 8, "lost a peer", "consequence"),
            v.ChainLink(None, later, "n2", 16, "was ended by its agent", "consequence"),
        ),
        consequences=(v.Consequence("ranks that lost a peer", ranks - 1, peers, proof),),
        coverage=(v.CoverageRow(f"n[0-{nodes - 1}]", f"0-{ranks - 1}", "full", "full"),),
    )


def best_ms(make: Callable[[], object], runs: int) -> float:
    """The shortest of some runs, in milliseconds."""
    taken = []
    for _ in range(runs):
        begun = time.perf_counter()
        make()
        taken.append(time.perf_counter() - begun)
    return min(taken) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    html.render(verdict(8, False))  # the templates and the knowledge base are read once
    print(f"{'ranks':>8} {'failed':>6} {'JSON':>10} {'page':>18} {'terminal':>18}")
    for ranks in (64, 131_072):
        for alike in (False, True):
            given = verdict(ranks, alike)
            json = best_ms(lambda: v.encode(given), runs)  # noqa: B023 - called at once
            page = best_ms(lambda: html.render(given), runs)  # noqa: B023 - called at once
            rows = best_ms(lambda: text.render(given), runs)  # noqa: B023 - called at once
            print(
                f"{ranks:8} {'all' if alike else 'one':>6} {json:7.2f} ms"
                f" {page:7.1f} ms ({page / json:5.1f}x) {rows:7.1f} ms ({rows / json:5.1f}x)"
            )


if __name__ == "__main__":
    main()
