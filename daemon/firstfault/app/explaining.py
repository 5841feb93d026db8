"""Explaining logs that a reader of the pages sends: one process each, bounded in everything.

What is sent lies in files without a name, which the kernel frees with the last process that has
them open, whatever happens to any of them.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from firstfault.app.explain_worker import Answer, Task
from firstfault.app.journal import say
from firstfault.config import Explain
from firstfault.model.explained import Explained, NotExplained, Upload
from firstfault.slurm.command import run

_ANSWER_BYTES = 32 << 20
_OUT_OF_TIME = (-signal.SIGXCPU, -signal.SIGALRM)
# The kernel's own killer.
_OUT_OF_MEMORY = (-signal.SIGKILL,)
_PROGRAM = (sys.executable, "-P", "-s", "-B", "-m", "firstfault.app.explain_worker")


class Processes:
    """Explains each in a process of its own; see `firstfault.model.explained.Explainer`."""

    def __init__(self, settings: Explain, signatures: str = "") -> None:
        self.max_bytes = settings.max_bytes
        self._settings = settings
        self._signatures = signatures

    def explain(self, uploads: Sequence[Upload], hosts: Mapping[str, str]) -> Explained:
        """The verdict on ``uploads``. Raises `NotExplained`."""
        for upload in uploads:
            upload.file.flush()
        task = Task(
            files={upload.name: upload.file.fileno() for upload in uploads},
            hosts=dict(hosts),
            memory_bytes=self._settings.max_memory_bytes,
            limit_s=max(1, round(self._settings.limit_s)),
            signatures=self._signatures,
        )
        answer = self._asked(task)
        if answer.verdict is None:
            raise NotExplained(self._too_much_memory())
        return Explained(answer.verdict, answer.warnings)

    def _asked(self, task: Task) -> Answer:
        descriptor = os.memfd_create("firstfault-explain", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(msgspec.json.encode(task))
            os.lseek(descriptor, 0, os.SEEK_SET)
            output = run(
                [*_PROGRAM, str(descriptor)],
                _environment(),
                self._settings.limit_s,
                _ANSWER_BYTES,
                [descriptor, *task.files.values()],
            )
        except OSError as error:
            said = f"No process could be started for it ({error.strerror}). Try again in a minute."
            raise NotExplained(said) from error
        finally:
            os.close(descriptor)
        if output.stopped is not None or output.status in _OUT_OF_TIME:
            raise NotExplained(
                f"It takes longer than {self._settings.limit_s:g} s here. Send less: the last "
                f"part of the output, and the kernel logs. `firstfault explain` on a machine of "
                f"yours has no such limit."
            )
        try:
            return msgspec.json.decode(output.stdout, type=Answer)
        except msgspec.DecodeError:
            if b"MemoryError" in output.stderr or output.status in _OUT_OF_MEMORY:
                raise NotExplained(self._too_much_memory()) from None
            last = output.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            say(logging.ERROR, "explain-failed", status=output.status, error=last)
            raise NotExplained(
                "The diagnosis of these files broke off: a defect of firstfault. The daemon's log "
                "(explain-failed) says where."
            ) from None

    def _too_much_memory(self) -> str:
        return (
            f"It takes more memory than {self._settings.max_memory_bytes >> 20} MiB, which is "
            f"all that it may have here. Send less: the last part of the output, and the kernel "
            f"logs. `firstfault explain` on a machine of yours has no such limit."
        )


# The same modules as ours, wherever they are installed.
def _environment() -> dict[str, str]:
    path = os.pathsep.join(each for each in sys.path if Path(each).is_absolute())
    return {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", "PYTHONPATH": path}
