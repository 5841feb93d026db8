"""One job under Slurm: its script, its fault, and what is true of it."""

from __future__ import annotations

from dataclasses import dataclass, field

TORCHRUN = """#!/bin/bash
srun {options} VENV/bin/torchrun --nnodes=$SLURM_NNODES --nproc_per_node=2 \\
  --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:$PORT --rdzv_id=$SLURM_JOB_ID {more} train.py
"""
TASKS = """#!/bin/bash
srun {options} VENV/bin/python train.py
"""


@dataclass(frozen=True)
class Job:
    """One job with its fault, and what is true of it; VENV in the script is torch's environment.

    The host is the one on which ``rank`` really ran, "untold" where the evidence does not tell it;
    "batch" is the batch script's node; ``hosts`` are all, where it happened alike on several. ``act`` is done once all ``ranks`` are at the fault's step. ``keep``, beside the console:
    "sacct", "scontrol", "epilog", "ranks", "kernel" (only the job's own lines unless ``noise``).
    ``hung`` is whether the evidence tells that the job hung before Slurm ended it, None where that
    is not asked.
    """

    name: str
    torch: str
    kind: str
    cause: tuple[str, ...]
    script: str
    env: dict[str, str] = field(default_factory=dict)
    rank: int | None = None
    host: str | None = None
    hosts: tuple[str, ...] = ()
    also: tuple[int, ...] = ()
    confidence: str | None = "confirmed"
    key: str | None = None
    teaches: str = ""
    options: tuple[str, ...] = ("--nodes=2", "--ntasks-per-node=1")
    ranks: int = 4
    act: str | None = None
    keep: tuple[str, ...] = ("sacct",)
    noise: bool = False
    hung: bool | None = None


def torchrun(options: str = "--label", more: str = "") -> str:
    """A script that starts an agent on each node."""
    return TORCHRUN.format(options=options, more=more)


def tasks(options: str = "--label") -> str:
    """A script that starts a rank for each task."""
    return TASKS.format(options=options)
