"""The jobs that were run under Slurm and what is true of each: faults of the program."""

from __future__ import annotations

from tests.diagnosis.recording.job import Job, tasks, torchrun
from tests.diagnosis.recording.scenarios.versions import T20, T24, T27, T113, T213, fault

RAN_LONG = {"STEPS": "3000"}
ALL = ("sacct", "epilog")
PAIR = ("--nodes=2", "--ntasks-per-node=2")
STEPS = """#!/bin/bash
srun -N1 -n1 VENV/bin/python -c 'print("shards: 128")'
srun -N1 -n1 VENV/bin/python -c 'import json; json.loads("{")' || echo "no cache, building it anew"
srun --label -K1 VENV/bin/python train.py
"""
PREPARE = """#!/bin/bash
echo "tokenizing"
VENV/bin/python -c 'held = [bytearray(1 << 25) for _ in range(500)]'
srun --label VENV/bin/python train.py
"""

ALONE = """#!/bin/bash
VENV/bin/torchrun --standalone --nproc_per_node=2 train.py
"""

JOBS = (
    Job(
        "s24-tasks-exception",
        T24,
        "exception",
        ("python.exception",),
        tasks(),
        fault("exception", 3),
        rank=3,
        host="n2",
        options=PAIR,
        key="ValueError: expected 4 features, got 5",
        keep=ALL,
        teaches="a task is a rank: no torchrun, so no table; srun names task and node",
    ),
    Job(
        "s113-tasks-segfault",
        T113,
        "segfault",
        ("process.segfault",),
        tasks(""),
        fault("segfault", 2),
        rank=2,
        host="n2",
        options=PAIR,
        key="Segmentation fault",
        teaches="no labels and no torchrun: srun alone names task 2 of n2",
    ),
    Job(
        "s27-tasks-oom",
        T27,
        "cgroup OOM kill",
        ("memory.cgroup-oom",),
        tasks(),
        fault("oom", 1),
        rank=1,
        host="n1",
        options=PAIR,
        keep=("sacct", "epilog", "kernel"),
        noise=True,
        teaches="Slurm's cgroup kills a task that is a rank",
    ),
    Job(
        "s20-tasks-exit",
        T20,
        "sys.exit(3)",
        ("process.exit",),
        tasks("--label -K1"),
        fault("exit", 0),
        rank=0,
        host="n1",
        options=PAIR,
        key="exit code 3",
        teaches="-K1 ends the others: their signals are collateral",
    ),
    Job(
        "s213-tasks-abort",
        T213,
        "os.abort",
        ("process.abort",),
        tasks(),
        fault("abort", 2),
        rank=2,
        host="n2",
        options=PAIR,
        key="Aborted",
        teaches="srun's word for SIGABRT",
    ),
    Job(
        "s24-tasks-import",
        T24,
        "missing module",
        ("python.import",),
        tasks(""),
        fault("import", "0,1,2,3"),
        rank=0,
        host="n1",
        also=(1, 2, 3),
        options=PAIR,
        key="No module named 'flash_attention_kernels'",
        teaches="four equal tracebacks without a label",
    ),
    Job(
        "s24-torchrun-exception",
        T24,
        "exception",
        ("python.exception",),
        torchrun(""),
        fault("exception", 3),
        key="ValueError: expected 4 features, got 5",
        keep=("sacct", "epilog"),
        teaches="no labels; two agents' tables on one console",
        rank=3,
    ),
    Job(
        "s20-torchrun-segfault",
        T20,
        "segfault",
        ("process.segfault",),
        torchrun("--label", "--tee=3 --log_dir=ranks/$SLURM_JOB_ID"),
        fault("segfault", 1),
        keep=("sacct", "ranks"),
        rank=1,
        confidence=None,
        teaches="labels, tee and the ranks' own files",
    ),
    Job(
        "s113-torchrun-oom",
        T113,
        "cgroup OOM kill",
        ("memory.cgroup-oom",),
        torchrun("--label"),
        fault("oom", 2),
        rank=2,
        keep=("sacct", "epilog", "kernel"),
        noise=True,
        confidence=None,
        teaches="an OOM kill under torch 1.13's agents",
    ),
    Job(
        "s27-torchrun-oom-console",
        T27,
        "cgroup OOM kill, no kernel log",
        ("memory.cgroup-oom",),
        torchrun("--label -K1"),
        fault("oom", 0),
        rank=0,
        confidence=None,
        teaches="the kernel log is missing; slurmstepd and sacct know of the kill",
    ),
    Job(
        "s20-batch-oom",
        T20,
        "cgroup OOM kill of the script's own program",
        ("memory.cgroup-oom",),
        PREPARE,
        keep=("sacct", "epilog", "kernel"),
        noise=True,
        confidence=None,
        options=("--nodes=2", "--ntasks-per-node=2", "--mem=700"),
        teaches="the batch script's own program is killed before any rank exists",
        host="batch",
    ),
    Job(
        "s24-steps",
        T24,
        "exception in the third step",
        ("python.exception",),
        STEPS,
        fault("exception", 1),
        rank=1,
        host="n1",
        options=PAIR,
        key="ValueError: expected 4 features, got 5",
        teaches="an earlier step failed and the script went on",
    ),
)
