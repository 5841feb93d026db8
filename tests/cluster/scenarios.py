"""What is done to the jobs of the cluster tests, and what firstfault is to say of each."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Scenario:
    """One job and its fault.

    ``environment`` goes to the training program; ``act`` is done from outside once every rank (two
    a node) is at the fault's step: "kill-rank", "cancel", "kill-node". ``rank`` is the global rank
    that fails first, None where no rank does. ``alone`` runs it when all others have ended.
    ``script`` names the batch script in jobs.py. ``small`` is a folder of 1 MiB that is mounted in
    the job's own. ``on_batch_host``: no rank fails, but the node of the batch script is named. ``pushes``: its nodes send their
    records by HTTP, signed by munge; the others write them into the daemon's folder. ``options`` are further ones of sbatch. ``causes``: others that would be right.
    """

    name: str
    cause: str
    nodes: int = 2
    rank: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    act: str | None = None
    label: bool = True
    restarts: int = 0
    time_limit: str = "5"
    job_name: str | None = None
    output: str | None = None
    confidence: str = "confirmed"
    state: str = "FAILED"
    alone: bool = False
    script: str = "elastic"
    small: str | None = None
    on_batch_host: bool = False
    pushes: bool = False


def _fault(what: str, rank: int, **more: str) -> dict[str, str]:
    return {"FAULT": what, "FAULT_RANK": str(rank), **more}


HOSTILE_TEXT = "<script>alert(1)</script> *bold* <!channel>"
_FOR_EVER = "100000"

SCENARIOS = (
    # the time limit takes a minute or more: it goes first
    Scenario(
        "time-limit",
        "slurm.time-limit",
        environment={"STEPS": _FOR_EVER},
        time_limit="1",
        state="TIMEOUT",
        pushes=True,
    ),
    # two minutes: the hang is to be a good part of them, however slowly its ranks start
    Scenario(
        "hang",
        "slurm.time-limit",
        environment=_fault("hang", 3, FAULT_STEP="40", EVERY="1", STEPS=_FOR_EVER),
        time_limit="2",
        state="TIMEOUT",
        pushes=True,
    ),
    Scenario("oom-4n", "memory.cgroup-oom", nodes=4, rank=5, environment=_fault("oom", 5)),
    Scenario("loader-oom", "memory.cgroup-oom", rank=1, environment=_fault("loader-oom", 1)),
    Scenario("segfault", "process.segfault", rank=2, environment=_fault("segfault", 2)),
    Scenario(
        "segfault-plain",
        "process.segfault",
        rank=3,
        environment=_fault("segfault", 3, RECORD="0"),
    ),
    Scenario(
        "abort",
        "process.abort",
        rank=1,
        environment=_fault("abort", 1),
        label=False,
        output="abort.out",
        pushes=True,
    ),
    Scenario(
        "exception-3n",
        "python.exception",
        nodes=3,
        rank=4,
        environment=_fault("exception", 4),
        pushes=True,
    ),
    Scenario("exception-all", "python.exception", rank=0, environment=_fault("exception-all", 0)),
    Scenario(
        "killed",
        "process.killed",
        rank=3,
        environment=_fault("", 3, STEPS=_FOR_EVER),
        act="kill-rank",
    ),
    Scenario(
        "cancelled",
        "slurm.cancelled",
        environment={"STEPS": _FOR_EVER},
        act="cancel",
        state="CANCELLED",
        pushes=True,
    ),
    Scenario(
        "recovered",
        "none",
        # a store that outlives the attempt would hand out the addresses of dead processes
        environment=_fault("exception-once", 1, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1"),
        restarts=1,
        state="COMPLETED",
    ),
    Scenario("success", "none", state="COMPLETED", pushes=True),
    Scenario(
        "hostile-name",
        "python.exception",
        nodes=1,
        rank=1,
        environment=_fault("exception", 1, FAULT_TEXT=HOSTILE_TEXT),
        job_name=HOSTILE_TEXT,
        output="out put-%j.log",
    ),
    Scenario(
        "disk-full", "storage.full", rank=2, environment=_fault("disk-full", 2), small="small"
    ),
    Scenario(
        "shm-full",
        "memory.shm",
        rank=1,
        environment=_fault("shm-full", 1),
        script="small-shm",
    ),
    Scenario("port-in-use", "rendezvous.port-in-use", nodes=1, script="port-in-use"),
    Scenario("node-missing", "rendezvous.timeout", script="node-missing"),
    Scenario("interpreter", "slurm.launch", nodes=1, script="interpreter", on_batch_host=True),
    Scenario("work-folder", "slurm.launch", nodes=1, script="work-folder"),
    Scenario(
        "two-steps",
        "python.exception",
        rank=1,
        environment=_fault("exception", 1),
        script="two-steps",
    ),
    Scenario(
        "card-lost-elsewhere",
        "python.exception",
        rank=2,
        environment=_fault("exception-after-act", 2),
        act="write-xid",
    ),
    Scenario(
        "node-fail",
        "slurm.node-fail",
        environment={"STEPS": _FOR_EVER},
        act="kill-node",
        state="NODE_FAIL",
        alone=True,
    ),
)
