"""Anchors: what a line must hold to be worth reading in a log too large to be read whole.

One list for ``firstfault explain`` and for the collector, whose ``anchors.txt`` is made from it.
An anchor is an extended regular expression that grep -E and Python's `re` read alike: literals,
``.``, ``[...]``, groups, ``|``, ``*``, ``+``, ``?``, and a backslash before a special character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from firstfault.signatures.grammar import UnreadablePattern, literal_runs, ways
from firstfault.signatures.signature import Compiled, Signature

# A shorter word stands in too many lines that mean nothing.
SHORTEST = 6
_SPECIAL = re.compile(r"[\\.\[\]{}()*+?^$|]")

# What the readers look for, by who says it. What a signature looks for is added from the signature.
READERS: Mapping[str, tuple[str, ...]] = {
    "Python": (
        r"Traceback \(most recent call last\)",
        "Fatal Python error",
        "Error: ",
        "Error:?$",
        "Exception: ",
        "Exception$",
        "KeyboardInterrupt",
        "SystemExit",
        "Exception Group Traceback",
    ),
    "shells": (
        "Segmentation fault",
        "Bus error",
        "Aborted",
        "core dumped",
        "Killed",
        "Terminated",
        "Illegal instruction",
        "Floating point exception",
        "command not found",
        "No such file or directory",
        "Permission denied",
    ),
    "torchrun and other launchers": (
        "exitcode *:",
        r"failed \(exitcode",
        "error_file",
        "Root Cause",
        "ChildFailedError",
        "closing signal",
        "Unable to shutdown process",
        "death signal",
        "SignalException",
        "CHILD PROCESS FAILED",
        "[Kk]illing subprocess",
        "Main process received",
        "exits with return code",
        "[Ww]orker group",
        "attempts left",
        "GLOBAL_RANK",
        "terminated with the following error",
        "StopIteration",
        "RendezvousTimeoutError",
        "RendezvousConnectionError",
        "client socket has (timed out|failed)",
        "server socket has failed",
        "Address already in use",
        "noticed that process rank",
        "MPI_ABORT",
    ),
    "collectives": (
        "NCCL WARN",
        "NCCL error",
        "nccl[A-Z][A-Za-z]*Error",
        "unhandled (system|cuda) error",
        "[Ww]atchdog",
        "Timeout at NCCL work",
        "collective operation timeout",
        "didn't join collective",
        "monitoredBarrier",
        "Heartbeat monitor",
        "[Cc]onnection closed by",
        "[Cc]onnection reset by",
        "[Cc]onnection refused",
        "Broken pipe",
        "Timed out waiting",
        "dump signal due to",
    ),
    "devices": (
        "CUDA error",
        "CUDA out of memory",
        "cudaError",
        "CUBLAS_STATUS",
        "CUDNN_STATUS",
        "uncorrectable ECC",
        "illegal memory access",
        "device-side assert",
        "Xid",
    ),
    "memory and disks": (
        "[Oo]ut [Oo]f [Mm]emory",
        "(oom|OOM|Oom)[-_ ][Kk]ill",
        "Cannot allocate memory",
        "No space left on device",
        "Disk quota exceeded",
        "Input/output error",
        "Stale file handle",
        "Read-only file system",
        "Too many open files",
        "Transport endpoint",
    ),
    "Slurm": (
        "srun: (error|fatal): ",
        "srun: Job step aborted",
        "Terminating (StepId=|job step)",
        "srun: Force Terminated",
        r"slurmstepd(-[A-Za-z0-9.-]+)?: error: ",
        "sbatch: error: ",
        "CANCELLED AT",
        "DUE TO [A-Z]",
        "has exceeded its time limit and",
        "Node failure on",
    ),
    "the kernel": (
        "segfault at",
        "traps: ",
        "Killed process",
        "blocked for more than",
        "soft lockup",
        "Hardware Error",
        "oom_reaper: ",
        "memory: usage ",
        "fatal signal",
        "general protection",
        "Linux version ",
        "-- (Boot|Reboot) ",
        "server [^ ]+ OK",
        "Connection restored to",
    ),
}


def derived(signature: Signature) -> tuple[str, ...]:
    """The anchors of one signature: its own where it names some, else its pattern's words.

    None where a way through the pattern has no word of `SHORTEST` characters.
    """
    if signature.anchors:
        return signature.anchors
    found = set()
    try:
        for way in ways(signature.pattern):
            found.add(max(literal_runs(way), key=lambda run: len(run.strip()), default="").lstrip())
    except UnreadablePattern:
        return ()
    if any(len(word.strip()) < SHORTEST for word in found):
        return ()
    return tuple(escaped(word) for word in sorted(found))


def escaped(word: str) -> str:
    """``word`` as an extended regular expression that matches it alone."""
    return _SPECIAL.sub(r"\\\g<0>", word)


def unescaped(anchor: str) -> str | None:
    """The word that ``anchor`` matches alone, None where it matches more."""
    plain = re.sub(r"\\(.)", "", anchor)
    return None if _SPECIAL.search(plain) else re.sub(r"\\(.)", r"\1", anchor)


def anchors(signatures: Iterable[Compiled]) -> dict[str, tuple[str, ...]]:
    """All anchors, by who speaks: the readers', and those of ``signatures`` that these miss.

    An exception's first line is found by the readers' anchors where its type ends in Error or
    Exception, and its traceback stands before it: so those alone count that these miss.
    """
    result = dict(READERS)
    general = compiled(anchor for each in READERS.values() for anchor in each)
    words: set[str] = set()
    patterns: set[str] = set()
    for each in signatures:
        if each.signature.target == "exception" and all(
            general.search(sample) for sample in each.signature.samples
        ):
            continue
        for anchor in derived(each.signature):
            word = unescaped(anchor)
            if word is None:
                patterns.add(anchor)
            else:
                words.add(word)
    kept: list[str] = []
    for word in sorted(words, key=lambda word: (len(word), word)):
        if not general.search(word) and not any(shorter in word for shorter in kept):
            kept.append(word)
    result["signatures"] = tuple(sorted([*map(escaped, kept), *patterns]))
    return result


def compiled(found: Iterable[str]) -> re.Pattern[str]:
    """One expression that finds any of the anchors."""
    return re.compile("|".join(f"(?:{anchor})" for anchor in found), re.MULTILINE)


def as_text(found: Mapping[str, tuple[str, ...]]) -> str:
    """The collector's anchors.txt: one anchor a line, # before what is none."""
    lines = [
        "# Made by epilog/build-pyz --anchors from firstfault.signatures.anchors: do not edit.",
        "# Extended regular expressions that grep -E and Python's re read alike.",
    ]
    for who, each in found.items():
        lines += [f"# {who}", *each]
    return "\n".join(lines) + "\n"
