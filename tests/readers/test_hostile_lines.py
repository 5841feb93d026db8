"""A line of 64 KiB that was made to cost time costs little, whoever reads it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from firstfault.readers import (
    advance,
    boxes,
    cgroups,
    elastic,
    epilog,
    error_file,
    fatal,
    groups,
    kernel_faults,
    kernel_heads,
    kernel_oom,
    kernel_records,
    kernel_signs,
    launchers,
    slurm_output,
    stack_lines,
    table,
    times,
    world,
)
from firstfault.readers.cgroups import slurm_cgroup
from firstfault.readers.error_file import looks_like_error_file
from firstfault.readers.kernel import kernel_events, quoted_kernel_events
from firstfault.readers.kind import kind
from firstfault.readers.output import read_output
from firstfault.signatures import TARGETS, signatures
from firstfault.streams import lines, prefixes, wrappers
from firstfault.streams.lines import LONGEST_TEXT
from tests.readers.logs import ZONE, document

# What the patterns look for, so that a line of nothing else almost matches everywhere.
WORDS = [
    " ", "\t", "0", "9", "a", "A", "_", ".", ",", ":", ": ", "(", ")", "[", "]", "[[", "/", "//",
    "-", "=", "*", '"', "'", "<", "a.", "A.", "a/", "0,", "0-", "0-9,", "a: ", "a:b", "[a", "[a0",
    "[rank", "[rank0", "[rank0]:", "[rank0]: ", "[default0]:", "[a:0]", "[rank: 0] ", "0: ", "0:",
    "P0 0: ", "\x1b[", "\x1b]", "\x1b]0;", "\x1b[0m", "\x00",
    "srun: error: ", "srun: error: a: tasks 0", "srun: error: a: task 0: ", "srun: error: a: ",
    "srun: error: Node failure on ", "srun: Terminating ", "slurmstepd-", "slurmstepd: ",
    "slurmstepd: error: ", "Detected 1 oom-kill event in ", "Detected 1 oom-kill event(s) in StepId=",
    "*** STEP 1.0 ON a CANCELLED AT 2026-01-01T00:00:00 ", "*** STEP 1", "*** ", "line 1: ",
    "bash: line 1: ", "/slurm_script: line 1: 1 ",
    "Traceback (most recent call last):", "+ Exception Group Traceback (most recent call last):", "| ", "  | ",
    "+-----", "+-+", "╭── Traceback (most recent call last) ──", "│ ", "│ /", "│ a/", "Process a", "Exception in thread ",
    ' File "a", line 1, in a', "^", "^^ ", '  File "a", line 1, in ', '  File "', 'File "a", line 1',
    "ValueError: ", "a.ValueError", "Error", "Exception: ", "Fatal Python error: ", "Current thread ",
    "failed (exitcode: ", "failed (exitcode: 1) local_rank: 0 (pid: 1) of ", "E1130 15:56:25.805000 1 ",
    "[2024-03-12 02:29:19,601] a: [", "Sending process 1 closing signal SIG", "Received ",
    "Unable to shutdown process 1 via ", "SignalException: Process 1 got signal: ",
    "[0]:", "  rank      : ", "exitcode  : 1 (pid: 1)", "traceback : ", "=" * 20, "-" * 20 + " ",
    "6,1,1,", "6,1,1,-;", "[    1.000000] ", "<4>[ 1.000000]", "kern  :warn  : ", "kern        ",
    "Jan  1 00:00:00 a kernel: ", "2026-01-01T00:00:00+00:00 a kernel: ", "[Mon Jan  1 00:00:00 2026] ",
    "a invoked oom-killer: ", "invoked oom-killer: ", "memory: usage 1kB, limit ",
    "oom-kill:constraint=CONSTRAINT_MEMCG,", "oom-kill:constraint=CONSTRAINT_A,oom_memcg=a,",
    "task_memcg=", "task_memcg=a,task=", ",task=a", ",pid=1", ",pid=1,uid=1",
    "Out of memory: Killed process 1 (", "Killed process 1 (", "Killed process 1, UID 1, (",
    "Memory cgroup out of memory: Kill process 1 (a", "anon-rss:", "UID:", "Task in /a killed as ",
    "traps: a[1]: ", "a[1]: segfault at ", "a[1] trap a", "[1]: ", " in a", "NVRM: Xid (", "NVRM: Xid (a): 1, ",
    "pid='", "/slurm_a", "/slurm/uid_1/", "/slurm/uid_1/job_1/step_1", "a_slurmstepd.scope", "_slurmstepd",
    "slurmstepd.scope/job_1/", "SLURM_", "A_", '{"message": ', "2026-01-01T00:00:00", "20",
    "CUDA error", "NCCL WARN ", "NCCL", "what():  ", "what(): ", "Assertion `", ": Assertion `a", "` failed",
    "terminate called after throwing an instance of '", "failed to bind to ", "failed to listen on a",
    "EADDRINUSE", "gloo/transport/", "gloo/transport/a] ", "Command ", "CalledProcessError: Command ",
    "loss ", "loss nan", "grad ", "gradients are ", "DataLoader worker (pid 1", "DataLoader worker (pid(s) 1, ",
    "version `", "size mismatch for ", "unable to mmap ", "Timed out after 1", "numpy.", "a.b.", "omegaconf.errors.",
    "[a] Rendezvous complete for workers. Result:", "global_ranks=[", "[1, ", "1, ", "1,", "Worker group FAILED. 1/1 attempts left; ",
    "mpirun noticed that process rank 1 with PID 1 on node a", "mpirun detected that ", "RuntimeError: Horovod ",
    "Process name: [", "Process name: [a,1", "Exit code: ", "=   PID 1 RUNNING AT ", "Proc: ", "with errorcode ",
    "[2026-01-01 00:00:00,000] [INFO] [launch.py:1:a] ", "exits with return code = ", "Exception: process 1 terminated with ",
    "world_size", "world size: 1", "GLOBAL_RANK: 1, MEMBER: 1/", "step ", "step: 1", "1%|",
    "exceeded memory limit (1 > ", "exceeded ", "execve(): ", "slurmstepd-a: error: ", "train.py: error: ",
]  # fmt: skip


def hostile(word: str) -> str:
    return (word * (LONGEST_TEXT // len(word) + 1))[: LONGEST_TEXT - 1] + "\x01"


HOSTILE = [hostile(word) for word in WORDS] + [
    hostile(" ") + "x",
    "0: " + hostile("[rank0]: "),
    "[    1.000000] " + hostile("task_memcg=a,task="),
    "6,1,1,-;" + hostile("oom-kill:constraint=CONSTRAINT_A,task_memcg=,task="),
    "6,1,1,-;" + hostile("a[1]: "),
    "6,1,1,-;Out of memory: Killed process 1 (" + hostile("anon-rss:"),
    "ValueError: " + hostile("loss "),
]


Try = Callable[[str], object]


def patterns() -> list[tuple[str, Try]]:
    """Each pattern as its module uses it: searched for, or matched at a line's start."""
    modules = (
        boxes, cgroups, elastic, epilog, error_file, fatal, groups, kernel_faults, kernel_heads, kernel_oom,
        kernel_records, kernel_signs, slurm_output, stack_lines, times, prefixes, wrappers, lines,
        advance, launchers, table, world,
    )  # fmt: skip
    found: list[tuple[str, Try]] = []
    for module in modules:
        source = Path(module.__file__ or "").read_text()
        for name, value in sorted(vars(module).items()):
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                searched = re.search(rf"\b{name}\.(?:search|finditer|sub)\(", source)
                use: Try = value.search if searched else value.match
                found.append((f"{module.__name__.rpartition('.')[2]}.{name}", use))
    for target in TARGETS:
        found += [(each.signature.id, each.regex.search) for each in signatures(target)]
    return found


def seconds(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


@pytest.mark.slow
@pytest.mark.parametrize(("name", "use"), patterns(), ids=[name for name, _ in patterns()])
def test_a_pattern_does_not_backtrack(name: str, use: Try) -> None:
    # The kernel's reader cuts its lines first: a kernel line is of 1 KiB at most.
    limit = kernel_records.LONGEST if name.startswith(("kernel", "cgroups")) else LONGEST_TEXT
    slow = {
        text[:40]: spent for text in HOSTILE if (spent := seconds(partial(use, text[:limit]))) > 0.5
    }

    assert slow == {}


@pytest.mark.parametrize("text", HOSTILE, ids=[repr(text[:24]) for text in HOSTILE])
def test_a_hostile_line_costs_each_reader_under_a_second(text: str) -> None:
    found = document(f"{text}\n")

    assert seconds(lambda: read_output(found, ZONE)) < 1
    assert seconds(lambda: list(kernel_events(found, ZONE))) < 1
    assert seconds(lambda: list(quoted_kernel_events(found, ZONE))) < 1
    assert seconds(lambda: kind(found)) < 1
    assert seconds(lambda: slurm_cgroup(text[:2_048])) < 1
    assert seconds(lambda: looks_like_error_file(text.encode())) < 1
    assert seconds(lambda: times.zone(found)) < 1
