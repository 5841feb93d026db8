"""The made cases of cards, links, file systems and nodes, each with its near miss and its skewed twin.

    .venv/bin/python -m tests.diagnosis.recording.fabric

makes their folders anew. Words are built from format strings: torch 2.4 to 2.9, NCCL 2.20 to 2.27,
NVIDIA's driver 550, Linux 5.14, Lustre 2.15, DCGM 4.
"""

from __future__ import annotations

from dataclasses import replace

from tests.diagnosis.recording.two_nodes import Made, nccl, skewed, write

CUDA = "torch.AcceleratorError: CUDA error: {}"
_NCCL = (
    "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/"
    "NCCLUtils.cpp:77, {}, NCCL version 2.27.3"
)
LOST = _NCCL.format("remote process exited or there was a network error")
SYSTEM = _NCCL.format("unhandled system error (run with NCCL_DEBUG=INFO for details)")
INTERNAL = _NCCL.format("internal error - please report this issue to the NCCL developers")
USAGE = _NCCL.format("invalid usage (run with NCCL_DEBUG=WARN for details)")
UNHANDLED = _NCCL.format("unhandled cuda error (run with NCCL_DEBUG=INFO for details)")
PLAIN = "ValueError: expected 4 features, got 5"
KEY = "KeyError: 'grad_norm'"
XID = "NVRM: Xid (PCI:0000:5d:00): {}"
BUS = XID.format("79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
ECC = XID.format(
    "94, pid={pid}, name=python3, Contained: CE User Channel (0x9). RST: No, D-RST: No"
)
DYING = XID.format("43, pid={pid}, name=python3, Ch 00000009")
CHANNEL = XID.format("45, pid={pid}, name=python3, Ch 00000009")
MMU = XID.format(
    "31, pid={pid}, name=python3, Ch 00000009, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC2 "
    "GPCCLIENT_T1_4 faulted @ 0x7f31_92000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
)
WARP = XID.format(
    "13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 1, TPC 2, SM 1): {}"
)
LINK = XID.format(
    "74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 4(0x0, 0x0)"
)
SWITCH = "nvidia-nvswitch2: SXid (PCI:0000:87:00.0): 20034, Fatal, Link 33 LTSSM Fault Up"
SWITCH_NEWS = "nvidia-nvswitch2: SXid (PCI:0000:87:00.0): 12028, Non-fatal, Link 33 egress non-posted PRIV error (First)"
GSP = XID.format(
    "119, pid={pid}, name=python3, Timeout after 6s of waiting for RPC response from GPU1 GSP! "
    "Expected function 76 (GSP_RM_CONTROL) (0x20803032 0x58c)."
)
ROWS = XID.format("64, pid={pid}, name=python3, Row Remapper: Failed to remap row")
ROW = XID.format(
    "63, pid={pid}, name=python3, Row Remapper: New row marked for remapping, reset gpu to activate."
)
BROKEN = XID.format("62, pid={pid}, name=python3, 2098(2b1c) 00000000 00000000")
PORT = "mlx5_core 0000:5e:00.0 ib0: Link down"
PORT_UP = "mlx5_core 0000:5e:00.0 ib0: Link up"
UNPLUGGED = "mlx5_core 0000:5e:00.1: Port module event: module 1, Cable unplugged"
HEALTH = "mlx5_core 0000:5e:00.0: poll_health:828:(pid 0): device's health compromised - reached miss count"
COMPLETION = (
    "NET/IB: Got completion from peer 10.20.0.{}<52960> with status=IBV_WC_RETRY_EXC_ERR(12) "
    "opcode=IBV_WC_RDMA_WRITE(1) vendor_err=129 localGid fe80::1 remoteGids fe80::2 hca mlx5_0"
)
RESET = "socketProgressOpt: Call to recv from 10.20.0.7<52960> failed : Connection reset by peer"
CLOSED = "socketProgress: Connection closed by remote peer 10.20.0.7<40077>"
UNREACHABLE = "socketStartConnect: Connect to 10.20.0.7<40077> failed : No route to host"
DUPLICATE = "Duplicate GPU detected : rank {} and rank {} both on CUDA device 5d000"
INTERFACE = "Bootstrap : no socket interface found"
CORRECTED = "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x3f41c0 offset:0x0)"
MACHINE_CHECK = "mce: [Hardware Error]: CPU 9: Machine Check Exception: 5 Bank 6: bb00000040000e0b"
POISON = "Memory failure: 0x3f41c0: Killing python3:{pid} due to hardware memory corruption"
BUS_ERROR = "pcieport 0000:5c:01.0: AER: Uncorrected (Fatal) error received: 0000:5d:00.0"
LOCKUP = "watchdog: BUG: soft lockup - CPU#17 stuck for 26s! [python3:6202]"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total "
    "capacity of 79.15 GiB of which 811.25 MiB is free. {}Including non-PyTorch memory, this "
    "process has 17.30 GiB memory in use. Of the allocated memory 16.11 GiB is allocated by PyTorch, "
    "and 402.18 MiB is reserved by PyTorch but unallocated."
)
ASSERTION = (
    "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1289: indexSelectLargeIndex: block: [41,0,0], "
    "thread: [{},0,0] Assertion `srcIndex < srcSelectDimSize` failed."
)
PID2 = 6201
STUCK = (
    "[rank2]:[F1130 10:00:04.200000000 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0(default_pg) Rank 2] "
    "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued "
    "collectives. This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the watchdog"
)
ROCM = (
    "Memory access fault by GPU node-3 (Agent handle: 0x55b017570000) on address 0x7fcd4a000000. "
    "Reason: Page not present or supervisor privilege."
)
DEAD_WATCHDOG = (
    "[rank2]:[E1130 10:00:04.200000000 ProcessGroupNCCL.cpp:1595] [PG ID 0 PG GUID 0(default_pg) Rank 2] "
    "Process group watchdog thread terminated with exception: CUDA error: {}"
)
EVICTED = (
    "LustreError: 167-0: work-MDT0000-mdc-ffff8f1234560000: This client was evicted by work-MDT0000; in "
    "progress operations using this service will fail."
)


def watchdog(rank: int, done: int = 40) -> tuple[str, ...]:
    """A rank's watchdog, as it waited in vain."""
    head = f"[rank{rank}]:[E1130 10:00:05.21{rank}000000 ProcessGroupNCCL.cpp"
    return (
        f"{head}:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum="
        f"{done + 1}, OpType=ALLREDUCE, NumelIn=512, NumelOut=512, Timeout(ms)=600000) ran for "
        f"60004{rank} milliseconds before timing out.",
        f"{head}:1664] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception (either an error or timeout) "
        f"detected by watchdog at work: {done + 1}, last enqueued NCCL work: {done + 2}, last completed "
        f"NCCL work: {done}.",
    )


def peers(*ranks: int) -> dict[int, str]:
    """The exceptions of ranks that lost a peer."""
    return dict.fromkeys(ranks, LOST)


def kernel(
    *lines: str, host: str = "n2", pid: int = PID2, before_s: float = 3
) -> tuple[tuple[str, float, str], ...]:
    """Lines of a kernel log, a few seconds before the first rank's end."""
    return tuple(
        (host, before_s - n / 10, line.replace("{pid}", str(pid))) for n, line in enumerate(lines)
    )


def rank_2(
    name: str,
    teaches: str,
    cause: str,
    error: str,
    confidence: str | None = None,
    *,
    others: str = LOST,
    **more: object,
) -> Made:
    """A case in which rank 2 on n2 raised ``error`` first, and the other ranks ``others``."""
    raised = {2: error} if error else {}
    case = Made(
        name, teaches, cause, 2, "n2", confidence, error=raised | dict.fromkeys((0, 1, 3), others)
    )
    return replace(case, **more)  # type: ignore[arg-type]


CARDS = (
    rank_2("fabric-bus-lost", "a card falls off the bus: its rank meets an unhandled CUDA error, the others lose it",
           "gpu.bus-lost", UNHANDLED, "confirmed", kernel=kernel(BUS_ERROR, BUS), key=": 79, "),
    Made("fabric-bus-lost-hang", "a card falls off the bus and its rank hangs in the driver: the others wait in vain",
         "gpu.bus-lost", None, "n2", words={n: watchdog(n) for n in (0, 1, 3)}, codes={0: -6, 1: -6, 3: -6},
         alive=(2,), first=3, kernel=kernel(BUS, before_s=640)),
    rank_2("fabric-ecc", "an uncorrectable error, then Xids 43 and 45 of the dying process",
           "gpu.ecc", CUDA.format("uncorrectable ECC error encountered"), "confirmed",
           kernel=kernel(ECC, DYING, CHANNEL), key=": 94, "),
    rank_2("fabric-nvlink", "a switch's fatal error and a card's link: neither is sure",
           "gpu.nvlink", UNHANDLED, kernel=kernel(SWITCH, LINK)),
    rank_2("fabric-nvlink-news", "a switch's event that is not fatal, and a program's own error",
           "python.exception", PLAIN, "confirmed", kernel=kernel(SWITCH_NEWS), near=("gpu.nvlink",)),
    rank_2("fabric-gsp", "the card's system processor does not answer", "gpu.gsp",
           CUDA.format("unknown error"), kernel=kernel(GSP)),
    Made("fabric-gsp-stuck", "the card's system processor does not answer, and the rank's watchdog is stuck",
         "gpu.gsp", 2, "n2", codes=dict.fromkeys(range(4), -6),
         words={2: [STUCK], **{n: watchdog(n) for n in (0, 1, 3)}}, kernel=kernel(GSP, before_s=500),
         near=("process.stuck",)),
    rank_2("fabric-gsp-elsewhere", "the same on a host whose ranks only lost a peer",
           "python.exception", PLAIN, None, kernel=kernel(GSP, host="n1", pid=777, before_s=1),
           near=("gpu.gsp",)),
    rank_2("fabric-rows", "a row could not be remapped; the rank tells no more than an unknown error",
           "gpu.row-remap", CUDA.format("unknown error"), kernel=kernel(ROWS)),
    rank_2("fabric-row-pending", "a row waits for the next reset: nothing failed of it",
           "python.exception", PLAIN, None, kernel=kernel(ROW), near=("gpu.row-remap",)),
    rank_2("fabric-unhealthy", "the card halts without a narrower reason", "gpu.unhealthy",
           CUDA.format("unknown error"), kernel=kernel(BROKEN)),
    rank_2("fabric-illegal-access", "the program's own kernel reads where it may not",
           "gpu.illegal-access", CUDA.format("an illegal memory access was encountered"),
           kernel=kernel(MMU, DYING)),
    rank_2("fabric-rocm", "ROCm's own word of an illegal access, and SIGABRT", "gpu.illegal-access", "",
           words={2: [ROCM]}, codes={2: -6}),
    rank_2("fabric-watchdog-ecc", "a watchdog ends the process for a CUDA error, which the card's memory caused",
           "gpu.ecc", "", "confirmed", words={2: [DEAD_WATCHDOG.format("unspecified launch failure")]},
           codes={2: -6}, kernel=kernel(ECC, DYING), near=("gpu.kernel-fault", "process.abort")),
    rank_2("fabric-watchdog-illegal", "the same for an illegal access: NCCL has nothing to do with it",
           "gpu.illegal-access", "", words={2: [DEAD_WATCHDOG.format("an illegal memory access was encountered")]},
           codes={2: -6}, near=("collective.error", "process.abort")),
    rank_2("fabric-ecc-of-others", "an uncorrectable error in a process of another job", "python.exception",
           PLAIN, "confirmed", kernel=kernel(ECC, pid=9999), near=("gpu.ecc",)),
    rank_2("fabric-illegal-then-ecc", "the card's memory is broken: the illegal access is what comes of it",
           "gpu.ecc", CUDA.format("an illegal memory access was encountered"),
           kernel=kernel(ECC, MMU), near=("gpu.illegal-access",)),
    rank_2("fabric-assertion", "an index out of range, asserted on the card", "gpu.device-assert",
           CUDA.format("device-side assert triggered"), "confirmed",
           words={2: [ASSERTION.format(n) for n in range(3)]}),
    rank_2("fabric-assertion-in-tests", "a program's own assertion in C++ that no card printed",
           "python.exception", "AssertionError: srcIndex < srcSelectDimSize", "confirmed",
           near=("gpu.device-assert",)),
    rank_2("fabric-misaligned", "a kernel's misaligned address, by the rank and by the driver",
           "gpu.kernel-fault", CUDA.format("misaligned address"), kernel=kernel(WARP.format("Misaligned Address"), DYING)),
    rank_2("fabric-memory", "another process holds the card's memory", "memory.gpu-oom",
           OOM.format("Process 8821 has 60.04 GiB memory in use. "), "confirmed"),
    rank_2("fabric-library-memory", "cuBLAS finds no memory for its handle", "memory.gpu-oom",
           "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    rank_2("fabric-library", "a Triton kernel wants more shared memory than the card has", "gpu.library",
           "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 180224, "
           "Hardware limit: 101376. Reducing block sizes or `num_stages` may help."),
    rank_2("fabric-library-after-bus", "cuBLAS fails because its card is gone", "gpu.bus-lost",
           "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`",
           "confirmed", kernel=kernel(BUS), near=("gpu.library",)),
    rank_2("fabric-not-visible", "a rank asks for a card that it was not given", "gpu.not-visible",
           CUDA.format("invalid device ordinal"), "confirmed"),
    rank_2("fabric-driver-printed", "a script prints that nvidia-smi failed, and all goes on for hours",
           "python.exception", KEY, None,
           said=("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
                 "that the latest NVIDIA driver is installed and running.",), near=("gpu.not-visible",)),
)  # fmt: skip

NETWORK = (
    Made("fabric-link-down", "the port of n2 goes down: completion errors at both ends, all ranks lose a peer",
         "collective.network", None, "n2", error=peers(0, 1, 2, 3), first=0,
         words={0: [nccl(0, COMPLETION.format(7), "transport/net_ib/p2p.cc:511")],
                2: [nccl(2, COMPLETION.format(6), "transport/net_ib/p2p.cc:511")]},
         kernel=kernel(PORT, before_s=30)),
    Made("fabric-link-hang", "the link goes down and nobody is told: all ranks wait in vain",
         "collective.network", None, "n2", words={n: watchdog(n) for n in range(4)},
         codes=dict.fromkeys(range(4), -6), kernel=kernel(HEALTH, PORT, before_s=620)),
    Made("fabric-unreachable", "NCCL cannot reach the other node, from either side", "collective.network", 0, "n1", also=(1, 2, 3),
         error=dict.fromkeys(range(4), SYSTEM), words={n: [nccl(n, UNREACHABLE)] for n in range(4)}, first=0),
    rank_2("fabric-link-unused", "a port without a cable says so; a rank raises an exception",
           "python.exception", PLAIN, None, kernel=kernel(UNPLUGGED), near=("collective.network",)),
    rank_2("fabric-completion-of-dead", "completion errors, because rank 2 had been killed for its memory",
           "python.exception", "RuntimeError: shapes (4, 5) and (6, 7) do not fit", None,
           words={n: [nccl(n, COMPLETION.format(7))] for n in (0, 1)}, near=("collective.network",)),
    Made("fabric-duplicate-card", "two ranks chose one card", "collective.config", 2, "n2", also=(3,),
         error={2: USAGE, 3: USAGE, **peers(0, 1)},
         words={2: [nccl(2, DUPLICATE.format(2, 3), "init.cc:943")], 3: [nccl(3, DUPLICATE.format(3, 2), "init.cc:943")]}),
    Made("fabric-interface", "NCCL_SOCKET_IFNAME names what no node has", "collective.config", 0, "n1", also=(1, 2, 3), first=0,
         error=dict.fromkeys(range(4), INTERNAL), words={n: [nccl(n, INTERFACE, "bootstrap.cc:45")] for n in range(4)}),
    rank_2("fabric-no-plugin", "NCCL finds no plugin and uses its own way: an exception is the reason",
           "python.exception", PLAIN, "confirmed", near=("collective.config",),
           said=("n2:6201:6282 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so), using internal implementation",)),
    Made("fabric-error-untold", "NCCL fails and says no more", "collective.error", 0, "n1", also=(1, 2, 3), first=0,
         error=dict.fromkeys(range(4), INTERNAL)),
    rank_2("fabric-error-of-peer", "an unhandled system error that its own line tells to be a lost peer",
           "python.exception", KEY, None, others=SYSTEM,
           words={n: [nccl(n, RESET)] for n in (0, 1, 3)}, near=("collective.error",)),
)  # fmt: skip

NODES = (
    rank_2("fabric-poison", "a page of memory is poisoned and the kernel kills the rank that read it",
           "node.machine-check", "", "confirmed", codes={2: -7},
           kernel=kernel(MACHINE_CHECK, POISON)),
    rank_2("fabric-corrected", "errors that the memory's code corrected: nothing failed of them",
           "python.exception", PLAIN, "confirmed", kernel=kernel(CORRECTED), near=("node.machine-check",)),
    rank_2("fabric-lockup", "a processor was stuck for half a minute, long before an exception",
           "python.exception", KEY, None, kernel=kernel(LOCKUP, before_s=1500), near=("node.kernel",)),
    Made("fabric-hang-lustre", "a Lustre target is lost, and a rank waits in it", "storage.hang", None, "n2",
         words={n: watchdog(n) for n in (0, 1, 2)}, codes={0: -6, 1: -6, 2: -6}, alive=(3,),
         kernel=kernel(
             "Lustre: work-OST0003-osc-ffff8f1234560000: Connection to work-OST0003 (at 10.0.0.9@o2ib) was "
             "lost; in progress operations using this service will wait for recovery to complete",
             "INFO: task python3:6202 blocked for more than 120 seconds.", "Call Trace:",
             " __schedule+0x21b/0x550", " cl_sync_io_wait+0x1c1/0x3a0 [obdclass]", before_s=400)),
    rank_2("fabric-evicted", "Lustre evicts the node, and the rank's write fails", "storage.io-error",
           "OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/run7/x'", "confirmed",
           kernel=kernel(EVICTED)),
    rank_2("fabric-disk", "a disk of the node fails, and the rank that read it says so", "storage.io-error",
           "OSError: [Errno 5] Input/output error: '/local/cache/shard-0031.bin'", "confirmed",
           kernel=kernel("nvme1n1: I/O Cmd(0x2) @ LBA 1953525160, 8 blocks, I/O Error (sct 0x2 / sc 0x81) MORE DNR",
                         "EXT4-fs error (device nvme1n1): ext4_find_entry:1463: inode #41: comm python3: reading directory lblock 0")),
)  # fmt: skip

_TWINS = (
    "fabric-bus-lost", "fabric-ecc", "fabric-nvlink", "fabric-gsp", "fabric-rows", "fabric-unhealthy",
    "fabric-illegal-access", "fabric-assertion", "fabric-misaligned", "fabric-memory", "fabric-library",
    "fabric-not-visible", "fabric-link-down", "fabric-unreachable", "fabric-duplicate-card",
    "fabric-error-untold", "fabric-poison",
)  # fmt: skip
_ALL = (*CARDS, *NETWORK, *NODES)
MADE = (*_ALL, *(skewed(case) for case in _ALL if case.name in _TWINS))


if __name__ == "__main__":
    for each in MADE:
        write(each)
        print(f"| {each.name} | {each.teaches} |")
