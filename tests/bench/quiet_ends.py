"""What ends that look like success cost a node and the daemon: requests, bytes, processor time.

    python -m tests.bench.quiet_ends [--ends 1000] [--together 10] [--nodes 64]

A node's collector is run after every so many ends of jobs that succeeded (``--together``), with a
stand-in for the daemon that knows each of them to have succeeded. Told are the requests and bytes
(both ways, without TLS) for each end, what one that failed costs beside it, and the collector's
processor time for each end. Compared with sending every end's record, which is what a collector
without questions would do. Single ends are collected twice: by the plain archive, which compiles
its sources at each start, and by the byte code that `install-node` puts beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.collector import ROOT, processor_s
from tests.epilog.node import Node
from tests.epilog.receiver import STORED, Receiver, Reply, Request

CODES = ("SLURM_JOB_EXIT_CODE", "SLURM_JOB_DERIVED_EC")
LINES = 5000


def answered(request: Request) -> Reply:
    """Every end that is asked about is one of a job that succeeded."""
    if request.path != "/v1/wanted":
        return STORED
    rows = json.loads(request.body)["asked"]
    return Reply(200, {"answers": {row["id"]: {"wanted": "no"} for row in rows}})


def sent(request: Request) -> int:
    """Bytes of the request: line, headers and body."""
    headers = sum(len(key) + len(value) + 4 for key, value in request.headers.items())
    return len(request.method) + len(request.path) + 13 + headers + 2 + len(request.body)


def collected_s(node: Node) -> float:
    """Runs the collector; its processor seconds, those of its children with them."""
    process = subprocess.Popen(node.command(), env={})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return processor_s(usage)


def measured(
    node: Node, daemon: Receiver, code: str, ends: int, together: int, nodes: int
) -> float:
    """Prints what ``ends`` ends with this exit code cost; the processor milliseconds of each."""
    daemon.requests.clear()
    busy_s = 0.0
    for number in range(0, ends, together):
        batch = min(together, ends - number)
        for job in range(batch):
            assert (
                node.end_job(
                    SLURM_JOB_ID=str(100_000 + number + job),
                    SLURM_NODELIST=f"n[1-{nodes}]",
                    SLURM_JOB_START_TIME=str(int(time.time()) - 60),
                    SLURM_JOB_STDOUT=f"{node.folder}/slurm.out",
                    **dict.fromkeys(CODES, code),
                )
                == 0
            )
        busy_s += collected_s(node)
    count = len(daemon.requests)
    size = sum(sent(request) for request in daemon.requests)
    print(
        f"{ends} ends with exit code {code}, {together} together: "
        f"{count / ends:.3f} requests, {size / ends:,.0f} bytes and "
        f"{busy_s / ends * 1e3:.1f} ms of processor time for each"
    )
    return busy_s / ends * 1e3


def compiled(pyz: Path) -> Path:
    """The archive of byte code that install-node makes of ``pyz``."""
    argv = [sys.executable, "-I", ROOT / "epilog/compile-pyz", pyz]
    return Path(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip())


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ends", type=int, default=1000)
    parser.add_argument("--together", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=64)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="firstfault-bench-"))
    folder.chmod(0o755)
    pyz = folder / "collector.pyz"
    subprocess.run([ROOT / "epilog/build-pyz", "-o", pyz], check=True, stdout=-3)
    node = Node(folder, pyz, ROOT / "epilog/firstfault-epilog")
    key = folder / "key"
    key.touch(0o400)
    key.write_bytes(os.urandom(32).hex().encode())
    random.seed(1)
    # A job's console and two ranks' logs of 200 KiB: a small job's.
    for name in (
        "slurm.out",
        "ranks/x_1/attempt_0/0/stderr.log",
        "ranks/x_1/attempt_0/1/stderr.log",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = (f"step {n} loss {random.random():.6f} samples/s 71.2\n" for n in range(LINES))
        (folder / name).write_text("".join(text))
    with Receiver() as daemon:
        daemon.answer = answered
        node.configure(
            FIRSTFAULT_DAEMON=daemon.url,
            FIRSTFAULT_KEY_FILE=str(key),
            FIRSTFAULT_PENDING_ASK_S="0",
        )
        measured(node, daemon, "0", arguments.ends, arguments.together, arguments.nodes)
        plain = [
            measured(node, daemon, "0", arguments.ends // 10, 1, nodes)
            for nodes in (arguments.nodes, 1)
        ]
        node.pyz = compiled(pyz)
        coded = [
            measured(node, daemon, "0", arguments.ends // 10, 1, nodes)
            for nodes in (arguments.nodes, 1)
        ]
        print(f"the plain archive over byte code: {sum(plain) / sum(coded):.2f} times")
        node.pyz = pyz
        for path in folder.rglob("*.log"):
            os.utime(path)
        measured(node, daemon, "256", arguments.ends // 10, arguments.together, arguments.nodes)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
