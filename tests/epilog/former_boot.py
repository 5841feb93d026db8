"""A boot of a node that is over: its journal as journald keeps it, and what pstore kept."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ID = "3f2a61cd-0f8e-4c1f-9a0b-5d6e7f801122"
REMOTE = Path("/lib/systemd/systemd-journal-remote")
# journald takes a line a little after it was said.
LATE_US = 1500


def missing() -> str | None:
    """What keeps a journal from being made here, None if nothing does."""
    return None if REMOTE.exists() else "systemd-journal-remote is not installed"


def write_journal(
    target: Path,
    began_at_s: float,
    lines: Sequence[tuple[float, str]],
    boot_id: str = ID,
    machine_id: str = "aaaa1111bbbb2222cccc3333dddd4444",
) -> None:
    """A journal file with kernel ``lines``: seconds since ``began_at_s``, and text."""
    blocks = []
    for seconds, text in lines:
        since_us = int(seconds * 1e6)
        fields = {
            "__REALTIME_TIMESTAMP": int(began_at_s * 1e6) + since_us + LATE_US,
            "__MONOTONIC_TIMESTAMP": since_us + LATE_US,
            "_BOOT_ID": boot_id.replace("-", ""),
            "_TRANSPORT": "kernel",
            "PRIORITY": 4,
            "SYSLOG_FACILITY": 0,
            "SYSLOG_IDENTIFIER": "kernel",
            "_HOSTNAME": "n3",
            "_MACHINE_ID": machine_id,
            "_SOURCE_MONOTONIC_TIMESTAMP": since_us,
            "MESSAGE": text,
        }
        blocks.append("".join(f"{name}={value}\n" for name, value in fields.items()))
    subprocess.run(
        [REMOTE, "--output", target, "-"],
        input="\n".join(blocks) + "\n",
        text=True,
        check=True,
        capture_output=True,
    )


def write_pstore(
    folder: Path, crashed_at_s: float, parts: Sequence[Sequence[tuple[float, str]]]
) -> None:
    """Parts of a panic's last words as EFI keeps them (fs/pstore/platform.c), the last first."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, lines in enumerate(parts, 1):
        path = folder / f"dmesg-efi-{int(crashed_at_s)}{number:02d}001"
        text = "".join(
            f"<4>[{int(seconds):5}.{int(seconds * 1e6) % 1_000_000:06}] {text}\n"
            for seconds, text in lines
        )
        path.write_text(f"Panic#1 Part{number}\n{text}")
        os.utime(path, (crashed_at_s, crashed_at_s))
