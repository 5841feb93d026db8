"""Mutations that add strangers' words to a case, or give its own people other names."""

from __future__ import annotations

import random
import re

import msgspec

from firstfault.model.case import Case
from firstfault.model.document import Document, Excerpt
from firstfault.readers.kind import Kind, kind
from tests.diagnosis.damage import (
    Ground,
    Mutant,
    each_edited,
    edited,
    is_accounting,
    is_console,
    with_documents,
)

FOREIGN_KILL = (
    "4,70001,%(at)d,-;python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
    "6,70002,%(at)d,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/slurm/uid_4711/job_777,task_memcg=/slurm/uid_4711/job_777/step_0/task_0,"
    "task=python3,pid=%(pid)d,uid=4711\n"
    "3,70003,%(at)d,-;Memory cgroup out of memory: Killed process %(pid)d (python3) "
    "total-vm:2465072kB, anon-rss:1719048kB, file-rss:83912kB, shmem-rss:0kB, UID:4711 "
    "pgtables:3856kB oom_score_adj:0\n"
)


def foreign_kernel(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Another job was hit by the OOM killer, under a pid that this job had on another host."""
    pids = [
        int(each)
        for document in case.documents
        if is_console(document)
        for excerpt in document.excerpts
        for each in re.findall(rb"\(pid: (\d+)\)", excerpt.data)
    ]
    pid = chance.choice(pids) if pids and chance.random() < 0.7 else 4242
    text = FOREIGN_KILL % {"at": 10**9 + chance.randrange(10**9), "pid": pid}
    host = chance.choice(["elsewhere9", None, *ground.hosts])
    document = Document("other/kmsg.txt", (Excerpt(0, 1, text.encode()),), host=host, what="kernel")
    return with_documents(case, (*case.documents, document))


def foreign_console(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The output of another job lies beside the evidence of one that accounting or a node names."""
    if not any(is_accounting(d) or kind(d) is Kind.EPILOG for d in case.documents):
        return case
    lines = [
        "0: [default0]:[rank0]: Traceback (most recent call last):",
        '0: [default0]:[rank0]:   File "/home/bob/other.py", line 3, in <module>',
        "0: [default0]:[rank0]: LookupError: no such split",
        "0: E1130 15:00:00.000000 99 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
        "(exitcode: 1) local_rank: 0 (pid: 4711) of binary: /opt/venv/bin/python3",
        f"srun: error: {chance.choice(ground.hosts or ('n1',))}: task 0: Exited with exit code 1",
        "srun: launch/slurm: _step_signal: Terminating StepId=777.0",
    ]
    text = "".join(f"{line}\n" for line in lines).encode()
    return with_documents(
        case, (*case.documents, Document("other/slurm-777.out", (Excerpt(0, 1, text),)))
    )


_COLLATERAL = (
    "EOFError",
    "BrokenPipeError: [Errno 32] Broken pipe",
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "torch.distributed.DistNetworkError: Broken pipe",
    "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 1.",
    "RuntimeError: Timeout waiting for key: default_pg/0/1 after 1800000 ms",
)


def collateral(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A rank of a failed job dies of what another's end did to it, in words that are not known."""
    ranks = sorted(set(ground.speakers) - set(ground.right))
    if not ranks or not ground.right:
        return case
    rank = chance.choice(ranks)
    task, local = ground.speakers[rank]
    lead = f"{task}: [default{local}]:[rank{rank}]: "
    lines = [
        "Traceback (most recent call last):",
        '  File "/home/alice/train/train.py", line 77, in drain',
        chance.choice(_COLLATERAL),
    ]
    text = "".join(f"{lead}{line}\n" for line in lines).encode()
    return each_edited(case, is_console, lambda data: data + text)


def replace_pids(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Every node counts its pids from a low number (pid namespaces): they are the same on all."""
    numbers: dict[bytes, bytes] = {}

    def low(match: re.Match[bytes]) -> bytes:
        return numbers.setdefault(match[0], b"%d" % (100 + len(numbers) % 4))

    def console(data: bytes) -> bytes:
        return re.sub(rb"(?<=pid: )\d+|(?<=process )\d+(?= closing)|(?<=PID )\d+", low, data)

    return each_edited(case, is_console, console)


def renumber_job(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The console and the accounting tell of a job with another number than the kernel log."""
    number = b"%d" % chance.randrange(10**5, 10**6)
    old = {
        each
        for document in case.documents
        for excerpt in document.excerpts
        for each in re.findall(rb"SLURM_JOB_ID=(\d+)|StepId=(\d+)", excerpt.data)
        for each in each
        if each
    }

    def renumbered(data: bytes) -> bytes:
        for each in old:
            # Exit codes and signals may be the same digits.
            signal = rb"(?<!ignal )(?<!ignal: )(?<!Received )"
            data = re.sub(rb"(?<![\d:.-])%s%s(?=[.|_ /\n])" % (signal, each), number, data)
        return data

    return each_edited(case, lambda d: True, renumbered)


def rename_hosts(chance: random.Random, mutant: Mutant, ground: Ground) -> Mutant:
    """The nodes have other names (which may be the old names of others)."""
    fresh = [f"gpu{number:03d}" for number in chance.sample(range(100), len(ground.hosts))]
    if chance.random() < 0.3:
        fresh = list(ground.hosts)
        chance.shuffle(fresh)
    names = dict(zip(ground.hosts, fresh, strict=True))
    if not names:
        return mutant
    old = re.compile(
        rb"(?<![\w.])(slurm_|slurmstepd-)?(%s)(?![\w.-])" % b"|".join(map(str.encode, names))
    )

    def renamed(data: bytes) -> bytes:
        def new(match: re.Match[bytes]) -> bytes:
            return (match[1] or b"") + names[match[2].decode()].encode()

        data = re.sub(rb"n\[[\d,-]+\]", ",".join(fresh).encode(), data)
        return old.sub(new, data)

    def moved(document: Document) -> Document:
        found = edited(document, renamed)
        name = old.sub(
            lambda m: (m[1] or b"") + names[m[2].decode()].encode(), found.name.encode()
        ).decode()
        return msgspec.structs.replace(
            found, name=name, host=names.get(found.host or "", found.host)
        )

    case = msgspec.structs.replace(
        with_documents(mutant.case, (moved(d) for d in mutant.case.documents)),
        coverage=tuple(
            msgspec.structs.replace(node, node=names.get(node.node, node.node))
            for node in mutant.case.coverage
        ),
        nodes_reported=tuple(names.get(n, n) for n in mutant.case.nodes_reported),
        nodes_absent=tuple(names.get(n, n) for n in mutant.case.nodes_absent),
    )
    return Mutant(case, tuple(names.items()), (*mutant.done, "rename_hosts"))
