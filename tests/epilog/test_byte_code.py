"""The archive of byte code beside the plain one: used where it fits, never needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.epilog.conftest import ROOT
from tests.epilog.node import Node, run_script
from tests.epilog.test_archive import older_pythons

COMPILE = ROOT / "epilog/compile-pyz"


@pytest.fixture
def installed(node: Node) -> Path:
    """The node's archive in a folder of its own, as an installation has it."""
    archive = node.folder / "lib" / "firstfault-epilog.pyz"
    archive.parent.mkdir()
    shutil.copy(node.pyz, archive)
    node.configure(FIRSTFAULT_PYZ=str(archive))
    return archive


def compiled(archive: Path, python: str = sys.executable) -> Path:
    """The archive of byte code that ``python`` makes."""
    done = subprocess.run(
        [python, "-I", COMPILE, archive], check=True, capture_output=True, text=True
    )
    return Path(done.stdout.strip())


@pytest.mark.parametrize(
    "python", [sys.executable, *older_pythons()], ids=lambda path: Path(path).name
)
def test_where_it_fits_the_node_s_python_no_source_is_read(
    node: Node, installed: Path, python: str
) -> None:
    node.configure(FIRSTFAULT_PYZ=str(installed), FIRSTFAULT_PYTHON=python)
    compiled(installed, python)
    installed.write_bytes(b"#!no archive\n")
    (node.folder / "slurm-12.out").write_text("ValueError: bad\n")
    node.end_job()

    done = run_script(node, "collect")

    assert (done.returncode, done.stderr) == (0, "")
    (record,) = node.records()
    assert "job-output" in {file.what for file in record.files}


def test_made_for_another_python_it_is_left_alone(node: Node, installed: Path) -> None:
    made = compiled(installed)
    made.rename(made.with_name("firstfault-epilog.cpython-35.pyz"))
    node.end_job()

    done = run_script(node, "collect")

    assert (done.returncode, done.stderr) == (0, "")
    assert len(node.records()) == 1


@pytest.mark.parametrize(
    "damage", ["empty", "zeros", "garbage", "cut", "zeroed", "folder", "other magic"]
)
def test_damaged_it_costs_nothing_but_time(node: Node, installed: Path, damage: str) -> None:
    made = compiled(installed)
    data = made.read_bytes()
    if damage == "folder":
        made.unlink()
        made.mkdir()
    else:
        middle = len(data) // 3
        zeroed = data[:middle] + bytes(middle) + data[2 * middle :]
        magic = data[data.index(b"__main__.pyc") + 12 :][:4]
        made.write_bytes(
            {
                "empty": b"",
                "zeros": bytes(len(data)),
                "garbage": os.urandom(4096),
                "cut": data[: 2 * middle],
                "zeroed": zeroed,
                "other magic": data.replace(magic, b"\x01\x02\r\n"),
            }[damage]
        )
    node.end_job()

    done = run_script(node, "collect")

    assert done.returncode == 0
    assert len(node.records()) == 1
    assert not (node.queue / "failures").exists()


def test_the_installer_makes_it_with_the_node_s_own_python(node: Node, installed: Path) -> None:
    """From standard input, as in an image's own root."""
    with COMPILE.open() as program:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-", installed],
            stdin=program,
            check=True,
            capture_output=True,
            text=True,
        )

    tag = sys.implementation.cache_tag
    assert done.stdout.strip() == str(installed.with_name(f"firstfault-epilog.{tag}.pyz"))
    assert len(list(installed.parent.iterdir())) == 2
