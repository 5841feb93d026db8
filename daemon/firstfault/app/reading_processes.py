"""A large job's documents are read by several processes: one Python uses one processor.

Each is `firstfault.app.reading_worker`, lives as long as one job is read, and ends by itself when
its input ends, whatever became of the daemon. What one of them cannot do is done here.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from firstfault.app.journal import say
from firstfault.app.reading_worker import receive, send
from firstfault.model.document import Document
from firstfault.runs.reading import Read, read_document
from firstfault.signatures import Compiled, site_signatures

# Below this a job is read sooner than the processes have begun.
MANY = 4_000
_MOST_PROCESSES = 4
# What is given to a process at once.
_CHUNK = 250
_CHUNK_BYTES = 16 << 20
_PROGRAM = (sys.executable, "-I", "-B", "-m", "firstfault.app.reading_worker")
_STOP_S = 5.0


class ReadingProcesses:
    """Reads documents, in order; ``many`` and more of them by ``processes`` processes, by default
    one for each processor that this one may use."""

    def __init__(self, processes: int | None = None, many: int = MANY) -> None:
        own = len(os.sched_getaffinity(0))
        self._processes = min(own, _MOST_PROCESSES) if processes is None else processes
        self._many = many

    def __call__(self, documents: Sequence[Document]) -> list[Read]:
        """What each of the documents tells."""
        if self._processes < 2 or len(documents) < self._many:
            return [read_document(document) for document in documents]
        chunks = list(_chunks(documents))
        with (
            _helpers(min(self._processes, len(chunks)), site_signatures()) as helpers,
            ThreadPoolExecutor(self._processes, "reading") as pool,
        ):

            def read(chunk: Sequence[Document]) -> list[Read]:
                helper = helpers.get()
                try:
                    return helper.read(chunk)
                finally:
                    helpers.put(helper)

            return [each for found in pool.map(read, chunks) for each in found]


def _chunks(documents: Sequence[Document]) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    size = 0
    for document in documents:
        if len(chunk) == _CHUNK or size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(document)
        size += sum(len(excerpt.stored) for excerpt in document.excerpts)
    if chunk:
        yield chunk


class _Helper:
    """One process; where it is gone, its work is done in this one."""

    def __init__(self, process: subprocess.Popen[bytes] | None) -> None:
        self._process = process

    def read(self, chunk: Sequence[Document]) -> list[Read]:
        found = self._asked(chunk)
        if found is None:
            return [read_document(document) for document in chunk]
        return [
            msgspec.structs.replace(read, document=document)
            for read, document in zip(found, chunk, strict=True)
        ]

    def begin(self, site: Sequence[Compiled]) -> None:
        self._tell(pickle.dumps(tuple(site)))

    def _asked(self, chunk: Sequence[Document]) -> list[Read] | None:
        if not self._tell(pickle.dumps(list(chunk), pickle.HIGHEST_PROTOCOL)):
            return None
        assert self._process is not None and self._process.stdout is not None
        answer = receive(self._process.stdout)
        if answer is None:
            self._lose("it ended")
            return None
        found: list[Read] = pickle.loads(answer)  # noqa: S301 - of this daemon's own process
        return found

    def _tell(self, message: bytes) -> bool:
        if self._process is None or self._process.stdin is None:
            return False
        try:
            send(self._process.stdin, message)
        except OSError as error:
            self._lose(error)
            return False
        return True

    def _lose(self, why: object) -> None:
        say(logging.WARNING, "reader-lost", error=why)
        self.end()

    def end(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _helpers(count: int, site: Sequence[Compiled]) -> Iterator[queue.SimpleQueue[_Helper]]:
    every: list[_Helper] = []
    waiting: queue.SimpleQueue[_Helper] = queue.SimpleQueue()
    try:
        for _ in range(count):
            every.append(_Helper(_started()))
            every[-1].begin(site)
            waiting.put(every[-1])
        yield waiting
    finally:
        for helper in every:
            helper.end()


def _started() -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(  # noqa: S603 - argv list, absolute path, no shell
            _PROGRAM,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
            start_new_session=True,
        )
    except OSError as error:
        say(logging.WARNING, "reader-lost", error=error)
        return None
