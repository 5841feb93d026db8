"""How long ``firstfault explain`` takes on a huge console, next to grep, and in how much memory.

    python -m tests.bench.explain FILE [--runs 3]

FILE is one that tests.bench.console wrote. Printed are the best of some runs each: the time of
``LC_ALL=C grep -c -E -f anchors FILE``, the time of explain, how many times longer it takes, and
the most memory that explain and its grep held. Told as a number, not as a verdict: a busy
machine makes any of them slow.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from firstfault.signatures import known_anchors


def measured(argv: list[str]) -> tuple[float, float, int]:
    """Wall seconds, processor seconds, and the most resident KiB of a command."""
    begun = time.monotonic()
    # To /dev/null grep would stop at its first match.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(argv, stdout=output, env=os.environ | {"LC_ALL": "C"})
        _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return time.monotonic() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as anchors:
        anchors.write("\n".join(a for each in known_anchors().values() for a in each))
        anchors.flush()
        grep = ["/usr/bin/grep", "-c", "-E", "-f", anchors.name, str(given.file)]
        explain = [sys.executable, "-m", "firstfault", "explain", str(given.file)]
        searched = [measured(grep) for _ in range(given.runs)]
        explained = [measured(explain) for _ in range(given.runs)]
    for name, found in (("grep", searched), ("explain", explained)):
        wall, processor, memory = (min(each[n] for each in found) for n in range(3))
        print(f"{name:8} {wall:7.2f} s wall {processor:7.2f} s processor {memory // 1024:5} MiB")
    ratio = min(each[0] for each in explained) / min(each[0] for each in searched)
    print(f"explain takes {ratio:.2f} times as long as grep")


if __name__ == "__main__":
    main()
