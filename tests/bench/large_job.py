"""Evidence of one job of very many nodes, as its collectors would send it.

Rank `Job.culprit` raises an exception of its own; every other rank loses its peer. Each node has
eight ranks with their logs and error files; the job's output is read by its first two nodes.
"""

from __future__ import annotations

import gzip
import json
import random
from datetime import datetime, timedelta
from typing import Any, NamedTuple

RANKS = 8
_FRAME = '  File "/home/alice/train.py", line {}, in {}\n    {}\n'
_LIBRARY = "/opt/venv/lib/python3.11/site-packages/torch/distributed"
_LOST = (
    "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection "
    "closed by peer [10.{}.{}.{}]:{}. This is typically caused by a remote worker crashing. Check the "
    "logs of the remote worker before reporting an error. GLHF!"
)
_OWN = "ValueError: sample 48211 of shard 17 has 3 channels, 4 were expected"


class Job(NamedTuple):
    """A record takes about ``kib`` before it is packed; ``noise_kib`` of each is what cannot be
    packed much (in numbers of many digits)."""

    nodes: int
    ended_at: datetime
    job: str = "4242"
    kib: int = 32
    noise_kib: int = 0

    @property
    def culprit(self) -> int:
        return self.nodes * RANKS * 2 // 3

    def node_list(self) -> str:
        return f"n[1-{self.nodes}]"


def body(job: Job, number: int) -> bytes:
    """The record of node ``n<number>`` (from 1), packed as a collector packs it."""
    return gzip.compress(json.dumps(_record(job, number)).encode(), 6, mtime=0)


def _record(job: Job, number: int) -> dict[str, Any]:
    chance = random.Random(number)
    node = f"n{number}"
    files: list[dict[str, Any]] = []
    folder = f"/home/alice/ranks/{node}/{job.job}_{chance.randbytes(4).hex()}/attempt_0"
    for local in range(RANKS):
        rank = (number - 1) * RANKS + local
        stack = _stack(rank == job.culprit, chance)
        prefixed = "".join(f"[rank{rank}]: {line}\n" for line in stack.splitlines())
        steps = "".join(
            f"step {step} loss {chance.random():.6f} grad {chance.random() * 9:.4f}\n"
            for step in range((job.kib * 1024 // RANKS - 2800) // 33)
        )
        steps += "".join(
            f"norms {chance.getrandbits(440):x}\n"
            for _ in range(job.noise_kib * 1024 // RANKS // 117)
        )
        at = job.ended_at - timedelta(seconds=9 if rank == job.culprit else 6)
        said = {"message": stack.splitlines()[-1], "extraInfo": {
            "py_callstack": stack, "timestamp": str(int(at.timestamp()))}}  # fmt: skip
        inode = f"65024:{rank * 3 + 1000}"
        files += [
            _file(f"{folder}/{local}/stderr.log", "rank-log", prefixed, inode),
            _file(f"{folder}/{local}/stdout.log", "rank-log", steps, inode + "1"),
            _file(
                f"{folder}/{local}/error.json",
                "error-json",
                json.dumps({"message": said}),
                inode + "2",
            ),
        ]
    if number <= 2:
        console = f"{number - 1}: [rank{(number - 1) * RANKS}]: {_LOST.format(1, 2, 3, 4)}\n"
        files.append(_file(f"/home/alice/slurm-{job.job}.out", "job-output", console, "65024:1"))
    return {
        "schema": "firstfault.evidence/1",
        "id": f"c1-{job.job}-{node}-{int(job.ended_at.timestamp())}",
        "cluster": "c1",
        "job": job.job,
        "node": node,
        "boot_id": f"{number:08x}-0000-4000-8000-000000000000",
        "ended_at": _stamp(job.ended_at + timedelta(milliseconds=2 * number)),
        "collected_at": _stamp(job.ended_at + timedelta(seconds=3)),
        "environment": {
            "SLURM_JOB_ID": job.job,
            "SLURM_JOB_EXIT_CODE": "256",
            "SLURM_JOB_DERIVED_EC": "256",
            "SLURM_NODELIST": job.node_list(),
            "SLURMD_NODENAME": node,
            "SLURM_JOB_USER": "alice",
            "SLURM_SCRIPT_CONTEXT": "epilog_slurmd",
        },
        "clock": {"wall_at": _stamp(job.ended_at), "kernel_offset_s": 1.7e9, "uncertainty_s": 0.01,
                  "utc_offset_s": 0, "method": "kmsg-marker"},
        "files": files,
        "coverage": [
            {"what": "kernel", "path": "/dev/kmsg", "state": "full"},
            {"what": "rank-log", "path": folder, "state": "full"},
        ],
        "clean": False,
        "notes": [],
    }  # fmt: skip


def _stack(own: bool, chance: random.Random) -> str:
    head = "Traceback (most recent call last):\n" + _FRAME.format(94, "<module>", "train()")
    if own:
        return head + _FRAME.format(61, "batches", "raise ValueError(told)") + _OWN
    lost = _LOST.format(*(chance.randrange(256) for _ in range(3)), chance.randrange(1024, 65536))
    return (
        head
        + _FRAME.format(82, "train", "dist.all_reduce(loss)")
        + f'  File "{_LIBRARY}/c10d_logger.py", line 83, in wrapper\n    return func(*args, **kwargs)\n'
        + f'  File "{_LIBRARY}/distributed_c10d.py", line 3252, in all_reduce\n    work.wait()\n'
        + lost
    )


def _file(name: str, what: str, text: str, inode: str) -> dict[str, Any]:
    return {
        "name": name,
        "what": what,
        "size": len(text.encode()),
        "modified_at": None,
        "inode": inode,
        "shared": None if what == "job-output" else False,
        "complete": True,
        "excerpts": [{"offset": 0, "line": 1, "text": text}],
    }


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
