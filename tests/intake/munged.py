"""A munged of the tests' own, with a key of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MUNGED = "/usr/sbin/munged"


class Munged:
    """It answers at ``socket`` from `start` to `stop`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "socket"
        key = folder / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "seed-file": "seed"}
        options = [f"--{name}={self.folder / file}" for name, file in files.items()]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                # It must not outlive a pytest that was killed.
                ["setpriv", "--pdeathsig", "TERM", MUNGED, "--foreground", *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        end = time.monotonic() + 20
        while not self.socket.exists():
            assert self._process.poll() is None and time.monotonic() < end, self.log()
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            self._process = None

    def log(self) -> str:
        return (self.folder / "log").read_text("utf-8", "replace")

    def credential(self, payload: bytes, *options: str, uid: int | None = None) -> str:
        """What `munge` makes of ``payload``, as root or as ``uid``."""
        argv = ["munge", f"--socket={self.socket}", "--string=" + payload.decode(), *options]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, user=uid)
        return done.stdout.strip()


@contextmanager
def running() -> Iterator[Munged]:
    """A munged that runs while the block does."""
    # munged wants every folder above its files to be root's or its own.
    folder = Path(tempfile.mkdtemp(prefix="ff-munge-", dir="/run" if os.geteuid() == 0 else None))
    folder.chmod(0o755)
    munged = Munged(folder)
    munged.start()
    try:
        yield munged
    finally:
        munged.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def munged() -> Iterator[Munged]:
    """A real munged."""
    if not Path(MUNGED).exists():
        if os.environ.get("FIRSTFAULT_REQUIRE_CLUSTER") == "1":
            pytest.fail("FIRSTFAULT_REQUIRE_CLUSTER=1, and munge is not installed", pytrace=False)
        pytest.skip("munge is not installed")
    with running() as own:
        yield own
