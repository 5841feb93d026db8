"""A program of the node's, run within limits."""

import os
import select
import signal
import subprocess
import time
from typing import List, NamedTuple, Optional, Sequence


class Output(NamedTuple):
    """What the program printed; ``fault`` says why that may not be all, None where it is."""

    data: bytes
    fault: Optional[str]


def output(argv: Sequence[str], deadline_s: float, byte_cap: int) -> Output:
    """The standard output of ``argv`` (an absolute path first), at most ``byte_cap`` bytes.

    The program and its group are killed at the deadline, and left behind when they do not die.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 (argv is fixed by the caller)
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        return Output(b"", f"{argv[0]}: {error.strerror}")
    assert process.stdout is not None
    data, fault = _read(process.stdout.fileno(), deadline_s, byte_cap)
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    stop_at = time.monotonic() + 1.0
    while process.poll() is None and time.monotonic() < stop_at:
        time.sleep(0.005)
    process.stdout.close()
    if fault is not None:
        fault = f"{argv[0]}: {fault}"
    return Output(data, fault)


def _read(handle: int, deadline_s: float, byte_cap: int) -> Output:
    stop_at = time.monotonic() + deadline_s
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    parts: List[bytes] = []
    size = 0
    while size < byte_cap:
        left = stop_at - time.monotonic()
        if left <= 0:
            return Output(b"".join(parts), f"did not end within {deadline_s:g} s")
        if not poll.poll(left * 1000):
            continue
        part = os.read(handle, 1 << 16)
        if not part:
            return Output(b"".join(parts), None)
        parts.append(part)
        size += len(part)
    return Output(b"".join(parts), f"printed more than {byte_cap} bytes")
