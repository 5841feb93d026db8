"""Running one of Slurm's commands: a deadline, a byte cap, and no wait for what cannot die."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from firstfault.slurm.facts import FactsError

_REAP_S = 2.0
_running: set[subprocess.Popen[bytes]] = set()


class Output(msgspec.Struct, frozen=True):
    """What a command said. ``status`` None: it was killed, and ``stopped`` says why if it was us."""

    status: int | None
    stdout: bytes
    stderr: bytes
    stopped: str | None = None


def run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    deadline_s: float,
    cap_bytes: int,
    pass_fds: Sequence[int] = (),
) -> Output:
    """Runs ``argv`` (absolute path first) in a session of its own, with ``pass_fds`` open.

    At the deadline, or when it writes more than ``cap_bytes``, its whole group is killed; a
    child that does not die (it hangs in the kernel) is left behind. Raises OSError where it
    cannot be started.
    """
    process = subprocess.Popen(  # noqa: S603 - argv list, absolute path, no shell
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd="/",
        start_new_session=True,
        pass_fds=pass_fds,
    )
    assert process.stdout is not None and process.stderr is not None
    out, err, stopped = b"", b"", "an error"
    _running.add(process)
    try:
        out, err, stopped = _collect(process.stdout, process.stderr, deadline_s, cap_bytes)
    finally:
        _running.discard(process)
        process.stdout.close()
        process.stderr.close()
        # Until it is waited for, its pid and group cannot be another's.
        status = None if stopped else _finished(process)
        if status is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if _finished(process) is None:
                process.returncode = -signal.SIGKILL  # left behind: no warning about it at exit
    return Output(status, out, err, stopped or None)


def printed(
    program: Path,
    arguments: Sequence[str],
    question: str,
    answering: str,
    *,
    timeout_s: float,
    cap_bytes: int,
    more: Mapping[str, str] | None = None,
) -> str:
    """What one of Slurm's commands prints. ``question`` names it in messages, ``answering`` is what
    has to be up. Raises `FactsError`."""
    environment = {"LC_ALL": "C", "PATH": "/usr/bin:/bin", **(more or {})}
    if "SLURM_CONF" in os.environ:
        environment["SLURM_CONF"] = os.environ["SLURM_CONF"]
    try:
        output = run([str(program), *arguments], environment, timeout_s, cap_bytes)
    except OSError as error:
        raise FactsError(f"{program} cannot be run: {error.strerror}") from error
    if output.stopped is not None:
        raise FactsError(f"{program}: {output.stopped}. Is {answering}?")
    if output.status != 0:
        said = output.stderr.decode("utf-8", "replace").strip()[-500:]
        raise FactsError(f"{program} {question} ended with status {output.status}: {said}")
    return output.stdout.decode("utf-8", "replace")


def kill_all() -> None:
    """Kills what still runs, for a process that ends without waiting for it."""
    for process in list(_running):
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _collect(
    stdout: IO[bytes], stderr: IO[bytes], deadline_s: float, cap_bytes: int
) -> tuple[bytes, bytes, str]:
    deadline = time.monotonic() + deadline_s
    taken: dict[IO[bytes], bytearray] = {stdout: bytearray(), stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in taken:
            selector.register(stream, selectors.EVENT_READ, stream)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return bytes(taken[stdout]), bytes(taken[stderr]), f"no end after {deadline_s:g} s"
            for key, _ in selector.select(left):
                stream = key.data
                chunk = os.read(stream.fileno(), 65536)
                if not chunk:
                    selector.unregister(stream)
                taken[stream] += chunk
                if len(taken[stream]) > cap_bytes:
                    said = f"more than {cap_bytes} bytes of output"
                    return bytes(taken[stdout]), bytes(taken[stderr]), said
    return bytes(taken[stdout]), bytes(taken[stderr]), ""


def _finished(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(timeout=_REAP_S)
    except subprocess.TimeoutExpired:
        return None
