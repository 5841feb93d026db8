"""Daemons that start in a moment: each is forked from a process that has imported the program.

What runs is `firstfault serve` in a process of its own, with its own log and signals; only the
second that importing takes is spent once.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import re
import signal
import time
from pathlib import Path
from types import TracebackType

_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["firstfault.cli_daemon", "alembic.command", "psycopg"])
_PR_SET_PDEATHSIG = 1  # prctl(2)


class Forked:
    """A running `firstfault serve`; its log is ``log``, beside the configuration."""

    def __init__(self, config: Path, *arguments: str) -> None:
        self.log = config.with_name("log")
        self.begun = self.log.stat().st_size if self.log.exists() else 0
        self.process = _FORKED.Process(target=_serve, args=(config, arguments, self.log))
        self.process.start()
        assert self.process.pid is not None
        self.pid = self.process.pid

    def said(self) -> str:
        """Its log so far."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(self.begun)
            return log.read().decode()

    def lives(self) -> bool:
        """False once it has ended."""
        return self.process.is_alive()

    def wait_for(self, pattern: str, timeout_s: float = 120) -> re.Match[str]:
        """Waits until the log holds ``pattern``."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            match = re.search(pattern, self.said())
            if match:
                return match
            assert self.lives(), self.said()
            time.sleep(0.02)
        raise AssertionError(f"no {pattern!r} in the log:\n{self.said()}")

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self.process.kill()
        self.process.join(30)

    def end(self, timeout_s: float = 120) -> int | None:
        """Waits until it ends by itself; its exit status, None where it does not end."""
        self.process.join(timeout_s)
        return self.process.exitcode

    def __enter__(self) -> Forked:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.lives():
            self.kill()


def _serve(config: Path, arguments: tuple[str, ...], log: Path) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    from firstfault.cli_daemon import serve

    serve(["--config", str(config), *arguments])


def open_and_die(url: str, statement: int) -> int | None:
    """A process that opens the store and is killed as it begins its ``statement``-th statement
    or commit (0: the first); its exit status."""
    process = _FORKED.Process(target=_open, args=(url, statement))
    process.start()
    process.join(60)
    return process.exitcode


def _open(url: str, statement: int) -> None:
    import sqlalchemy as sa

    from firstfault.store.database import open_store

    left = iter(range(statement, -1, -1))

    def count(*_: object) -> None:
        if next(left, None) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(sa.engine.Engine, "before_cursor_execute", count)
    sa.event.listen(sa.engine.Engine, "commit", count)
    open_store(url).close()
