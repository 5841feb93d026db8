"""Jobs that hung, or seemed to, until Slurm or their owner ended them, and what is true of each."""

from __future__ import annotations

from tests.diagnosis.recording.job import Job
from tests.diagnosis.recording.scenarios.versions import T24, T213

PAIR = ("--nodes=2", "--ntasks-per-node=2")
LIMIT = (*PAIR, "--time=2")
TIME_LIMIT = ("slurm.time-limit",)
STUCK = ("process.stuck",)
TASKS = """#!/bin/bash
srun {options} VENV/bin/python hang_train.py
"""
TORCHRUN = """#!/bin/bash
srun --label VENV/bin/torchrun --nnodes=$SLURM_NNODES --nproc_per_node=2 \\
  --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:$PORT --rdzv_id=$SLURM_JOB_ID \\
  {more} hang_train.py
"""
LABELLED = TASKS.format(options="--label")
# A buffer of 8 KiB is full after more than half a minute.
BUFFERED = {"STAMP": "1", "BUFFERED": "1", "EVERY": "1", "PACE_S": "0.4"}
AGENTS = ("--nodes=2", "--ntasks-per-node=1", "--time=2")
OWN_FILES = TORCHRUN.format(more="--log-dir=ranks/$SLURM_JOB_ID --redirects=3")


def hang(kind: str, rank: str, **more: str) -> dict[str, str]:
    """The environment of a job in which ranks hang."""
    return {"HANG": kind, "HANG_RANK": rank, "STAMP": "1", **more}


HANG_JOBS = (
    Job(
        "h213-limit-stamped",
        T213,
        "a rank sleeps until the time limit; lines bear times",
        TIME_LIMIT,
        LABELLED,
        hang("sleep", "2"),
        options=LIMIT,
        hung=True,
        teaches="the times of the last lines tell since when nothing advanced",
    ),
    Job(
        "h213-limit-stacks",
        T213,
        "a rank waits for a lock; faulthandler dumps stacks",
        STUCK,
        LABELLED,
        hang("lock", "1", STACKS="15"),
        rank=1,
        host="untold",
        options=LIMIT,
        confidence="likely",
        teaches="three stacks stand in a collective, one stands elsewhere",
    ),
    Job(
        "h213-limit-usr1",
        T213,
        "a rank blocks in reading; SIGUSR1 before the limit dumps stacks",
        STUCK,
        LABELLED,
        hang("fifo", "3"),
        rank=3,
        host="untold",
        options=(*LIMIT, "--signal=USR1@60"),
        confidence="likely",
        teaches="--signal=USR1 and faulthandler.register show who does not arrive",
    ),
    Job(
        "h213-cancelled-stopped",
        T213,
        "a rank is stopped (SIGSTOP), the owner cancels after a while",
        ("slurm.cancelled",),
        LABELLED,
        hang("stop", "0"),
        options=PAIR,
        act="wait-cancel-owner",
        hung=True,
        teaches="a cancellation after a long silence",
    ),
    Job(
        "h213-cancelled-py-spy",
        T213,
        "a rank sleeps; py-spy dump, then the owner cancels",
        STUCK,
        LABELLED,
        hang("sleep", "2"),
        rank=2,
        options=PAIR,
        confidence="likely",
        act="py-spy-cancel-owner",
        teaches="dumps of py-spy beside the job's output",
    ),
    Job(
        "h213-limit-healthy",
        T213,
        "healthy until the time limit, with a counter",
        TIME_LIMIT,
        LABELLED,
        {"STAMP": "1"},
        options=LIMIT,
        hung=False,
        teaches="a counter and times tell how much more time it needed",
    ),
    Job(
        "h213-limit-slow",
        T213,
        "a line each 25 s, healthy until the time limit",
        TIME_LIMIT,
        LABELLED,
        {"STAMP": "1", "PACE_S": "5", "EVERY": "5"},
        options=(*PAIR, "--time=3"),
        hung=False,
        teaches="silence no longer than between its other lines is none",
    ),
    Job(
        "h24-limit-rank-zero",
        T24,
        "only rank 0 prints, healthy until the time limit",
        TIME_LIMIT,
        LABELLED,
        {"STAMP": "1", "ONLY_ZERO": "1"},
        options=LIMIT,
        hung=False,
        teaches="ranks that never speak are no ranks that stopped",
    ),
    Job(
        "h213-limit-healthy-files",
        T213,
        "healthy until the time limit; each rank has a file of its own",
        TIME_LIMIT,
        OWN_FILES,
        {"STAMP": "1", "BUFFERED": "1", "EVERY": "1", "PACE_S": "0.15"},
        options=AGENTS,
        keep=("sacct", "ranks", "epilog"),
        hung=False,
        teaches="torchrun starts its ranks with python -u: nothing is held back",
    ),
    Job(
        "h213-limit-buffered",
        T213,
        "output that is not flushed, healthy until the time limit",
        TIME_LIMIT,
        LABELLED,
        BUFFERED,
        options=LIMIT,
        hung=False,
        teaches="streams that end within a line: the end of what they said is lost",
    ),
    Job(
        "h24-limit-buffered-mixed",
        T24,
        "output that is not flushed, without labels, healthy until the time limit",
        TIME_LIMIT,
        TASKS.format(options=""),
        BUFFERED,
        options=LIMIT,
        hung=False,
        teaches="the same in a console of nobody in particular",
    ),
    Job(
        "h213-limit-mixed",
        T213,
        "a rank waits for a lock; a console without labels",
        TIME_LIMIT,
        TASKS.format(options=""),
        hang("lock", "3"),
        options=LIMIT,
        hung=True,
        teaches="without labels the job as a whole is seen to hang",
    ),
    Job(
        "h24-limit-reads",
        T24,
        "a rank reads what never comes; stacks",
        STUCK,
        LABELLED,
        hang("fifo", "1", STACKS="15"),
        rank=1,
        host="untold",
        options=LIMIT,
        confidence="likely",
        teaches="a rank that reads what never comes",
    ),
    Job(
        "h213-limit-saving",
        T213,
        "the last step is done, a checkpoint is being written at the time limit",
        TIME_LIMIT,
        LABELLED,
        {"STAMP": "1", "HANG": "save", "STEPS": "40"},
        options=LIMIT,
        hung=False,
        teaches="all steps were done: what it did at its end it did without a word",
    ),
    Job(
        "h24-limit-all-read",
        T24,
        "all ranks read what never comes; stacks",
        TIME_LIMIT,
        LABELLED,
        hang("sleep", "0,1,2,3", STACKS="15"),
        options=LIMIT,
        hung=True,
        teaches="all stacks stand in the same place: nobody is waited for",
    ),
    Job(
        "h213-limit-behind",
        T213,
        "a rank hangs before it says its step",
        TIME_LIMIT,
        LABELLED,
        hang("sleep", "2", EVERY="1", BEFORE="1"),
        options=LIMIT,
        hung=True,
        teaches="one rank's last step is before that of all others",
    ),
    Job(
        "h24-limit-own-files",
        T24,
        "a rank hangs; each rank has a file of its own",
        TIME_LIMIT,
        OWN_FILES.replace("--log-dir", "--log_dir"),
        hang("sleep", "1"),
        options=AGENTS,
        keep=("sacct", "ranks", "epilog"),
        hung=True,
        teaches="the same in the ranks' own files",
    ),
    Job(
        "h24-limit-unstamped",
        T24,
        "a rank hangs, without times",
        TIME_LIMIT,
        LABELLED,
        {"HANG": "sleep", "HANG_RANK": "1"},
        options=LIMIT,
        hung=False,
        teaches="without times nothing tells whether it hung: it is asked for",
    ),
    Job(
        "h213-preempted",
        T213,
        "a rank hangs, and the job is preempted",
        ("slurm.preempted",),
        LABELLED,
        hang("sleep", "2"),
        options=(*PAIR, "--partition=low"),
        act="wait-preempt",
        hung=True,
        teaches="preempted while it hung: sent back to the queue it may hang again",
    ),
)
