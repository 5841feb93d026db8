"""Makes the cases of a GPU: no machine with one was at hand.

    .venv/bin/python -m tests.diagnosis.recording.cards

The console is that of the recorded case t24-exception (two agents of torch 2.4.1, ranks 0 to 3),
in which the words of a GPU stand where the recorded exception stood. Those words, the watchdogs'
and the kernels' lines are built from format strings (torch 2.4, NCCL 2.20, NVIDIA's driver 550)
with invented values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.diagnosis.case_files import CASES

BASE = (CASES / "t24-exception" / "console.log").read_text().splitlines()
PEER = (
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/"
    "ProcessGroupNCCL.cpp:2006, remote process exited or there was a network error, NCCL version 2.20.5"
)
UNHANDLED = PEER.replace(
    "remote process exited or there was a network error",
    "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
)
FRAME = [
    "Traceback (most recent call last):",
    '  File "/home/alice/train/train.py", line 99, in <module>',
    "    train()",
    '  File "/home/alice/train/train.py", line 77, in train',
    "    loss.backward()",
]
HINTS = [
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace "
    "below might be incorrect.",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
]
CUDA = "RuntimeError: CUDA error: "
ILLEGAL = f"{CUDA}an illegal memory access was encountered"
ASSERTION = (
    "../aten/src/ATen/native/cuda/Indexing.cu:1289: indexSelectLargeIndex: block: [41,0,0], thread: "
    "[{n},0,0] Assertion `srcIndex < srcSelectDimSize` failed."
)
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 1 has a total "
    "capacity of 79.15 GiB of which 811.25 MiB is free. {others}Including non-PyTorch memory, this "
    "process has 17.30 GiB memory in use. Of the allocated memory 16.11 GiB is allocated by PyTorch, "
    "and 402.18 MiB is reserved by PyTorch but unallocated."
)
XID = "NVRM: Xid (PCI:0000:5d:00): {}"
LOST = XID.format("79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
CONTAINED = XID.format(
    "94, pid=23218, name=python, Contained: CE User Channel (0x9). RST: No, D-RST: No"
)
MMU = XID.format(
    "31, pid=23218, name=python, Ch 00000009, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC2 "
    "GPCCLIENT_T1_4 faulted @ 0x7f31_92000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
)
DYING = XID.format("43, pid=23218, name=python, Ch 00000009")
LINK = XID.format(
    "74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 4(0x0, 0x0)"
)
SWITCH = "nvidia-nvswitch2: SXid (PCI:0000:87:00.0): 20034, Fatal, Link 33 LTSSM Fault Up"


@dataclass(frozen=True)
class Made:
    """One case: what rank 3 raises, what stands before it, the kernels' lines by host and second."""

    name: str
    teaches: str
    cause: tuple[str, ...]
    error: str = ""
    more: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    kernel: tuple[tuple[str, int, str], ...] = ()
    rank: int | None = 3
    host: str | None = "n2"
    confidence: str | None = "confirmed"
    key: str = ""
    near: tuple[str, ...] = ()
    console: tuple[str, ...] = ()


def status(rank: int, last: int, done: int) -> list[str]:
    """A watchdog's lines on a collective that timed out."""
    head = f"[rank{rank}]:[E1130 22:07:06.21{rank}000000 ProcessGroupNCCL.cpp"
    return [
        f"{head}:607] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum="
        f"{done + 1}, OpType=ALLREDUCE, NumelIn=512, NumelOut=512, Timeout(ms)=600000) ran for "
        f"60004{rank} milliseconds before timing out.",
        f"{head}:1664] [PG 0 Rank {rank}] Exception (either an error or timeout) detected by watchdog "
        f"at work: {done + 1}, last enqueued NCCL work: {last}, last completed NCCL work: {done}.",
    ]


def dumped(rank: int, last: int, done: int) -> list[str]:
    """The line of a rank that another told to dump."""
    return [
        f"[rank{rank}]:[E1130 22:07:06.300000000 ProcessGroupNCCL.cpp:1348] [PG 0 Rank {rank}] Received "
        "a dump signal due to a collective timeout from another rank and we will try our best to dump "
        f"the debug info. Last enqueued NCCL work: {last}, last completed NCCL work: {done}."
    ]


def waited(*lines: list[str]) -> tuple[str, ...]:
    """A console of watchdogs' lines, which ends there."""
    steps = [f"step {n} loss 0.{9 - n}000 lr 0.1" for n in range(6)]
    return (*steps, *(line for each in lines for line in each))


MADE = (
    Made("gpu-ecc", "an uncorrectable error of the card by the kernel is why a rank met a CUDA error",
         ("gpu.ecc",), f"{CUDA}unspecified launch failure", kernel=(("n2", 4, CONTAINED), ("n2", 5, DYING)),
         key=": 94, "),
    Made("gpu-ecc-elsewhere", "the same line of another host explains nothing",
         ("gpu.kernel-fault",), f"{CUDA}unspecified launch failure", kernel=(("n1", 4, CONTAINED),),
         confidence="likely", near=("gpu.ecc",)),
    Made("gpu-bus-lost", "a card that fell off the bus explains NCCL's error and its links' faults",
         ("gpu.bus-lost",), UNHANDLED, kernel=(("n2", 4, LOST), ("n2", 5, SWITCH)), key=": 79, "),
    Made("gpu-bus-lost-later", "the card fell off the bus after the job",
         ("gpu.illegal-access",), ILLEGAL, kernel=(("n2", 1200, LOST),), confidence="likely",
         near=("gpu.bus-lost",)),
    Made("gpu-nvlink", "a link's failure is likely at most", ("gpu.nvlink",), UNHANDLED,
         kernel=(("n2", 4, LINK),), confidence="likely", key=": 74, "),
    Made("gpu-illegal-access", "the driver's Xid 31 names the rank's pid; Xid 43 is its end",
         ("gpu.illegal-access",), ILLEGAL, kernel=(("n2", 5, MMU), ("n2", 5, DYING)), confidence="likely"),
    Made("gpu-xid-harmless", "Xid 43 alone is a process that dies: the exception is the program's own",
         ("python.exception",), "ValueError: expected 4 features, got 5", kernel=(("n2", 8, DYING),),
         near=("gpu.unhealthy", "gpu.kernel-fault")),
    Made("gpu-assertion", "the card prints the assertion that failed", ("gpu.device-assert",),
         f"{CUDA}device-side assert triggered", before=tuple(ASSERTION.format(n=n) for n in range(3)),
         key="Indexing.cu:1289"),
    Made("gpu-assertion-unheard", "without the assertion's line it is likely at most",
         ("gpu.device-assert",), f"{CUDA}device-side assert triggered", confidence="likely"),
    Made("gpu-memory", "the message tells which other process held the card's memory",
         ("memory.gpu-oom",), OOM.format(others="Process 8821 has 60.04 GiB memory in use. ")),
    Made("gpu-memory-caught", "a program that catches it and fails of something else",
         ("python.exception",), "KeyError: 'grad_norm'",
         before=(f"[rank3]: retrying with a smaller batch after: {OOM.format(others='')}",),
         near=("memory.gpu-oom",)),
    Made("gpu-behind", "three watchdogs wait in work 41, which one rank has not begun",
         ("collective.timeout",), rank=2, host=None, confidence="likely", key="[rank2]",
         console=waited(status(0, 42, 40), status(1, 42, 40), status(3, 41, 40), dumped(2, 40, 40))),
    Made("gpu-level", "all watchdogs wait in the same work: nobody is behind",
         ("collective.timeout",), rank=None, host=None, confidence="likely",
         console=waited(*(status(n, 42, 40) for n in range(4)))),
)  # fmt: skip


def console(case: Made) -> list[str]:
    """t24-exception's console with the case's words in it."""
    if case.console:
        return list(case.console)
    more = HINTS if "CUDA error" in case.error else []
    own = [f"[rank3]: {line}" for line in (*FRAME, case.error, *more, *case.more)]
    lines: list[str] = []
    for line in BASE:
        if not line.startswith("[rank3]: "):
            lines.append(re.sub(r"RuntimeError: \[\.\./third_party/gloo.*", PEER, line))
        elif "Traceback" in line:
            lines += [*case.before, *own]
    return lines


def write(case: Made) -> None:
    """The case's folder."""
    folder = CASES / case.name
    folder.mkdir(exist_ok=True)
    (folder / "console.log").write_text("\n".join(console(case)) + "\n")
    for host in sorted({host for host, _, _ in case.kernel}):
        (folder / host).mkdir(exist_ok=True)
        start = 22 * 3600 + 7 * 60
        said = [
            f"[Mon Nov 30 {t // 3600:02d}:{t // 60 % 60:02d}:{t % 60:02d} 2026] {text}"
            for each, second, text in case.kernel
            if each == host
            for t in [start + second]
        ]
        (folder / host / "dmesg.txt").write_text("\n".join(said) + "\n")
    (folder / "expected.toml").write_text("\n".join(truth(case)) + "\n")


def truth(case: Made) -> list[str]:
    """What is true of the case."""
    lines = [f'cause = ["{case.cause[0]}"]']
    lines += [] if case.rank is None else [f"rank = {case.rank}"]
    lines += [] if case.host is None else [f'host = "{case.host}"']
    lines += [] if case.confidence is None else [f'confidence = "{case.confidence}"']
    lines += [f"key = '''{case.key}'''"] if case.key else []
    lines += [f"near_miss_of = [{', '.join(repr(n) for n in case.near)}]".replace("'", '"')] * bool(
        case.near
    )
    return [*lines, 'torch = "2.4.1"', 'kind = "made: no GPU was at hand"']


if __name__ == "__main__":
    for each in MADE:
        write(each)
        print(f"| {each.name} | {each.teaches} |")
