"""How long the TaskProlog takes, beside one that is `#!/bin/sh` and `exit 0`.

    python -m tests.bench.task_prolog [--runs 200] [--shell /bin/dash]

Each round runs all of them once, one after the other, so that a busy machine slows them alike.
Printed are medians: milliseconds of wall clock, of which processor, and the wall clock over the
empty one's. "first" is a job's first task on a node, "step" the first one of a further step, "other"
each other one, "off" a node where no folder is configured.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
from pathlib import Path

from tests.bench.timing import taken

SCRIPT = Path(__file__).resolve().parents[2] / "epilog" / "firstfault-task-prolog"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--shell", default="/bin/sh")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("needs root: the folder must be root's")
    with tempfile.TemporaryDirectory(prefix="firstfault-bench-") as name:
        for line in _measured(Path(name), arguments.runs, arguments.shell):
            print(line)


def _measured(folder: Path, runs: int, shell: str) -> list[str]:
    base = folder / "ranks"
    base.mkdir()
    base.chmod(0o1777)
    (folder / "empty").write_text("exit 0\n")
    (folder / "on.conf").write_text(
        f"FIRSTFAULT_QUEUE=/run/firstfault/queue\nFIRSTFAULT_RANK_LOG_DIR={base}\n"
        "FIRSTFAULT_RANK_LOG_TEE=1\nFIRSTFAULT_RANK_LOG_ANY_FS=1\n# ---\n"
    )
    (folder / "off.conf").write_text("FIRSTFAULT_QUEUE=/run/firstfault/queue\n# ---\n")
    # As many variables as a task of a batch job has.
    common = {f"SLURM_VARIABLE_{number}": "value" for number in range(60)}
    common |= {"SLURM_STEP_ID": "0", "SLURMD_NODENAME": "node0417", "SLURM_JOB_ID": "1"}
    on = common | {"FIRSTFAULT_CONF": str(folder / "on.conf")}
    off = common | {"FIRSTFAULT_CONF": str(folder / "off.conf")}
    job = itertools.count(2)
    found: dict[str, list[tuple[float, float]]] = {}
    taken([shell, str(SCRIPT)], on)
    for _ in range(runs):
        kinds = {"empty": common, "off": off, "other": on, "step": on, "first": on}
        for kind, variables in kinds.items():
            script = folder / "empty" if kind == "empty" else SCRIPT
            if kind == "first":
                variables = variables | {"SLURM_JOB_ID": str(next(job))}
            if kind == "step":
                variables = variables | {"SLURM_STEP_ID": str(next(job))}
            found.setdefault(kind, []).append(taken([shell, str(script)], variables))
    if len(list(base.iterdir())) != runs + 1:
        raise SystemExit("not every run made its folder")
    wall = {kind: statistics.median(w for w, _ in both) for kind, both in found.items()}
    return [
        f"{kind:6} {wall[kind]:6.2f} ms, processor {statistics.median(c for _, c in both):6.2f} ms"
        f", {wall[kind] - wall['empty']:+.2f} ms over empty"
        for kind, both in found.items()
    ]


if __name__ == "__main__":
    main()
