"""How the launcher that ran the job keeps each rank's words, and where else they are.

Options as in torch 1.9 to 2.13 (torch/distributed/run.py: 2.0 takes a dash where 1.x takes only an
underscore), accelerate 1.x (commands/launch.py), DeepSpeed 0.10 to 0.17 (launcher/runner.py), Open MPI
4 and 5 (mpirun, prterun), MPICH 4 (mpiexec, Hydra), Horovod 0.28, Ray 2.x, Slurm 22.05 and
Kubernetes 1.20 or later.
"""

from __future__ import annotations

import re

from firstfault.model.event import (
    AgentSignalled,
    Cancelled,
    ClosingSignal,
    ExitNoticed,
    LaunchBegan,
    LauncherEnd,
    NodeFailure,
    OomNoticed,
    PodEnd,
    SlurmNote,
    StepEnded,
    TableEntry,
    TaskEnd,
    Traceback,
    WorkersStarted,
)
from firstfault.model.run import Run, Told

_AGENTS = (ExitNoticed, TableEntry, ClosingSignal, AgentSignalled, WorkersStarted)
# The head of an agent's lines in torch 1.9 to 2.0.
_OLD_AGENT = re.compile(r"\b(?:ERROR|WARNING|INFO):torch\.distributed\.elastic\.")
_RECORD = "and @record on the program's main function"
_KEPT = {
    "torchrun": f"torchrun --log-dir DIR --redirects 3 --tee 3 (or PET_LOG_DIR and PET_TEE=3), {_RECORD}.",
    "old torchrun": f"torchrun --log_dir DIR --redirects 3 --tee 3 (or PET_LOG_DIR and PET_TEE=3), {_RECORD}.",
    "accelerate": f"accelerate launch --log_dir DIR --tee 3, {_RECORD}.",
    "srun": "srun --output=DIR/%j-%t.log (a file for each task), or srun --label.",
    "spawn": "torch.multiprocessing.spawn mixes the ranks' output: let each rank log to a file of its "
    "own, or start them with torchrun --log-dir DIR --tee 3.",
    "lightning": "Start the processes with torchrun --log-dir DIR --tee 3, or with srun and a file for "
    "each task (Lightning takes both as they are): its own launcher keeps no rank's output apart.",
    "deepspeed": "deepspeed --enable_each_rank_log DIR.",
    "horovod": "horovodrun --output-filename DIR.",
    "mpirun": "mpirun --output-filename DIR (Open MPI 5: --output dir=DIR), or --tag-output.",
    "mpiexec": "mpiexec -outfile-pattern DIR/%r.out -errfile-pattern DIR/%r.err.",
    "ray": "The workers' own files, /tmp/ray/session_latest/logs/worker-* on each node.",
    "kubernetes": "kubectl logs --previous POD for each pod of the job, before the pods are deleted.",
    "": "A file of its own for each rank's output: torchrun --log-dir DIR --tee 3, srun "
    "--output=DIR/%j-%t.log, or what the launcher has for it.",
}  # fmt: skip
_ALIKE = {
    "orterun": "mpirun", "prterun": "mpirun", "prun": "mpirun", "oshrun": "mpirun",
    "MPI_Abort": "mpirun", "torch.distributed.launch": "old torchrun",
}  # fmt: skip

# Launchers that stand in their ranks' or their own tracebacks.
_FRAMES = (
    ("accelerate/commands/launch.py", "accelerate"),
    ("strategies/launchers/subprocess_script.py", "lightning"),
    ("torch/multiprocessing/spawn.py", "spawn"),
)


def launcher(run: Run) -> str:
    """What started the ranks, as far as its words are in the evidence: a key of the table, or ""."""
    events = [each.event for each in run.happened]
    if any(isinstance(event, PodEnd) for event in events):
        return "kubernetes"
    named = [
        event.launcher
        for event in events
        if isinstance(event, LauncherEnd | LaunchBegan) and event.launcher != "torchrun"
    ]
    if named:
        name = _ALIKE.get(named[0], named[0])
        return name if name in _KEPT else ""
    framed = [_by_frames(event) for event in events if isinstance(event, Traceback)]
    if any(framed):
        return next(filter(None, framed))
    agents = [event for event in events if isinstance(event, _AGENTS)]
    if agents:
        old = any(_OLD_AGENT.search(event.place.text) for event in agents)
        return "old torchrun" if old else "torchrun"
    if any(isinstance(event, Traceback) and event.spawned is not None for event in events):
        return "spawn"
    if any(isinstance(event, TaskEnd) for event in events):
        return "srun"
    return "torchrun" if any(isinstance(event, LaunchBegan) for event in events) else ""


def kept(name: str, pods: tuple[str, ...] = ()) -> str:
    """How the launcher of that name keeps each rank's words; ``pods`` are those that are known."""
    text = _KEPT[name]
    if name == "kubernetes" and len(pods) == 1:
        return text.replace("POD for each pod of the job, before the pods are deleted", pods[0])
    return text


def pods(run: Run) -> tuple[str, ...]:
    """The names of the pods that Kubernetes speaks of."""
    found = {e.event.pod for e in run.happened if isinstance(e.event, PodEnd) and e.event.pod}
    return tuple(sorted(found))


def is_slurms(told: Told, run: Run | None) -> bool:
    """Whether the job ran under Slurm, by its words or its accounting."""
    spoken = (Cancelled, NodeFailure, OomNoticed, SlurmNote, StepEnded, TaskEnd)
    words = run is not None and any(isinstance(each.event, spoken) for each in run.happened)
    return told.facts is not None or bool(told.jobs) or words


def _by_frames(event: Traceback) -> str:
    files = [frame.file for frame in event.frames]
    return next((name for part, name in _FRAMES if any(part in file for file in files)), "")
