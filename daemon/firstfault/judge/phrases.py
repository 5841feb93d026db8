"""Each cause in words, to stand after "Rank 3 on n1", and what a quoted line adds to them."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Where no exception and no narrower fact says it better.
PHRASES = {
    "memory.cgroup-oom": "was killed by the kernel: a memory limit was full",
    "memory.host-oom": "was killed: the node was short of memory",
    "memory.gpu-oom": "ran out of GPU memory",
    "memory.shm": "ran out of shared memory (/dev/shm)",
    "memory.host-alloc": "was refused the memory that it asked for",
    "process.segfault": "died of a segmentation fault (SIGSEGV)",
    "process.abort": "aborted (SIGABRT)",
    "process.bus-error": "died of a bus error (SIGBUS)",
    "process.fatal-signal": "died of a fatal signal",
    "process.killed": "was killed (SIGKILL); nothing tells who sent it",
    "process.interrupted": "was told to stop from outside",
    "process.resource-limit": "met a limit on its files, threads, processes or locked memory",
    "process.left-early": "ended with success while the others still needed it",
    "process.stuck": "was stuck, and nothing tells in what",
    "process.exit": "ended itself and left no reason",
    "process.abort-at-exit": "crashed while shutting down, after its work was done",
    "python.exception": "raised an exception",
    "python.import": "could not import what it needs",
    "python.arguments": "refused its command line or configuration",
    "gpu.not-visible": "found no usable GPU",
    "gpu.library": "failed in a GPU library or compiler",
    "collective.timeout": "did not arrive at a collective",
    "collective.desync": "ran another collective than its peers, or another shape",
    "collective.network": "lost the network to another host",
    "collective.config": "could not use the network as NCCL or Gloo are set up",
    "collective.error": "got an error from NCCL or Gloo that does not tell why",
    "collective.peer-lost": "lost a peer",
    "rendezvous.timeout": "waited in vain for the others to join",
    "rendezvous.port-in-use": "found its port taken",
    "rendezvous.connect": "could not reach the rendezvous host",
    "storage.full": "found no space left on a device",
    "storage.quota": "exceeded a quota",
    "storage.missing-file": "did not find a file that it needs",
    "storage.permission": "was refused access to a file",
    "storage.io-error": "had I/O errors of its file system",
    "storage.hang": "hung in I/O",
    "storage.corrupt": "read a truncated or corrupt file",
    "node.machine-check": "went down in a hardware error of its host",
    "node.kernel": "had a fault in the kernel of its host",
    "training.nan": "got a loss or gradients that are not finite",
    "training.unused-parameters": "had parameters without gradients (DistributedDataParallel)",
    "training.checkpoint-mismatch": "could not load a checkpoint that does not fit",
}
# What a GPU did or suffered: after "A GPU of n3", or after "Rank 3 on n1 had a GPU that".
GPU = {
    "gpu.illegal-access": "was accessed at an illegal address",
    "gpu.device-assert": "stopped at an assertion of its kernel",
    "gpu.kernel-fault": "stopped with a fault of its kernel",
    "gpu.ecc": "had an uncorrectable memory error (ECC)",
    "gpu.row-remap": "needs a reset or a replacement (row remapping)",
    "gpu.bus-lost": "fell off the bus or does not answer",
    "gpu.nvlink": "had an NVLink or NVSwitch failure",
    "gpu.gsp": "does not answer: its system processor (GSP) timed out",
    "gpu.unhealthy": "failed in a way that points at the device or its driver",
}
# What a process did with its GPU rather than suffered from it.
_OWN_GPU = {
    "gpu.illegal-access": "made an illegal memory access on its GPU",
    "gpu.device-assert": "failed an assertion on its GPU",
    "gpu.kernel-fault": "had a kernel fail on its GPU",
    "gpu.ecc": "met an uncorrectable memory error (ECC) of its GPU",
    "gpu.bus-lost": "lost its GPU, which fell off the bus or does not answer",
}
# Exceptions whose messages say nothing of the cause to who does not know them already: all that
# lack these words.
_CLEAR = {
    "storage.full": re.compile(r"space", re.IGNORECASE),
    "storage.corrupt": re.compile(r"corrupt|truncated|damaged", re.IGNORECASE),
    "process.resource-limit": re.compile(r"too many|thread|lock", re.IGNORECASE),
}
_LONGEST = 120
# argparse and click: "PROGRAM: error: WORDS".
_REFUSAL = re.compile(r"(?:^|[\s\]])([\w./-]{1,80}): error: (\S.{0,400})")
# gloo, transport/tcp: "Timed out waiting 20000ms"; c10d: "monitoredBarrier in 6000 ms", "ran for
# 600029 milliseconds before timing out"; torch 1.9 to 2.13.
_WAITED = re.compile(
    r"Timed out waiting (\d{1,12})ms|monitoredBarrier in (\d{1,12}) ms"
    r"|\bran for (\d{1,12}) milliseconds before timing out"
)
# c10d's watchdog of the watchdog; torch 2.1 to 2.13, ProcessGroupNCCL.cpp.
_STUCK = re.compile(r"\bgot stuck for (\d{1,7}) seconds without making progress")
# c10d's ProcessGroupNCCL, WorkNCCL; torch 1.13 to 2.13.
_WORK = re.compile(r"WorkNCCL\((?:SeqNum=(\d{1,12}), )?OpType=(\w{1,40})")
# c10::Error and gloo put the place in their own source before what they say.
_SOURCE = re.compile(r"\[(?:enforce fail at )?[^\]\s]{1,300}:\d{1,6}\] ")
_LONGEST_CONDITION = 80


def phrase(cause: str) -> str:
    """What the cause did to a process, to stand after its name."""
    if cause in GPU:
        return _OWN_GPU.get(cause) or f"had a GPU that {GPU[cause]}"
    return PHRASES.get(cause, f"failed ({cause})")


def raised(cause: str, kind: str, message: str) -> str:
    """What an uncaught exception says, after its process's name; in the cause's words, too, where
    the message alone would not tell."""
    short = shortened(message)
    said = f"{kind.rpartition('.')[2]}{f': {short}' if short else ''}"
    clear = _CLEAR.get(cause)
    if clear is None or clear.search(message):
        return f"raised {said}"
    return f"{phrase(cause)} ({said})"


def plural(words: str) -> str:
    """A phrase of one process, said of several."""
    verb, _, rest = words.partition(" ")
    verb = {"was": "were", "has": "have", "does": "do", "needs": "need"}.get(verb, verb)
    return re.sub(r"\bits\b", "their", f"{verb} {rest}".strip()).replace(" itself", " themselves")


def shortened(message: str) -> str:
    """An exception's message in one line of at most about 120 characters, broken at a blank.

    Where in torch's or gloo's own sources it was raised is left out: it tells the reader nothing.
    """
    text = message.strip().split("\n")[0]
    if found := _SOURCE.match(text):
        condition, _, said = text[found.end() :].partition(". ")
        check = "enforce fail" in found[0] and bool(said) and len(condition) <= _LONGEST_CONDITION
        text = said if check else text[found.end() :] or text
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST].rpartition(' ')[0] or text[:_LONGEST]} …"


def stuck(texts: Iterable[str]) -> str:
    """For how long a process was stuck, by its own watchdog: " for 480 s", or ""."""
    found = next((match for text in texts if (match := _STUCK.search(text))), None)
    return f" for {int(found[1]):,} s" if found else ""


def duration(seconds: int) -> str:
    """Seconds as Slurm writes a time: "02:30:00", "1-00:00:00"."""
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, seconds = divmod(rest, 60)
    clock = f"{hours:02d}:{minutes:02d}:{seconds:02d}"
    return f"{days}-{clock}" if days else clock


def refusal(text: str) -> tuple[str, str] | None:
    """The program and its words, of a line in which it refuses its options."""
    found = _REFUSAL.search(text)
    return None if found is None else (found[1], shortened(found[2]))


def waiting(texts: Iterable[str]) -> str:
    """How long the ranks waited, and in which collective: " 20 s", " 600 s in ALLREDUCE 7753", "".

    Only what all ``texts`` agree about is told.
    """
    times: set[int] = set()
    works: set[tuple[str, str]] = set()
    for text in texts:
        times |= {int(next(filter(None, found.groups()))) for found in _WAITED.finditer(text)}
        works |= {(found[2], found[1] or "") for found in _WORK.finditer(text)}
    seconds = {round(each / 1000) for each in times}
    long = f" {seconds.pop():,} s" if len(seconds) == 1 else ""
    where = f" in {' '.join(works.pop()).strip()}" if len(works) == 1 else ""
    return long + where
