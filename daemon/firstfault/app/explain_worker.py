"""The diagnosis of a stranger's logs, in a process that may do little and not for long.

Run as ``python -m firstfault.app.explain_worker FD``, where FD is a file with the `Task`. Prints
an `Answer`. A file that takes too much time or memory ends this process alone.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from firstfault.diagnosis import diagnose
from firstfault.intake.files import gather_named
from firstfault.intake.site import install
from firstfault.model.texts import storable
from firstfault.model.verdict import Verdict
from firstfault.report.masking import masked
from firstfault.signatures import SignatureError


class Task(msgspec.Struct, frozen=True):
    """What to read: ``files`` are names and open file descriptors, ``hosts`` names and hosts;
    how much memory and time it may take; the folder of the site's signatures, "": none."""

    files: dict[str, int]
    hosts: dict[str, str]
    memory_bytes: int
    limit_s: int
    signatures: str = ""


class Answer(msgspec.Struct, frozen=True):
    """The verdict, or in a word why there is none ("memory")."""

    verdict: Verdict | None = None
    warnings: tuple[str, ...] = ()
    failed: str | None = None


def main(descriptor: int) -> None:
    """Reads the task and prints the answer."""
    with open(descriptor, "rb") as file:
        task = msgspec.json.decode(file.read(), type=Task)
    _confine(task)
    try:
        answer = _answer(task)
    except MemoryError:
        answer = Answer(failed="memory")
    sys.stdout.buffer.write(msgspec.json.encode(answer))


# Backstops: the parent ends this process at the deadline, unless it was killed itself.
def _confine(task: Task) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (task.memory_bytes, task.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (task.limit_s, task.limit_s + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(task.limit_s + 5)
    # The daemon goes first where there is a contest; its unit may not let it give way.
    with suppress(OSError):
        os.nice(10)


def _answer(task: Task) -> Answer:
    warnings: tuple[str, ...] = ()
    if task.signatures:
        try:
            install(Path(task.signatures))
        except SignatureError as error:
            warnings = (f"without the site's own signatures: {error}",)
    files = {name: Path(f"/proc/self/fd/{number}") for name, number in task.files.items()}
    gathered = gather_named(files, task.hosts)
    verdict = masked(storable(diagnose(gathered.case)))
    return Answer(verdict, (*warnings, *gathered.warnings))


if __name__ == "__main__":
    main(int(sys.argv[1]))
