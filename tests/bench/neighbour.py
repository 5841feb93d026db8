"""How much a job that computes on all cores is slowed while the collector reads a node's logs.

    python -m tests.bench.neighbour [--ranks 8] [--mib 1024] [--rounds 5]

One process a core does a fixed piece of arithmetic, alone and while a collector reads the logs of
an ended job over and over, with the unit's priorities (Nice=10, idle I/O) and without them. Told
are ratios of the slowest process's wall time, the median of some rounds, each alone and beside in
turn. The unit's slice (one core, CPUWeight=10) is not in force here: under systemd it is less.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import console
from tests.bench.collector import ROOT
from tests.epilog.node import Node

WORK = "x = 1\nfor i in range(12_000_000): x = (x * 69069 + i) & 0xffffffff"
PRIORITIES = {
    "as the unit sets it": ["nice", "-n10", "ionice", "-c3"],
    "with no priority set": [],
}


def work_s() -> float:
    """Wall seconds until one process on each core has done its piece."""
    begun = time.monotonic()
    cores = sorted(os.sched_getaffinity(0))
    started = [
        subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-I", "-c", WORK])
        for core in cores
    ]
    for process in started:
        assert process.wait() == 0
    return time.monotonic() - begun


def beside_s(node: Node, prefix: list[str]) -> float:
    """The same while a collector reads, again as soon as it has ended."""
    command = " ".join(f"'{word}'" for word in (*prefix, *node.command()))
    entry = node.folder / "entry"
    loop = f"while cp -p '{entry}' '{node.queue}/ready/12-n3-1' && {command}; do :; done"
    reader = subprocess.Popen(["/bin/sh", "-c", loop], start_new_session=True)
    try:
        time.sleep(1.0)
        return work_s()
    finally:
        os.killpg(reader.pid, signal.SIGKILL)
        reader.wait()
        shutil.rmtree(node.queue / "claimed")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="firstfault-bench-"))
    folder.chmod(0o755)
    try:
        pyz = folder / "collector.pyz"
        subprocess.run([ROOT / "epilog/build-pyz", "-o", pyz], check=True, stdout=-3)
        node = Node(folder, pyz, ROOT / "epilog/firstfault-epilog")
        node.spool.mkdir()
        node.configure(FIRSTFAULT_READ_DEADLINE_S="300")
        for rank in range(arguments.ranks):
            log = folder / f"ranks/12_x/attempt_0/{rank}/stderr.log"
            log.parent.mkdir(parents=True)
            with log.open("wb") as target:
                console.write(target, arguments.mib << 20, ranks=arguments.ranks, alarms=2000)
        node.end_job()
        (entry,) = node.waiting()
        entry.rename(folder / "entry")
        for name, prefix in PRIORITIES.items():
            ratios = []
            for _ in range(arguments.rounds):
                alone = work_s()
                ratios.append(beside_s(node, prefix) / alone)
            print(
                f"{arguments.ranks} logs of {arguments.mib} MiB, {name}: "
                f"{statistics.median(ratios):.2f} times as long "
                f"({min(ratios):.2f} to {max(ratios):.2f})"
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
