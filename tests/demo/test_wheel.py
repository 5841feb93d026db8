"""What is installed from a wheel is what this tree holds."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
PACKAGES = {"daemon": "", "epilog": "", "templates": "firstfault/templates/"}


@pytest.mark.slow
def test_a_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    source = tmp_path / "source"
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in PACKAGES:
        shutil.copytree(TOP / folder, source / folder, ignore=unwanted)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(TOP / name, source / name)
    argv = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), "."]
    done = subprocess.run(
        argv, cwd=source, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert held == expected()


def expected() -> set[str]:
    """Every file of the packages, by the name under which it is installed."""
    found = set()
    for folder, prefix in PACKAGES.items():
        for path in (TOP / folder).rglob("*"):
            name = path.relative_to(TOP / folder)
            scripts = ("build-pyz", "compile-pyz", "install-node")
            installed = not name.parts[0].startswith("firstfault-") and name.parts[0] not in scripts
            if path.is_file() and installed and "__pycache__" not in name.parts:
                found.add(prefix + name.as_posix())
    return {name for name in found if ".egg-info" not in name}
