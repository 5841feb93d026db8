"""Logs made from the programs' format strings, with invented names, for hand-written cases."""

from __future__ import annotations

from firstfault.diagnosis import diagnose
from firstfault.model import verdict as v
from firstfault.model.case import Case, NodeCoverage
from firstfault.model.document import Clock, Document, Excerpt
from firstfault.model.evidence import Coverage

JOB = "500"
# The kernels of these nodes booted 1,000 s before 2026-11-30T10:00:00Z.
BOOTED_AT_S = 1_796_031_800.0
PEER = (
    "RuntimeError: [/src/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by "
    "peer [10.0.0.7]:4017. This is typically caused by a remote worker crashing."
)
SIGNALS = {-6: "SIGABRT", -9: "SIGKILL", -11: "SIGSEGV", -15: "SIGTERM"}


def document(
    name: str, lines: list[str], host: str | None = None, what: str | None = None
) -> Document:
    """A whole file of lines."""
    data = "".join(f"{line}\n" for line in lines).encode()
    return Document(
        name,
        (Excerpt(0, 1, data),),
        host=host,
        what=what,
        size=len(data),
        clock=Clock(BOOTED_AT_S, 0.001, 0),
    )


def judged(
    *documents: Document, kernel_read: tuple[str, ...] = (), absent: tuple[str, ...] = ()
) -> v.Verdict:
    """The verdict on the documents; ``kernel_read`` are the nodes whose kernel log was read."""
    coverage = tuple(NodeCoverage(node, (Coverage("kernel", "full"),)) for node in kernel_read)
    return diagnose(Case(documents, coverage=coverage, nodes_absent=absent))


def console(*parts: list[str]) -> Document:
    """The job's output."""
    return document("slurm-500.out", [line for part in parts for line in part])


def of_task(task: int, *parts: list[str]) -> list[str]:
    """The lines as srun --label prints them."""
    return [f"{task}: {line}" for part in parts for line in part]


def of_rank(local: int, rank: int | None, lines: list[str]) -> list[str]:
    """The lines as torchrun --tee prints them; with torch's own prefix where ``rank`` is given."""
    own = "" if rank is None else f"[rank{rank}]: "
    return [f"[default{local}]:{own}{line}" for line in lines]


def raised(error: str, line: int = 31) -> list[str]:
    """A traceback of the program's own."""
    return [
        "Traceback (most recent call last):",
        f'  File "/home/eve/run/loop.py", line {line}, in step',
        "    advance(batch)",
        error,
    ]


# Ordinary lines of a rank at work.
WORK = [f"step {number} loss 0.{number}" for number in range(10, 50)]


def hooked(rank: int, lines: list[str]) -> list[str]:
    """The lines with torch's own prefix alone."""
    return [f"[rank{rank}]: {line}" for line in lines]


def hosted(lines: list[str], host: str) -> list[str]:
    """A table that names its host."""
    return [line.replace("localhost", host) for line in lines]


def agent_raised(error: str) -> list[str]:
    """A traceback of torchrun's own."""
    return [
        "Traceback (most recent call last):",
        '  File "/opt/venv/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 374, in f',
        "    result = agent.run()",
        error,
    ]


def error_json(error: str, at_s: int) -> list[str]:
    """torchrun's record of an exception."""
    return [
        f'{{"message": {{"message": "{error}", "extraInfo": {{"py_callstack": "Traceback (most '
        f'recent call last):\\n  File \\"/home/eve/run/loop.py\\", line 3, in f\\n{error}\\n", '
        f'"timestamp": "{at_s}"}}}}}}'
    ]


def noticed(
    local: int, pid: int, code: int, agent: int = 900, clock: str = "10:00:05"
) -> list[str]:
    """An agent's line on its process that failed."""
    return [
        f"E1130 {clock}.000000 {agent} torch/distributed/elastic/multiprocessing/api.py:1002] failed "
        f"(exitcode: {code}) local_rank: {local} (pid: {pid}) of binary: /opt/venv/bin/python3"
    ]


def closed(pid: int, agent: int = 900, clock: str = "10:00:04") -> list[str]:
    """An agent's SIGTERM to a process."""
    return [
        f"W1130 {clock}.000000 {agent} torch/distributed/elastic/multiprocessing/api.py:1028] "
        f"Sending process {pid} closing signal SIGTERM"
    ]


def forced(pid: int, agent: int = 900, clock: str = "10:00:34") -> list[str]:
    """An agent's SIGKILL after the grace time."""
    return [
        f"W1130 {clock}.000000 {agent} torch/distributed/elastic/multiprocessing/api.py:1049] Unable "
        f"to shutdown process {pid} via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL"
    ]


def agent_stopped(agent: int = 900, clock: str = "10:00:06") -> list[str]:
    """An agent was told to stop."""
    return [
        f"W1130 {clock}.000000 {agent} torch/distributed/elastic/agent/server/api.py:753] Received "
        "15 death signal, shutting down workers"
    ]


def table(*entries: tuple[int, int, int, int], errors: dict[int, str] | None = None) -> list[str]:
    """A ChildFailedError table of (rank, local rank, exit code, pid); the first is its "root"."""

    def entry(number: int, rank: int, local: int, code: int, pid: int) -> list[str]:
        error = (errors or {}).get(rank)
        signal = f" ({SIGNALS[code]})" if code in SIGNALS else ""
        lines = [
            f"[{number}]:",
            "  time      : 2026-11-30_10:00:05",
            "  host      : localhost",
            f"  rank      : {rank} (local_rank: {local})",
            f"  exitcode  : {code} (pid: {pid}) {signal}",
            "  error_file: <N/A>",
        ]
        if error is None:
            return [*lines, f"  traceback : Signal {-code} received by PID {pid}"]
        return [
            *lines,
            "  traceback : Traceback (most recent call last):",
            '    File "/home/eve/run/loop.py", line 31, in step',
            "      advance(batch)",
            f"  {error}",
            "  ",
        ]

    root, *rest = entries
    others = [line for number, each in enumerate(rest, 1) for line in entry(number, *each)]
    return [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "=" * 60,
        "loop.py FAILED",
        "-" * 60,
        "Failures:",
        *(others or ["  <NO_OTHER_FAILURES>"]),
        "-" * 60,
        "Root Cause (first observed failure):",
        *entry(0, *root),
        "=" * 60,
    ]


def task_ended(host: str, task: int, how: str = "Exited with exit code 1") -> list[str]:
    """srun's note on a task's end."""
    return [f"srun: error: {host}: task {task}: {how}"]


def cancelled(what: str, host: str, why: str = "", clock: str = "10:00:00") -> list[str]:
    """slurmstepd's note on a job's or step's end; ``what`` is "JOB 500" or "STEP 500.0"."""
    return [f"slurmstepd: error: *** {what} ON {host} CANCELLED AT 2026-11-30T{clock}{why} ***"]


LIMIT = " DUE TO TIME LIMIT"
NODE_FAILURE = " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"


def killed(
    pid: int,
    *,
    job: str = JOB,
    uid: int = 1001,
    at_s: int = 1000,
    command: str = "python3",
    prefix: int = 3,
) -> list[str]:
    """The kernel's lines on an OOM kill in a job's cgroup, as /dev/kmsg gives them."""
    path = f"/slurm/uid_{uid}/job_{job}"
    return [
        f"{prefix},{at_s},{at_s}000000,-;{command} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), "
        "order=0, oom_score_adj=0",
        f"{prefix},{at_s + 1},{at_s}000010,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),"
        f"cpuset=/,mems_allowed=0,oom_memcg={path},task_memcg={path}/step_0/task_0,task={command},"
        f"pid={pid},uid={uid}",
        f"{prefix},{at_s + 2},{at_s}000020,-;Memory cgroup out of memory: Killed process {pid} "
        f"({command}) total-vm:9000kB, anon-rss:8000kB, file-rss:10kB, shmem-rss:0kB, UID:{uid} "
        "pgtables:20kB oom_score_adj:0",
    ]


def kernel_log(host: str | None, *parts: list[str]) -> Document:
    """A node's kernel log."""
    name = f"{host or 'some'}/kmsg.txt"
    return document(name, [line for part in parts for line in part], host=host, what="kernel")


def accounting(
    state: str, code: str = "1:0", *, nodes: str = "c[1-2]", step: str | None = None
) -> Document:
    """sacct's answer for the job."""
    own = step or ("FAILED" if code != "0:0" else "COMPLETED")
    return document(
        "sacct.txt",
        [
            "JobID|JobName|User|Partition|State|ExitCode|DerivedExitCode|NodeList|Start|End|Elapsed"
            "|Timelimit|MaxRSS|ReqMem|Reason|WorkDir",
            f"{JOB}|loop|eve|main|{state}|{code}|{code}|{nodes}|2026-11-30T09:00:00"
            "|2026-11-30T10:00:10|01:00:10|01:00:00||8000M|None|/home/eve/run",
            f"{JOB}.0|torchrun|||{own}|{code}||{nodes}|2026-11-30T09:00:00|2026-11-30T10:00:10"
            "|01:00:10||1K|||",
        ],
    )


def sure_cause(verdict: v.Verdict) -> str | None:
    """The cause that the verdict is sure of, if it is."""
    return verdict.cause.id if verdict.cause.confidence == v.CONFIRMED else None


def sure_rank(verdict: v.Verdict) -> int | None:
    """The rank that the verdict is sure of, if it is."""
    return verdict.initiator.rank if verdict.initiator.confidence == v.CONFIRMED else None
