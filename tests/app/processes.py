"""The daemon as a process of its own, on a folder of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import psutil

SERVE = "from firstfault.cli_daemon import serve; serve()"


def configure(folder: Path, **tables: Mapping[str, object]) -> Path:
    """A configuration below ``folder``: no Slurm, a free port, no waiting."""
    known: dict[str, dict[str, object]] = {
        "spool": {"dir": str(folder / "spool")},
        "store": {"url": f"sqlite:///{folder}/ff.db"},
        "slurm": {"source": "none"},
        "report": {"dir": str(folder / "reports")},
        "web": {"port": 0},
    }
    for name, keys in tables.items():
        known.setdefault(name, {}).update(keys)
    lines = ["allow_root = true"]
    for name, table in known.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_toml(value)}" for key, value in table.items()]
    path = folder / "ff.toml"
    path.write_text("\n".join(lines) + "\n")
    (folder / "spool").mkdir(exist_ok=True)
    (folder / "reports").mkdir(exist_ok=True)
    return path


def command(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-c", code, *arguments]


def serve_once(config: Path) -> subprocess.CompletedProcess[str]:
    """A daemon that ends by itself, because it cannot start or has nothing to do."""
    return subprocess.run(
        command(SERVE, "--config", str(config), "--once-idle"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def children(module: str) -> list[psutil.Process]:
    """The processes below this one that run ``module``."""
    # of a process that has ended, `process_iter` tells no command line
    ours = {each.pid for each in psutil.Process().children(recursive=True)}
    return [
        each
        for each in psutil.process_iter(["cmdline"])
        if each.pid in ours and module in " ".join(each.info["cmdline"] or ())
    ]


class Daemon:
    """A running `serve`; its log is kept in ``log``."""

    def __init__(self, config: Path, *arguments: str, **environment: str) -> None:
        self.log = config.with_name("log")
        self._out = self.log.open("ab")
        self.begun = self.log.stat().st_size
        self.process = subprocess.Popen(
            command(SERVE, "--config", str(config), *arguments),
            stdout=self._out,
            stderr=self._out,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )

    def said(self) -> str:
        return self.log.read_bytes()[self.begun :].decode()

    def wait_for(self, pattern: str, timeout_s: float = 30) -> re.Match[str]:
        """Waits until the log holds ``pattern``."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            match = re.search(pattern, self.said())
            if match:
                return match
            assert self.process.poll() is None, self.said()
            time.sleep(0.02)
        raise AssertionError(f"no {pattern!r} in the log:\n{self.said()}")

    def lives(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def stop(self, number: signal.Signals = signal.SIGTERM, timeout_s: float = 20) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout_s)

    def __enter__(self) -> Daemon:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        self._out.close()


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
