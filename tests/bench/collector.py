"""What the collector costs on the logs of a node's ranks, next to grep.

    python -m tests.bench.collector [--ranks 8] [--mib 128] [--alarms 2000] [--runs 3]

Printed are processor seconds of ``LC_ALL=C grep -c -E -f anchors`` over the logs, those of the
collector from one entry of the queue to the record (its start included), how many times more
that is, the most memory that the collector and what it starts held together, and the size of the
record. Best of some runs each. Told as numbers, not as a verdict: a busy machine makes any slow.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from firstfault_epilog import anchors
from tests.bench import console
from tests.epilog.node import Node

ROOT = Path(__file__).resolve().parents[2]


def processor_s(usage: object) -> float:
    """Of a process and the children that it waited for."""
    return float(usage.ru_utime + usage.ru_stime)  # type: ignore[attr-defined]


def resident_kib(root: int) -> int:
    """What a process and its descendants hold; pages that they share are counted once."""
    total = 0
    for pid in [root, *_descendants(root)]:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:")
    return total


def _descendants(pid: int) -> list[int]:
    try:
        own = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [each for child in own for each in (int(child), *_descendants(int(child)))]


def grep_s(names: list[str]) -> float:
    """Processor seconds of one grep over all files."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file, tempfile.TemporaryFile() as out:
        file.write(anchors.read().patterns)
        file.flush()
        argv = ["/usr/bin/grep", "-c", "-E", "-f", file.name, *names]
        process = subprocess.Popen(argv, stdout=out, env={"LC_ALL": "C"})
        _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return processor_s(usage)


def collected(node: Node, name: str) -> tuple[float, float, int, int]:
    """Processor and wall seconds, the most KiB resident, and the bytes of the record."""
    assert node.end_job() == 0
    before = {path.name for path in node.spool.glob("*.json.gz")}
    begun = time.monotonic()
    process = subprocess.Popen(node.command(), env={})
    most = 0
    while True:
        most = max(most, resident_kib(process.pid))
        pid, _, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        time.sleep(0.02)
    process.returncode = 0
    wall = time.monotonic() - begun
    (record,) = [path for path in node.spool.glob("*.json.gz") if path.name not in before]
    return processor_s(usage), wall, most, record.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--alarms", type=int, default=2_000, help="per log, before the fault")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the logs are made; default: /tmp")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="firstfault-bench-") as name:
        folder = Path(name)
        pyz = folder / "firstfault-epilog.pyz"
        subprocess.run([ROOT / "epilog" / "build-pyz", "-o", pyz], check=True, stdout=-3)
        node = Node(folder, pyz, ROOT / "epilog" / "firstfault-epilog")
        node.spool.mkdir()
        node.configure(FIRSTFAULT_READ_DEADLINE_S="300")
        logs = []
        for rank in range(given.ranks):
            log = folder / f"ranks/12_x/attempt_0/{rank}/stderr.log"
            log.parent.mkdir(parents=True)
            with log.open("wb") as target:
                console.write(target, given.mib << 20, ranks=8, alarms=given.alarms)
            logs.append(str(log))
        searched = min(grep_s(logs) for _ in range(given.runs))
        runs = [collected(node, name) for _ in range(given.runs)]
    cost, wall, memory, size = (min(run[n] for run in runs) for n in range(4))
    print(f"grep       {searched:7.2f} s processor")
    print(f"collector  {cost:7.2f} s processor {wall:7.2f} s wall")
    print(f"collector takes {cost / searched:.2f} times the processor time of grep")
    print(f"memory     {memory / 1024:7.1f} MiB at most, all its processes together")
    print(f"record     {size / 1024:7.1f} KiB")


if __name__ == "__main__":
    sys.exit(main())
