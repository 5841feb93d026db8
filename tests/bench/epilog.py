"""How long the Epilog takes over one that is `#!/bin/sh` and `exit 0`.

    python -m tests.bench.epilog [--runs 200] [--shell /bin/dash]

Each round runs all of them once, one after the other, so that a busy machine slows them alike.
Printed are medians: milliseconds of wall clock, of which processor, and the wall clock over the
empty one's. "systemd" leaves the start of the collector to systemd; "detach" starts it, and its
Python stands still here (`/bin/true`); "queue of 990" finds as many entries that nobody took.
The time of the processes left in the background is not the Epilog's.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from tests.bench.timing import taken

STUB = Path(__file__).resolve().parents[2] / "epilog" / "firstfault-epilog"
# As many variables as slurmd 25.11 sets, with ordinary values.
VARIABLES = {
    "SLURMD_NODENAME": "node0417",
    "SLURM_CLUSTER_NAME": "cluster",
    "SLURM_CONF": "/etc/slurm/slurm.conf",
    "SLURM_JOB_ACCOUNT": "research",
    "SLURM_JOB_DERIVED_EC": "0",
    "SLURM_JOB_EXIT_CODE": "256",
    "SLURM_JOB_EXIT_CODE2": "1:0",
    "SLURM_JOB_GID": "1000",
    "SLURM_JOB_NODELIST": "node[0400-0463]",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_RESTART_COUNT": "0",
    "SLURM_JOB_STDOUT": "/home/user/runs/2026/slurm-%j.out",
    "SLURM_JOB_UID": "1000",
    "SLURM_JOB_USER": "user",
    "SLURM_JOB_WORK_DIR": "/home/user/runs/2026",
    "SLURM_SCRIPT_CONTEXT": "epilog_slurmd",
}


def node(folder: Path, start: str, waiting: int) -> dict[str, str]:
    """A queue and a configuration below ``folder``; the Epilog's variables there."""
    for name in ("new", "ready"):
        (folder / "queue" / name).mkdir(parents=True, mode=0o700)
    for number in range(waiting):
        for name in ("new", "ready"):
            (folder / "queue" / name / f"{number}-node0417-1").touch()
    archive = folder / "collector.pyz"
    archive.write_text("#!/bin/true\n")
    conf = folder / "epilog.conf"
    conf.write_text(
        f"FIRSTFAULT_QUEUE={folder}/queue\nFIRSTFAULT_START={start}\n"
        f"FIRSTFAULT_PYTHON=/bin/true\nFIRSTFAULT_PYZ={archive}\n# ---\n"
    )
    return {**VARIABLES, "FIRSTFAULT_CONF": str(conf)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--shell", default="/bin/sh")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(
        prefix="firstfault-bench-", ignore_cleanup_errors=True
    ) as place:
        base = Path(place)
        empty = base / "empty"
        empty.write_text("#!/bin/sh\nexit 0\n")
        runs: dict[str, tuple[list[str], dict[str, str]]] = {
            "empty": ([given.shell, str(empty)], VARIABLES)
        }
        for name, start, waiting in (
            ("systemd", "systemd", 0),
            ("detach", "detach", 0),
            ("queue of 990", "systemd", 990),
        ):
            variables = node(base / name, start, waiting)
            runs[name] = ([given.shell, str(STUB)], {**variables, "SLURM_JOB_ID": "0"})
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
        for number in range(given.runs):
            for name, (argv, variables) in runs.items():
                job = {"SLURM_JOB_ID": str(1000 + number)}
                found[name].append(taken(argv, variables | job))
                # As if the collector had taken it.
                for path in (base / name / "queue").glob(f"*/{1000 + number}-*"):
                    path.unlink(missing_ok=True)
    nothing = statistics.median(wall for wall, _ in found["empty"])
    for name, times in found.items():
        wall = statistics.median(wall for wall, _ in times)
        processor = statistics.median(processor for _, processor in times)
        print(
            f"{name:13} {wall:6.2f} ms wall {processor:6.2f} ms processor"
            f" {wall - nothing:+6.2f} ms over the empty one, {wall / nothing:.1f} times"
        )


if __name__ == "__main__":
    main()
