"""The archive that nodes get, and its other commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.epilog.conftest import ROOT
from tests.epilog.node import Node, file_of

BUILD = ROOT / "epilog" / "build-pyz"


def older_pythons() -> list[str]:
    """Other interpreters of this machine, the real files, 3.6 to 3.10 and after 3.11."""
    found = {}
    folders = [Path("/usr/bin"), *sorted(Path("/root/.pyenv/versions").glob("3.*/bin"))]
    for minor in (6, 7, 8, 9, 10, 12, 13, 14):
        for folder in folders:
            if os.access(folder / f"python3.{minor}", os.X_OK):
                found[minor] = str(folder / f"python3.{minor}")
    return list(found.values())


def test_it_is_the_same_bytes_each_time(tmp_path: Path, pyz: Path) -> None:
    copy = tmp_path / "copy" / "epilog"
    shutil.copytree(ROOT / "epilog", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))
    target = tmp_path / "again.pyz"

    subprocess.run([copy / "build-pyz", "-o", target], check=True, stdout=subprocess.DEVNULL)

    assert target.read_bytes() == pyz.read_bytes()
    assert not any(name.endswith(".pyc") for name in zipfile.ZipFile(pyz).namelist())


@pytest.mark.parametrize("python", older_pythons(), ids=lambda path: Path(path).name)
def test_any_python_builds_the_same_bytes(tmp_path: Path, python: str) -> None:
    copy = tmp_path / "epilog"
    shutil.copytree(ROOT / "epilog", copy, ignore=shutil.ignore_patterns("__pycache__"))
    targets = [tmp_path / "one.pyz", tmp_path / "other.pyz"]
    for builder, target in zip((python, sys.executable), targets, strict=True):
        other = {"LC_ALL": "C", "TZ": "Asia/Tokyo"} if builder == python else {}

        subprocess.run(
            [builder, "-I", copy / "build-pyz", "-o", target], check=True, stdout=-3, env=other
        )

    assert targets[0].read_bytes() == targets[1].read_bytes()


@pytest.mark.parametrize("python", older_pythons(), ids=lambda path: Path(path).name)
def test_it_collects_with_other_pythons(node: Node, python: str) -> None:
    log = (
        b"text\n" * 50_000
        + b"Error: %d\n" * 9000
        + b"." * 70_000
        + b"\npassword=x\nCUDA error: x\n"
    )
    (node.folder / "slurm-12.out").write_bytes(log)
    (node.folder / "task-12-0.out").write_text("ValueError: y\n")
    (node.folder / "trace_0").write_bytes(b"\x80\x02" * 50_000)
    node.configure(
        FIRSTFAULT_STEP_LOGS="%w/task-%j-%t.out", FIRSTFAULT_FLIGHT_RECORDER="%w/trace_*"
    )
    node.end_job()

    done = subprocess.run(
        [python, "-W", "error", *node.command()[1:]], env={}, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
    (record,) = node.records()
    assert file_of(record, "slurm-12.out").endswith(b"password=*\nCUDA error: x\n")
    whats = [file.what for file in record.files]
    assert whats == ["job-output", "rank-log", "flight-recorder"]


def test_check_tells_that_all_is_in_order(node: Node) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: a node's collector runs as root")
    node.configure(FIRSTFAULT_START="detach")
    node.kmsg.write_text("6,1,1,-;booted\n")

    done = subprocess.run(node.command("check"), env={}, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert all(line.startswith("ok") for line in done.stdout.splitlines())


def test_check_names_each_fault_with_its_remedy(node: Node) -> None:
    node.configure(FIRSTFAULT_START="detach", FIRSTFAULT_PYZ="/nonexistent", FIRSTFAULT_TYPO="1")
    node.spool.rmdir()
    node.queue.mkdir(mode=0o777)
    node.queue.chmod(0o777)
    (node.folder / "off").touch()

    done = subprocess.run(node.command("check"), env={}, capture_output=True, text=True)

    assert done.returncode == 1
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    for word in ("FIRSTFAULT_TYPO", "off", "chmod 700", "FIRSTFAULT_PYZ", "2770", "kernel log"):
        assert any(word in line for line in failed), word


def test_a_queue_that_others_may_write_to_is_refused(node: Node) -> None:
    node.end_job()
    node.queue.chmod(0o777)

    done = node.collect()

    assert done.returncode == 75
    assert "chmod 700" in done.stderr
    assert node.records() == []


def test_version_and_bad_usage(pyz: Path) -> None:
    version = subprocess.run([sys.executable, pyz, "version"], capture_output=True, text=True)
    nothing = subprocess.run([sys.executable, pyz], capture_output=True, text=True)

    assert (version.returncode, version.stdout.split()[0]) == (0, "firstfault-epilog")
    assert nothing.returncode == 2 and "usage" in nothing.stderr
