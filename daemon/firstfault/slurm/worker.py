"""A process that answers questions, a line each, and that may hang or end at any moment.

For libraries that cannot be trusted with the daemon's own process: they block in the kernel, call
exit(), leak. The process is killed when it is late, and replaced after a number of questions.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

_REAP_S = 2.0
_CHATTER_BYTES = 4096


class WorkerError(RuntimeError):
    """No answer: the process could not be started, ended by itself, or was killed."""


class Worker:
    """Runs ``argv`` (absolute path first, the answers' file descriptor is appended to it).

    It is started with the first question, killed with all that it started when an answer takes
    longer than ``deadline_s`` or more than ``cap_bytes``, and replaced after ``questions``.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        deadline_s: float,
        cap_bytes: int,
        questions: int,
    ) -> None:
        self._argv = tuple(argv)
        self._environment = dict(environment)
        self._deadline_s = deadline_s
        self._cap_bytes = cap_bytes
        self._questions = questions
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._asked = 0

    def ask(self, question: bytes) -> bytes:
        """The line that answers ``question``, one line itself. Raises `WorkerError`."""
        with self._lock:
            if self._running is None:
                self._running = _Running(self._argv, self._environment)
                self._asked = 0
            self._asked += 1
            try:
                answer = self._running.ask(question, self._deadline_s, self._cap_bytes)
            except WorkerError:
                self._end()
                raise
            if self._asked >= self._questions:
                self._end()
            return answer

    def close(self) -> None:
        """Ends the process."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.end()


class _Running:
    """One such process."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        answers, answers_to = os.pipe()
        try:
            self.process = subprocess.Popen(  # noqa: S603 - argv list, absolute path, no shell
                [*argv, str(answers_to)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=dict(environment),
                cwd="/",
                start_new_session=True,
                pass_fds=(answers_to,),
            )
        except OSError as error:
            os.close(answers)
            raise WorkerError(f"{argv[0]} cannot be run: {error.strerror}") from error
        finally:
            os.close(answers_to)
        self.answers = os.fdopen(answers, "rb", buffering=0)
        self.chatter = b""

    def ask(self, question: bytes, deadline_s: float, cap_bytes: int) -> bytes:
        assert self.process.stdin is not None and self.process.stderr is not None
        try:
            self.process.stdin.write(question + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise WorkerError(self._how_it_ended()) from None
        deadline = time.monotonic() + deadline_s
        answer = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self.answers, selectors.EVENT_READ)
            selector.register(self.process.stderr, selectors.EVENT_READ)
            while not answer.endswith(b"\n"):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise WorkerError(f"no answer after {deadline_s:g} s")
                for key, _ in selector.select(left):
                    chunk = os.read(key.fd, 65536)
                    if key.fileobj is self.process.stderr:
                        self._hear(chunk, selector)
                    elif not chunk:
                        raise WorkerError(self._how_it_ended())
                    answer += chunk if key.fileobj is self.answers else b""
                if len(answer) > cap_bytes:
                    raise WorkerError(f"more than {cap_bytes} bytes of answer")
        return bytes(answer)

    def _hear(self, chunk: bytes, selector: selectors.BaseSelector) -> None:
        assert self.process.stderr is not None
        if not chunk:
            selector.unregister(self.process.stderr)
        self.chatter = (self.chatter + chunk)[-_CHATTER_BYTES:]

    def _how_it_ended(self) -> str:
        assert self.process.stderr is not None
        status = _finished(self.process)
        if status is not None:
            os.set_blocking(self.process.stderr.fileno(), False)
            with suppress(BlockingIOError):
                self.chatter += os.read(self.process.stderr.fileno(), 65536)
        said = self.chatter[-_CHATTER_BYTES:].decode("utf-8", "replace").strip()
        last = said.splitlines()[-1][:300] if said else "without a word"
        return f"it ended by itself ({status}): {last}"

    def end(self) -> None:
        """Kills it with all that it started; one that hangs in the kernel is left behind."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if _finished(self.process) is None:
            self.process.returncode = -signal.SIGKILL  # no warning about it at exit
        streams: tuple[IO[bytes] | None, ...] = (
            self.process.stdin,
            self.process.stderr,
            self.answers,
        )
        for stream in streams:
            # What was not written to a dead process is lost with it.
            with suppress(OSError):
                if stream is not None:
                    stream.close()


def _finished(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(timeout=_REAP_S)
    except subprocess.TimeoutExpired:
        return None
