"""What the daemon tells systemd: ready, reloading, stopping, alive.

The protocol of sd_notify(3): a datagram of ``KEY=value`` lines to the socket that $NOTIFY_SOCKET
names ("@" stands for the NUL of an abstract one). Without that variable nobody is told.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping


class Systemd:
    """The service manager that started this process, if one did."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self.watchdog_s = _watchdog_s(environment)

    def ready(self) -> None:
        """The start, or a reload, is done."""
        self._tell("READY=1", "STATUS=working")

    def reloading(self) -> None:
        """The configuration is being read again."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._tell("RELOADING=1", f"MONOTONIC_USEC={now_us}")

    def stopping(self) -> None:
        """The daemon is about to end."""
        self._tell("STOPPING=1", "STATUS=stopping")

    def alive(self) -> None:
        """The watchdog may wait for another while."""
        self._tell("WATCHDOG=1")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                # Nobody's full queue may stop the daemon.
                sock.setblocking(False)
                sock.sendto("\n".join(lines).encode(), address)
        except OSError:
            pass  # who does not listen misses it; systemd's own time-outs follow from that


def _watchdog_s(environment: Mapping[str, str]) -> float | None:
    """Seconds within which systemd wants to hear of this process, None where it does not."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    microseconds = environment.get("WATCHDOG_USEC", "")
    if not (microseconds.isascii() and microseconds.isdigit()) or int(microseconds) == 0:
        return None
    return int(microseconds) / 1e6
