"""Example verdicts, one of each kind, built by hand."""

from __future__ import annotations

import datetime as dt

from firstfault.model import verdict as v


def at(clock: str) -> dt.datetime:
    return dt.datetime.fromisoformat(f"2026-11-30T{clock}+00:00")


JOB = v.Job(
    cluster="main", id="4242", name="train-7b", user="alice", state="FAILED", nodes=4, ranks=8
)
KERNEL = v.Evidence(
    role="cause",
    source="kernel log",
    host="n4",
    file="n4/kmsg.txt",
    line=86,
    offset=6211,
    text=(
        "6,604,1629473011,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,"
        "mems_allowed=0,oom_memcg=/slurm_n4/uid_1001/job_4242,"
        "task_memcg=/slurm_n4/uid_1001/job_4242/step_0/task_0,task=python3,pid=11744,uid=1001"
    ),
)
KILLED = v.Evidence(
    role="cause",
    source="kernel log",
    host="n4",
    file="n4/kmsg.txt",
    line=87,
    offset=6433,
    text=(
        "3,605,1629473051,-;Memory cgroup out of memory: Killed process 11744 (python3) "
        "total-vm:2465072kB, anon-rss:1719048kB, file-rss:83912kB, shmem-rss:0kB, UID:1001"
    ),
)
AGENT = v.Evidence(
    role="cause",
    source="job output",
    host="n4",
    file="slurm.out",
    line=41,
    offset=3900,
    text=(
        "3: E1130 15:56:26.041000 11677 torch/distributed/elastic/multiprocessing/api.py:1002] "
        "failed (exitcode: -9) local_rank: 1 (pid: 11744) of binary: /opt/venv/bin/python3"
    ),
)
PEER = v.Evidence(
    role="consequence",
    source="job output",
    host="n3",
    file="slurm.out",
    line=29,
    offset=2210,
    text=(
        "2: [default1]:[rank3]: RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/"
        "transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:4017."
    ),
)

CGROUP_OOM = v.Verdict(
    job=JOB,
    cause=v.Cause(
        "memory.cgroup-oom",
        "Rank 5 on n4 was killed by the kernel: the job's memory limit (2,000 MiB) was full",
        "user",
        v.CONFIRMED,
    ),
    initiator=v.Initiator(
        rank=5,
        local_rank=1,
        host="n4",
        pid=11744,
        step="0",
        task=3,
        attempt=0,
        earliest=at("15:56:25.422961"),
        latest=at("15:56:25.423001"),
        confidence=v.CONFIRMED,
    ),
    evidence=(KERNEL, KILLED, AGENT),
    chain=(
        v.ChainLink(
            at("15:56:25.422961"),
            at("15:56:25.423001"),
            "n4",
            5,
            "the kernel killed process 11744: memory limit of the job's cgroup",
            "cause",
            0,
        ),
        v.ChainLink(
            at("15:56:25.805"), at("15:56:25.805"), "n4", 4, "the agent sent SIGTERM", "consequence"
        ),
        v.ChainLink(None, at("15:56:26"), "n3", 3, "lost its connection to a peer", "consequence"),
        v.ChainLink(
            at("15:56:26.041"),
            at("15:56:26.041"),
            "n4",
            5,
            "the agent saw the process gone (signal 9)",
            "consequence",
            2,
        ),
    ),
    consequences=(
        v.Consequence("ranks that lost a peer", 6, "0-3,6-7", PEER),
        v.Consequence("ranks that their agent terminated", 1, "4", None),
    ),
    remedy=v.Remedy(
        do=(
            "Ask for more memory: raise --mem (or --mem-per-cpu), or use fewer ranks on a node.",
            "Or use less: fewer DataLoader workers (num_workers), a lower prefetch_factor.",
        ),
        commands=("sacct -j 4242 --format=JobID,JobName,ReqMem,MaxRSS,MaxRSSNode,MaxRSSTask -P",),
        verify=("MaxRSS of the next run stays below ReqMem.",),
        prevent=("Log the resident memory of each rank once per epoch.",),
    ),
    runs=(v.RunOutcome("0", 0, "failed"),),
    fingerprint="1:3f2a9c0d11aa",
    coverage=(v.CoverageRow("n[1-4]", "0-7", "full", "full"),),
    surroundings=(
        v.Surroundings(
            2,
            ("1: step 811 loss 2.31", "3: [default1]:[rank5]: loading shard 12", ""),
            ("0: [default0]:[rank0]: Connection closed by peer [127.0.0.1]:4017.",),
        ),
    ),
)

SEGFAULT = v.Verdict(
    job=JOB,
    cause=v.Cause(
        "process.segfault", "Rank 2 on n2 crashed (SIGSEGV) in libtorch_cpu.so", "either", v.LIKELY
    ),
    initiator=v.Initiator(
        rank=2, local_rank=0, host="n2", pid=20284, step="0", confidence="likely"
    ),
    evidence=(
        v.Evidence(
            "cause",
            "kernel log",
            "n2",
            "n2/kmsg.txt",
            12,
            900,
            "6,700,1700000000,-;python3[20284]: segfault at 0 ip 00007f1 sp 00007ffd error 4 in "
            "libtorch_cpu.so[7f1000+2000]",
        ),
    ),
    consequences=(v.Consequence("ranks that lost a peer", 7, "0-1,3-7", PEER),),
    remedy=v.Remedy(do=("Run again with faulthandler: export PYTHONFAULTHANDLER=1.",)),
    runs=(v.RunOutcome("0", 0, "failed"),),
)

EXCEPTION = v.Verdict(
    job=JOB,
    cause=v.Cause(
        "python.exception", "ValueError on rank 3: batch 17 is empty", "user", v.CONFIRMED
    ),
    initiator=v.Initiator(
        rank=3,
        local_rank=1,
        host="n2",
        pid=3141,
        step="0",
        attempt=0,
        latest=at("15:36:03"),
        confidence=v.CONFIRMED,
    ),
    exception=v.ExceptionFacts("ValueError", "batch 17 is empty", "/home/alice/train.py", 44),
    evidence=(
        v.Evidence(
            "cause",
            "rank log",
            "n2",
            "ranks/r_1/attempt_0/1/stderr.log",
            9,
            400,
            "ValueError: batch 17 is empty",
        ),
    ),
    remedy=v.Remedy(do=("Fix the code at /home/alice/train.py line 44.",)),
)

EXCEPTION_ON_ALL = v.Verdict(
    job=JOB,
    cause=v.Cause("python.exception", "KeyError on all 8 ranks: 'optimizer'", "user", v.CONFIRMED),
    initiator=v.Initiator(
        rank=0,
        local_rank=0,
        host="n1",
        confidence=v.LIKELY,
        also=tuple(v.Member(rank, f"n{rank // 2 + 1}") for rank in range(1, 8)),
    ),
    exception=v.ExceptionFacts("KeyError", "'optimizer'", "/home/alice/train.py", 12),
    evidence=(
        v.Evidence("cause", "job output", "n1", "slurm.out", 7, 300, "KeyError: 'optimizer'"),
    ),
)

TIME_LIMIT = v.Verdict(
    job=v.Job(id="77", name="long", user="bob", state="TIMEOUT", nodes=2, ranks=4),
    cause=v.Cause("slurm.time-limit", "Slurm ended the job at its time limit", "user", "confirmed"),
    evidence=(
        v.Evidence(
            "cause",
            "job output",
            None,
            "slurm-77.out",
            90,
            8000,
            "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-11-30T15:36:03 "
            "DUE TO TIME LIMIT ***",
        ),
    ),
    notes=("The last step was printed 3 s before the end: the job was making progress.",),
)

CANCELLED = v.Verdict(
    job=v.Job(id="78", user="bob", state="CANCELLED by 1002", nodes=2, ranks=4),
    cause=v.Cause("slurm.cancelled", "Cancelled by its owner (uid 1002)", "user", "confirmed"),
    evidence=(
        v.Evidence("cause", "sacct", None, "sacct.txt", 2, 110, "78|j|bob|main|CANCELLED by 1002"),
    ),
)

NODE_FAIL = v.Verdict(
    job=v.Job(id="79", user="bob", state="NODE_FAIL", nodes=4, ranks=8),
    cause=v.Cause("slurm.node-fail", "Node n3 stopped answering", "system", "confirmed"),
    initiator=v.Initiator(host="n3", confidence="confirmed"),
    evidence=(
        v.Evidence(
            "cause",
            "job output",
            None,
            "slurm-79.out",
            30,
            2800,
            "srun: error: Node failure on n3",
        ),
    ),
    missing=(
        v.Missing(
            "kernel log of n3",
            "It would tell whether the node crashed or lost its network.",
            "Once n3 is up again: ssh n3 journalctl -k -b -1",
        ),
    ),
    coverage=(
        v.CoverageRow("n[1-2,4]", "0-3,6-7", "full", "full"),
        v.CoverageRow("n3", "4-5", "none", "partial", "no record came from this node"),
    ),
)

KILLED_UNKNOWN_SENDER = v.Verdict(
    job=JOB,
    cause=v.Cause("process.killed", "Rank 6 on n4 was killed (SIGKILL)", "either", v.POSSIBLE),
    initiator=v.Initiator(rank=6, local_rank=0, host="n4", pid=555, confidence=v.LIKELY),
    alternatives=(
        v.Alternative("memory.cgroup-oom", "possible", "No kernel line was read that says so."),
        v.Alternative("slurm.cancelled", "possible", "Slurm's state is FAILED, not CANCELLED."),
    ),
    evidence=(
        v.Evidence("cause", "job output", "n4", "slurm.out", 5, 1, "exitcode  : -9 (pid: 555)"),
    ),
    missing=(
        v.Missing(
            "kernel log of n4",
            "An out-of-memory kill stands there and nowhere else.",
            "ssh n4 journalctl -k --since '2026-11-30 15:50'",
        ),
    ),
    unexplained=(
        v.Evidence("unexplained", "job output", "n1", "slurm.out", 3, 0, "WARN: disk is slow"),
    ),
    coverage=(v.CoverageRow("n[1-4]", "0-7", "none", "full", "permission denied: dmesg"),),
)

UNKNOWN = v.Verdict(
    job=v.Job(id="80"),
    cause=v.Cause("unknown", "The evidence does not tell why the job failed", "either", "unknown"),
    initiator=v.Initiator(candidates=(v.Member(3, "n2"), v.Member(4, "n3"))),
    missing=(
        v.Missing(
            "logs of ranks 2-7",
            "Only two ranks were read; the first failure may be on any other.",
            "Run with torchrun --log-dir DIR --redirects 3 and give firstfault that folder.",
        ),
    ),
)

NONE = v.Verdict(
    job=v.Job(id="81", user="bob", state="COMPLETED", nodes=2, ranks=4),
    cause=v.Cause("none", "No failure: the second attempt succeeded", "user", "confirmed"),
    runs=(v.RunOutcome("0", 0, "recovered"), v.RunOutcome("0", 1, "succeeded")),
    notes=("Attempt 0 failed on rank 1 (n1) with exit code 3.",),
)

EVIL = (
    "<script>document.title='pwned';alert(1)</script> <img src=x onerror=document.title='pwned'> "
    "*bold* _it_ ~no~ <!channel> <@U123> <!here> <https://evil.example|click> &amp; &lt;b&gt; "
    "`code` ```block``` \u202e\u2066\u200b \x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2J \x00 a\nb\r\nc "
    "{{ 7*7 }} {% raw %} '\"</style></title></details>--> javascript:alert(1) \ud800 "
)


def hostile() -> v.Verdict:
    """Every string comes from an attacker, and some are very long."""
    line = v.Evidence(EVIL, EVIL, EVIL, EVIL, 5, 1, EVIL + "A" * 70_000)
    member = v.Member(1, EVIL)
    time = at("00:00:01")
    return v.Verdict(
        job=v.Job(EVIL, EVIL, EVIL, EVIL, EVIL, EVIL, 4, 8),
        cause=v.Cause(EVIL, EVIL * 20, EVIL, EVIL),
        initiator=v.Initiator(
            rank=5, host=EVIL, gpu=EVIL, step=EVIL, confidence=EVIL, also=(member,) * 9,
            candidates=(member,),
        ),
        exception=v.ExceptionFacts(EVIL, EVIL * 50, EVIL, 3),
        alternatives=(v.Alternative(EVIL, EVIL, EVIL),) * 3,
        evidence=(line,) * 3,
        chain=(v.ChainLink(time, time, EVIL, 1, EVIL, EVIL, 0),) * 3,
        consequences=(v.Consequence(EVIL, 3, EVIL, line),) * 2,
        unexplained=(line,),
        missing=(v.Missing(EVIL, EVIL, EVIL),) * 2,
        remedy=v.Remedy((EVIL,) * 5, (EVIL,) * 5, (EVIL,), (EVIL,)),
        runs=(v.RunOutcome(EVIL, 0, EVIL),),
        fingerprint=EVIL,
        coverage=(v.CoverageRow(EVIL, EVIL, EVIL, EVIL, EVIL),),
        notes=(EVIL,) * 2,
        surroundings=tuple(v.Surroundings(k, (EVIL,) * 9, (EVIL,) * 9) for k in (-1, 0, 0, 7)),
    )  # fmt: skip


def huge() -> v.Verdict:
    """More of everything than a report can show."""
    line = v.Evidence("cause", "job output", "n1", "slurm.out", 1, 0, "<" * 100_000)
    many = 5_000
    return v.Verdict(
        job=JOB,
        cause=v.Cause("python.exception", "RuntimeError on 5,000 ranks", "user", "likely"),
        initiator=v.Initiator(
            rank=0, host="n0", also=tuple(v.Member(k, f"n{k // 8}") for k in range(1, many))
        ),
        alternatives=(v.Alternative("process.killed", "possible", "no " * 2000),) * many,
        evidence=(line,) * many,
        chain=(v.ChainLink(None, None, "n1", 1, "ended " * 1000, "consequence"),) * many,
        consequences=(v.Consequence("ranks that lost a peer", 9, "0-8", line),) * many,
        unexplained=(line,) * many,
        missing=(v.Missing("log " * 1000, "why", "how"),) * many,
        remedy=v.Remedy(("do " * 1000,) * many, ("true " * 1000,) * many),
        runs=(v.RunOutcome("0", 0, "failed"),) * many,
        coverage=(v.CoverageRow("n1", "0-7", "full", "full"),) * many,
        notes=("note",) * many,
        surroundings=(v.Surroundings(1, ("before" * 9,) * many, ("after",) * many),) * many,
    )


def worst() -> v.Verdict:
    """Everything as long as can be, of characters that HTML spells out."""
    evil, many = "<&\"'>" * 2_000, 300
    line = v.Evidence(evil, evil, evil, evil, 5, 1, evil)
    members = tuple(v.Member(rank, f"{rank}{evil}") for rank in range(many))
    return v.Verdict(
        job=v.Job(evil, evil, evil, evil, evil, evil, 4, 8),
        cause=v.Cause(evil, evil, evil, evil),
        initiator=v.Initiator(
            rank=5, host=evil, gpu=evil, step=evil, confidence=evil, also=members,
            candidates=members,
        ),
        exception=v.ExceptionFacts(evil, evil, evil, 3),
        alternatives=(v.Alternative(evil, evil, evil),) * many,
        evidence=(line,) * many,
        chain=(v.ChainLink(None, None, evil, 1, evil, evil, 0),) * many,
        consequences=(v.Consequence(evil, 3, evil, line),) * many,
        unexplained=(line,) * many,
        missing=(v.Missing(evil, evil, evil),) * many,
        remedy=v.Remedy((evil,) * many, ("<" * 1000,) * many, (evil,) * many, (evil,) * many),
        runs=(v.RunOutcome(evil, 0, evil),) * many,
        fingerprint=evil,
        coverage=(v.CoverageRow(evil, evil, evil, evil, evil),) * many,
        notes=(evil,) * many,
        surroundings=tuple(v.Surroundings(k, (evil,) * many, (evil,) * many) for k in range(many)),
    )  # fmt: skip


EXAMPLES = {
    "cgroup oom": CGROUP_OOM,
    "segfault": SEGFAULT,
    "exception": EXCEPTION,
    "exception on all ranks": EXCEPTION_ON_ALL,
    "time limit": TIME_LIMIT,
    "cancelled": CANCELLED,
    "node fail": NODE_FAIL,
    "killed, sender unknown": KILLED_UNKNOWN_SENDER,
    "unknown": UNKNOWN,
    "none": NONE,
}
