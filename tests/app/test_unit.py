"""The daemon's systemd unit: sound and hardened. tests/systemd runs it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "etc" / "systemd" / "firstfaultd.service"
DOCUMENTED = ROOT / "docs" / "daemon.md"

# The daemon needs the network, unix sockets and files for its group.
MOST_EXPOSURE = 1.3

needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@needs_analyze
def test_the_unit_is_sound(tmp_path: Path) -> None:
    # It looks whether the program is there.
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text()))

    verified = analyze("verify", "--man=no", str(unit))

    assert (verified.returncode, verified.stderr) == (0, "")


@needs_analyze
def test_the_unit_is_hardened_as_documented() -> None:
    said = analyze("security", "--offline=yes", "--no-pager", str(UNIT)).stdout

    match = re.search(r"Overall exposure level for firstfaultd.service: ([0-9.]+)", said)
    assert match is not None, said
    assert float(match[1]) <= MOST_EXPOSURE
    told = re.search(
        r"`systemd-analyze security` gives it ([0-9.]+) \(.*; systemd (\d+)\)",
        DOCUMENTED.read_text(),
    )
    assert told is not None
    # Other versions count otherwise.
    same = analyze("--version").stdout.startswith(f"systemd {told[2]} ")
    assert not same or match[1] == told[1]
