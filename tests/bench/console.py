"""A huge console of many ranks, whose lines stand interleaved, with one fault somewhere in it.

    python -m tests.bench.console FILE [--mib 1024] [--ranks 64] [--at 0.5] [--alarms 5000]

The lines are built from the formats of torch, NCCL, tqdm and Slurm, with invented values.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_BLOCK = 8 << 20
_FAULTY = 37


def write(
    target: BinaryIO, size: int, *, ranks: int = 64, at: float = 0.5, alarms: int = 5_000
) -> None:
    """Writes about ``size`` bytes: rank 37 fails after the share ``at`` of them.

    ``alarms`` lines that look bad and are not stand before the fault, and as many after it.
    """
    numbers = random.Random(7)
    blocks = [_quiet(numbers, ranks) for _ in range(3)]
    before = int(size * at)
    _fill(target, before, blocks, list(_alarms(numbers, ranks, alarms)))
    target.write("".join(_fault(ranks)).encode())
    late = [each for each in _alarms(numbers, ranks, alarms) if not each.startswith(f"{_FAULTY}:")]
    _fill(target, size - before, blocks, late)
    target.write("".join(_end(ranks)).encode())


def _fill(target: BinaryIO, size: int, blocks: list[bytes], alarms: list[str]) -> None:
    count = max(1, size // _BLOCK)
    share = len(alarms) // count + 1
    written = 0
    for n in range(count + 1):
        piece = "".join(alarms[n * share : (n + 1) * share]).encode()
        block = blocks[n % len(blocks)][: max(0, size - written - len(piece))]
        target.write(block[: block.rfind(b"\n") + 1] + piece)
        written += len(block) + len(piece)


def label(rank: int) -> str:
    return f"{rank}: [rank{rank}]: " if rank % 2 else f"{rank}: [default{rank % 8}]:"


def _quiet(numbers: random.Random, ranks: int) -> bytes:
    lines: list[str] = []
    size = 0
    step = 0
    while size < _BLOCK:
        step += 1
        for rank in range(ranks):
            line = label(rank) + numbers.choice(_ORDINARY)(numbers, step) + "\n"
            lines.append(line)
            size += len(line)
    return "".join(lines).encode()[:_BLOCK]


_ORDINARY = [
    lambda r, n: f"step {n} | loss {r.random():.4f} | grad_norm {r.random():.3f} | lr 3.00e-04 | tokens/s {r.randint(9000, 9999)}",
    lambda r, n: f"INFO:trainer:epoch 3 iter {n}: val_error: {r.random():.3f} mse_error={r.random():.4f}",
    lambda r, n: f"node{r.randint(1, 8)}:{r.randint(1000, 9999)}:{r.randint(1000, 9999)} [{r.randint(0, 7)}] NCCL INFO Channel {r.randint(0, 31):02d}/32 : {r.randint(0, 63)}[0] -> {r.randint(0, 63)}[0] via P2P/CUMEM",
    lambda r, n: f"Epoch 3:  {n % 100}%|####      | {n}/4200 [00:12<00:17, {r.random() * 40:.1f}it/s, loss={r.random():.3f}]",
    lambda r, n: f"[2026-11-30 15:{n % 60:02d}:27,101] [INFO] [logging.py:96:log_dist] [Rank 0] step={n}, skipped=0, lr=[0.0003], mom=[(0.9, 0.95)]",
]  # fmt: skip


# Warnings and retries that a job lives with.
def _alarms(numbers: random.Random, ranks: int, count: int) -> Iterator[str]:
    for n in range(count):
        who = label(numbers.randrange(ranks))
        if n % 3:
            yield f"{who}WARNING:data:retry {n} after Error: shard {numbers.randint(1, 9999)} is slow\n"
        else:
            yield (
                f"{who}Traceback (most recent call last):\n"
                f'{who}  File "/app/data.py", line 88, in fetch\n'
                f"{who}    return self.client.get(key)\n"
                f"{who}TimeoutError: no answer for shard {numbers.randint(1, 9999)}\n"
                f"{who}step {n} | loss 0.5 | after a retry\n"
            )


def _fault(ranks: int) -> Iterator[str]:
    who = f"{_FAULTY}: [rank{_FAULTY}]: "
    stack = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 412, in <module>',
        "    main()",
        '  File "/app/train.py", line 390, in main',
        "    loss = model(batch)",
        "ValueError: expected 4 features, got 5",
    ]
    numbers = random.Random(9)
    for line in stack:
        yield f"{who}{line}\n"
        for rank in range(ranks):
            if rank != _FAULTY:
                yield label(rank) + _ORDINARY[0](numbers, 9_000) + "\n"


def _end(ranks: int) -> Iterator[str]:
    for rank in range(ranks):
        if rank != _FAULTY:
            who = label(rank)
            yield f"{who}Traceback (most recent call last):\n"
            yield f'{who}  File "/app/train.py", line 402, in <module>\n'
            yield f"{who}    loss.backward()\n"
            yield (
                f"{who}RuntimeError: [/src/third_party/gloo/gloo/transport/tcp/pair.cc:553] "
                "Connection closed by peer [10.0.0.5]:4017\n"
            )
    yield f"srun: error: node5: task {_FAULTY}: Exited with exit code 1\n"
    yield "srun: Terminating StepId=12.0\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--at", type=float, default=0.5)
    parser.add_argument("--alarms", type=int, default=5_000)
    given = parser.parse_args()
    with given.file.open("wb") as target:
        write(target, given.mib << 20, ranks=given.ranks, at=given.at, alarms=given.alarms)


if __name__ == "__main__":
    main()
