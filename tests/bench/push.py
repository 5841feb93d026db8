"""What sending costs the collector, over writing the record into the daemon's folder.

    python -m tests.bench.push [--runs 30] [--waiting 2000]

Each round collects one job's end in each way, one after the other: "folder" writes the record;
"key" and "munge" (real munged) send it to a server on this machine; "tls" is "key" over TLS. "away"
is what a node does every ten minutes while the daemon is away and so many records wait: it looks
whether the time has come. Printed are medians; the processor time is that of all the collector's
processes, the server's is not in it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from firstfault_epilog import backlog
from tests.bench.timing import taken
from tests.epilog.conftest import ROOT
from tests.epilog.node import Node
from tests.epilog.receiver import Receiver, certificate
from tests.intake.munged import running


def nodes(base: Path, pyz: Path, ways: dict[str, dict[str, str]]) -> dict[str, Node]:
    """A node for each way, with the keys of epilog.conf that it takes."""
    found = {}
    for name, keys in ways.items():
        (base / name).mkdir()
        found[name] = Node(base / name, pyz, ROOT / "epilog" / "firstfault-epilog")
        found[name].spool.mkdir(0o700)
        found[name].configure(**keys)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--waiting", type=int, default=2000)
    given = parser.parse_args()
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firstfault-bench-")))
        base.chmod(0o755)
        key = base / "secret"
        key.touch(0o400)
        key.write_bytes(b"k" * 32)
        pyz = base / "firstfault-epilog.pyz"
        taken([sys.executable, str(ROOT / "epilog/build-pyz"), "-o", str(pyz)], {})
        made = certificate(base)
        plain, tls = stack.enter_context(Receiver()), stack.enter_context(Receiver(made))
        signed = {"FIRSTFAULT_KEY_FILE": str(key)}
        ways = {
            "folder": {},
            "key": {"FIRSTFAULT_DAEMON": plain.url, **signed},
            "munge": {
                "FIRSTFAULT_DAEMON": plain.url,
                "FIRSTFAULT_MUNGE_SOCKET": str(stack.enter_context(running()).socket),
            },
            "tls": {
                "FIRSTFAULT_DAEMON": tls.url,
                "FIRSTFAULT_CA_FILE": str(made.certificate),
                **signed,
            },
            "away": {"FIRSTFAULT_DAEMON": "http://127.0.0.1:9", **signed},
        }
        found = nodes(base, pyz, ways)
        for number in range(given.waiting):
            (found["away"].spool / f"c-{number}-n3-0.json.gz").write_bytes(b"x" * 4000)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in found}
        for _ in range(given.runs):
            for name, node in found.items():
                if name == "away":
                    node.queue.mkdir(0o700, exist_ok=True)
                    later = backlog.Attempts(20, time.time() + 3600)
                    backlog.remember(str(node.queue), backlog.State(later))
                else:
                    node.end_job()
                times[name].append(taken(node.command(), {}))
    folder = statistics.median(processor for _, processor in times["folder"])
    for name, took in times.items():
        wall = statistics.median(wall for wall, _ in took)
        processor = statistics.median(processor for _, processor in took)
        print(
            f"{name:7} {wall:7.1f} ms wall {processor:7.1f} ms processor"
            f" {processor / folder:5.2f} times the folder's"
        )


if __name__ == "__main__":
    main()
