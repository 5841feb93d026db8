"""The jobs that were run under Slurm and what is true of each."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.diagnosis.recording.scenarios.versions import T20, T24, T27, T113, T213, fault

RAN_LONG = {"STEPS": "3000"}
TORCHRUN = """#!/bin/bash
srun {options} VENV/bin/torchrun --nnodes=$SLURM_NNODES --nproc_per_node=2 \\
  --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:$PORT --rdzv_id=$SLURM_JOB_ID {more} train.py
"""
TASKS = """#!/bin/bash
srun {options} VENV/bin/python train.py
"""
ALL = ("sacct", "epilog")


@dataclass(frozen=True)
class Job:
    """One job with its fault, and what is true of it; VENV in the script is torch's environment.

    ``act`` is done once all ``ranks`` are at the fault's step. ``keep``, beside the console:
    "sacct", "scontrol", "epilog", "ranks", "kernel" (only the job's own lines unless ``noise``).
    """

    name: str
    torch: str
    kind: str
    cause: tuple[str, ...]
    script: str
    env: dict[str, str] = field(default_factory=dict)
    rank: int | None = None
    host: str | None = None
    also: tuple[int, ...] = ()
    confidence: str | None = "confirmed"
    key: str | None = None
    teaches: str = ""
    options: tuple[str, ...] = ("--nodes=2", "--ntasks-per-node=1")
    ranks: int = 4
    act: str | None = None
    keep: tuple[str, ...] = ("sacct",)
    noise: bool = False


def torchrun(options: str = "--label", more: str = "") -> str:
    """A script that starts an agent on each node."""
    return TORCHRUN.format(options=options, more=more)


def tasks(options: str = "--label") -> str:
    """A script that starts a rank for each task."""
    return TASKS.format(options=options)


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
    Job(
        "s24-interpreter",
        T24,
        "bad interpreter",
        ("slurm.launch",),
        "#!/opt/conda/bin/bash\nsrun VENV/bin/python train.py\n",
        key="interpreter",
        confidence=None,
        teaches="the script's interpreter is not there",
        host="batch",
    ),
    Job(
        "s27-command",
        T27,
        "command not found",
        ("slurm.launch",),
        "#!/bin/bash\nsrun --label torchrunn train.py\n",
        key="torchrunn",
        teaches="srun cannot start what is not there",
    ),
    Job(
        "s113-shell-command",
        T113,
        "command not found by the shell",
        ("slurm.launch",),
        "#!/bin/bash\nmodule load cuda/12.1\ntorchrunn --nproc_per_node=2 train.py\n",
        confidence=None,
        key="torchrunn",
        teaches="bash's own exit code 127",
    ),
    Job(
        "s20-folder",
        T20,
        "missing working directory",
        ("slurm.launch", "storage.missing-file"),
        "#!/bin/bash\nsrun --label --chdir=/home/alice/gone VENV/bin/python train.py\n",
        confidence=None,
        teaches="a step whose folder is not there",
    ),
    Job(
        "s24-layout",
        T24,
        "more tasks than the job has",
        ("slurm.launch",),
        "#!/bin/bash\nsrun --label -n 64 VENV/bin/python train.py\n",
        confidence=None,
        teaches="srun refuses the layout",
    ),
    Job(
        "s24-time-limit",
        T24,
        "time limit",
        ("slurm.time-limit",),
        torchrun(),
        RAN_LONG,
        options=("--nodes=2", "--ntasks-per-node=1", "--time=1"),
        key="DUE TO TIME LIMIT",
        teaches="the time limit under torch 2.4: agents are told to stop",
    ),
    Job(
        "s113-time-limit-tasks",
        T113,
        "time limit",
        ("slurm.time-limit",),
        tasks(""),
        RAN_LONG,
        options=(*PAIR, "--time=1"),
        key="DUE TO TIME LIMIT",
        teaches="the same with ranks as tasks",
    ),
    Job(
        "s27-hang-time-limit",
        T27,
        "a rank hangs until the time limit",
        ("slurm.time-limit", "process.stuck", "collective.timeout"),
        torchrun(),
        fault("hang", 2, TIMEOUT_S="900"),
        options=("--nodes=2", "--ntasks-per-node=1", "--time=1"),
        confidence=None,
        teaches="no progress before the limit",
    ),
    Job(
        "s24-cancelled-owner",
        T24,
        "scancel by the owner",
        ("slurm.cancelled",),
        torchrun(),
        RAN_LONG,
        act="cancel-owner",
        teaches="cancelled by its owner",
    ),
    Job(
        "s20-cancelled-root",
        T20,
        "scancel by root",
        ("slurm.cancelled",),
        tasks(),
        RAN_LONG,
        options=PAIR,
        act="cancel",
        teaches="cancelled by root",
    ),
    Job(
        "s213-preempted",
        T213,
        "preemption",
        ("slurm.preempted",),
        tasks(),
        RAN_LONG,
        options=(*PAIR, "--partition=low"),
        act="preempt",
        teaches="another job needed the nodes",
    ),
    Job(
        "s24-requeued",
        T24,
        "requeue, then success",
        ("none",),
        tasks(),
        {"STEPS": "120"},
        options=(*PAIR, "--requeue", "--open-mode=append"),
        act="requeue",
        confidence=None,
        teaches="the first incarnation was sent back to the queue",
    ),
    Job(
        "s27-node-fail",
        T27,
        "a node dies",
        ("slurm.node-fail",),
        tasks(),
        RAN_LONG,
        host="n2",
        options=PAIR,
        act="kill-node",
        confidence=None,
        teaches="a node dies under tasks that are ranks",
    ),
    Job(
        "s24-stop-iteration",
        T24,
        "exception on all ranks",
        ("python.exception",),
        torchrun(),
        {"STEPS": "1000000"},
        rank=0,
        also=(1, 2, 3),
        key="StopIteration",
        teaches="the data runs out on all ranks at once; StopIteration has no message",
    ),
    Job(
        "s24-agent-killed",
        T24,
        "agent killed",
        ("process.killed",),
        torchrun(),
        RAN_LONG,
        host="n2",
        act="kill-agent",
        confidence=None,
        teaches="srun names the task of a killed agent",
    ),
    Job("s20-success", T20, "success", ("none",), torchrun(), ranks=4, keep=ALL, teaches="success"),
    Job(
        "s113-success-tasks",
        T113,
        "success with alarming words",
        ("none",),
        tasks(),
        fault("caught", "0,2"),
        options=PAIR,
        teaches="a caught traceback, and accounting that says COMPLETED",
    ),
    Job(
        "s213-left-early",
        T213,
        "a rank has less data",
        ("process.left-early",),
        tasks(),
        fault("left-early", 3),
        rank=3,
        host="n2",
        options=PAIR,
        confidence=None,
        teaches="a task that ended with 0 while the others still needed it",
    ),
    Job(
        "s27-disk",
        T27,
        "file system full",
        ("storage.full",),
        torchrun("--label -K1"),
        fault("full-device", 2),
        rank=2,
        confidence=None,
        key="No space left on device",
        teaches="a full device under srun",
    ),
)
