"""A real munged with a key of its own: its socket, for `munge --socket` and `unmunge --socket`."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = "/usr/sbin/munged"


@contextlib.contextmanager
def running(key: bytes | None = None) -> Iterator[Path]:
    """The socket of a munged with this key (1024 bytes; a new one by default), while the block runs.

    Skips the test where munge is not installed, or this is not root.
    """
    if os.geteuid() != 0 or not os.access(PROGRAM, os.X_OK):
        pytest.skip("needs root and munge: runs a munged of its own")
    account = pwd.getpwnam("munge")
    # Within reach of every user, as munged wants it, and short: a socket's name has 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="firstfault-munge-", dir="/tmp"))
    try:
        (folder / "key").touch(0o600)
        (folder / "key").write_bytes(key or os.urandom(1024))
        for path in (folder, folder / "key"):
            os.chown(path, account.pw_uid, account.pw_gid)
        folder.chmod(0o711)
        places = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log"}
        places["seed-file"] = "seed"
        daemon = subprocess.Popen(
            [
                PROGRAM,
                "--foreground",
                *(f"--{key}={folder / name}" for key, name in places.items()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
        )
        try:
            _await(folder, daemon)
            yield folder / "socket"
        finally:
            daemon.kill()
            daemon.wait(10)
    finally:
        shutil.rmtree(folder)


def _await(folder: Path, daemon: subprocess.Popen[bytes]) -> None:
    stop_at = time.monotonic() + 20
    probe = ["/usr/bin/munge", "--no-input", f"--socket={folder / 'socket'}"]
    while subprocess.run(probe, capture_output=True, timeout=20).returncode != 0:
        log = folder / "log"
        told = log.read_text(errors="replace") if log.exists() else "no log"
        assert daemon.poll() is None, f"munged ended: {told}"
        assert time.monotonic() < stop_at, f"munged gives no credentials: {told}"
        time.sleep(0.02)
