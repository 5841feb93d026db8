"""Made cases in which signs of three causes or more stand together, and one of them is right.

    .venv/bin/python -m tests.diagnosis.recording.several

makes their folders anew: each of `ROOTS`, the fault of rank 2 on n2, with each of its sets of what
stands beside it: consequences, what another job or an earlier hour left, what was found again.
"""

from __future__ import annotations

from dataclasses import replace

from tests.diagnosis import made
from tests.diagnosis.recording import fabric
from tests.diagnosis.recording.fabric import CUDA, SYSTEM, kernel, rank_2, watchdog
from tests.diagnosis.recording.two_nodes import Made, nccl, write

_KILL = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/slurm/uid_"
    "{uid}/job_{job},task_memcg=/slurm/uid_{uid}/job_{job}/step_0/task_0,task=python3,pid={pid},uid={uid}",
    "Memory cgroup out of memory: Killed process {pid} (python3) total-vm:9000000kB, anon-rss:8000000kB, "
    "file-rss:10kB, shmem-rss:0kB, UID:{uid} pgtables:20kB oom_score_adj:0",
)


def killed(pid: int, job: int, uid: int) -> list[str]:
    """The kernel's lines on an OOM kill in a job's cgroup."""
    return [each.format(pid=pid, job=job, uid=uid) for each in _KILL]


ROOTS = (
    rank_2("ecc", "an uncorrectable error of the card", "gpu.ecc",
           CUDA.format("uncorrectable ECC error encountered"), "confirmed", kernel=kernel(fabric.ECC)),
    rank_2("bus-lost", "a card fell off the bus", "gpu.bus-lost", fabric.UNHANDLED, "confirmed",
           kernel=kernel(fabric.BUS)),
    rank_2("illegal-access", "an illegal access of the program's kernel", "gpu.illegal-access",
           CUDA.format("an illegal memory access was encountered"), kernel=kernel(fabric.MMU)),
    rank_2("assertion", "an index out of range on the card", "gpu.device-assert",
           CUDA.format("device-side assert triggered"), "confirmed",
           words={2: [fabric.ASSERTION.format(n) for n in range(2)]}),
    rank_2("memory", "no memory on the card", "memory.gpu-oom", fabric.OOM.format(""), "confirmed"),
    rank_2("library", "cuBLAS fails", "gpu.library",
           "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"),
    rank_2("not-visible", "a card that is not there", "gpu.not-visible",
           CUDA.format("invalid device ordinal"), "confirmed"),
    rank_2("kernel-fault", "a misaligned address", "gpu.kernel-fault", CUDA.format("misaligned address")),
    rank_2("quota", "a quota is used up", "storage.quota",
           "OSError: [Errno 122] Disk quota exceeded: '/home/eve/run/step-120.pt'", "confirmed"),
    rank_2("full", "a disk is full", "storage.full",
           "OSError: [Errno 28] No space left on device: '/scratch/eve/step-120.pt'", "confirmed"),
    rank_2("missing", "a file is not there", "storage.missing-file",
           "FileNotFoundError: [Errno 2] No such file or directory: '/data/shard-00017.tar'", "confirmed"),
    rank_2("corrupt", "a checkpoint is no archive", "storage.corrupt",
           "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
           "confirmed"),
    rank_2("io-error", "a disk fails", "storage.io-error",
           "OSError: [Errno 5] Input/output error: '/local/cache/shard-0031.bin'", "confirmed",
           kernel=kernel("I/O error, dev nvme1n1, sector 41000 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2")),
    rank_2("poison", "a poisoned page", "node.machine-check", "", "confirmed", codes={2: -7},
           kernel=kernel(fabric.POISON)),
    rank_2("segfault", "a segfault, by its agent and the kernel", "process.segfault", "", "confirmed",
           codes={2: -11},
           kernel=kernel("python3[6201]: segfault at 8 ip 00007f0a5c1e2b40 sp 00007ffd4f0a9c80 error 4 in "
                         "ext.so[7f0a5c1b0000+155000]")),
    rank_2("oom", "the job's memory limit", "memory.cgroup-oom", "", "confirmed", codes={2: -9},
           kernel=kernel(*killed(6201, 500, 1001))),
    rank_2("exception", "an exception of the program's own", "python.exception", fabric.PLAIN, "confirmed"),
    rank_2("import", "a module is not there", "python.import",
           "ModuleNotFoundError: No module named 'flash_attn'", "confirmed"),
    rank_2("nan", "the loss is no number", "training.nan",
           "RuntimeError: Function 'MulBackward0' returned nan values in its 0th output."),
    rank_2("checkpoint", "a checkpoint of another model", "training.checkpoint-mismatch",
           "RuntimeError: Error(s) in loading state_dict for Net: size mismatch for head.weight", "confirmed"),
    Made("config", "two ranks of n2 chose one card", "collective.config", 2, "n2", also=(3,),
         error={2: fabric.USAGE, 3: fabric.USAGE, 0: fabric.LOST, 1: fabric.LOST},
         words={2: [nccl(2, fabric.DUPLICATE.format(2, 3))], 3: [nccl(3, fabric.DUPLICATE.format(3, 2))]}),
)  # fmt: skip
_DISK = "Buffer I/O error on dev sdc, logical block 256, async page read"
_STEP = made.cancelled("STEP 500.0", "n1", clock="10:00:04")


def torn(case: Made) -> Made:
    """The peers' connections broke, Slurm ended the step, a neighbour was killed, a disk had errors."""
    words = {**case.words, **{n: [nccl(n, fabric.RESET)] for n in (0, 1)}}
    raised = {**case.error, **dict.fromkeys((0, 1), SYSTEM)}
    return replace(
        case, words=words, error=raised, said=(*_STEP,),
        kernel=(*case.kernel, *kernel(_DISK, host="n1", before_s=2400), *kernel(*killed(9120, 477, 1002), host="n1", before_s=200)),
    )  # fmt: skip


def late(case: Made) -> Made:
    """The peers waited, a port is without its cable, a file server had been slow, a process is dying."""
    words = {**case.words, **{n: watchdog(n) for n in (0, 1)}}
    raised = {rank: error for rank, error in case.error.items() if rank not in (0, 1)}
    hang = ("nfs: server files3 not responding, still trying", "nfs: server files3 OK")
    news = (fabric.UNPLUGGED, fabric.SWITCH_NEWS)
    return replace(
        case, words=words, error=raised, codes={**case.codes, 0: -6, 1: -6},
        kernel=(*case.kernel, *kernel(*hang, host="n1", before_s=900), *kernel(*news, host="n1", before_s=800),
                *kernel(fabric.DYING, fabric.CHANNEL, before_s=-1)),
    )  # fmt: skip


_SETS = (("torn", torn), ("late", late))
MADE = tuple(
    replace(
        beside(root),
        name=f"several-{root.name}-{name}",
        teaches=f"{root.teaches}; {(beside.__doc__ or '').lower().rstrip('.')}",
    )
    for root in ROOTS
    for name, beside in _SETS
)


if __name__ == "__main__":
    for each in MADE:
        write(each)
        print(f"| {each.name} | {each.teaches} |")
