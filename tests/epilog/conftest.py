"""A compute node of its own for each test: queue, spool, configuration, and a real second user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.epilog.node import Node

ROOT = Path(__file__).resolve().parents[2]
# Two runs of these tests at a time do not take each other's user away.
USER = f"ffreader{os.getpid()}"


@pytest.fixture(scope="session")
def pyz() -> Iterator[Path]:
    """The archive as it is shipped."""
    folder = Path(tempfile.mkdtemp(prefix="firstfault-pyz-"))
    folder.chmod(0o755)
    target = folder / "firstfault-epilog.pyz"
    subprocess.run([ROOT / "epilog" / "build-pyz", "-o", target], check=True, stdout=-3)
    yield target
    shutil.rmtree(folder)


@pytest.fixture
def node(pyz: Path) -> Iterator[Node]:
    """A node that anyone may walk through, as a job's owner has to (pytest's own folder is 0700)."""
    folder = Path(tempfile.mkdtemp(prefix="firstfault-node-"))
    folder.chmod(0o755)
    node = Node(folder, pyz, ROOT / "epilog" / "firstfault-epilog")
    node.spool.mkdir()
    node.configure()
    yield node
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def owner() -> Iterator[pwd.struct_passwd]:
    """A user that is not root, made for these tests."""
    if os.geteuid() != 0:
        pytest.skip("needs root: makes a user and becomes it")
    subprocess.run(["/usr/sbin/useradd", "--no-create-home", "--user-group", USER], check=True)
    try:
        yield pwd.getpwnam(USER)
    finally:
        subprocess.run(["/usr/sbin/userdel", USER], check=True, stderr=subprocess.DEVNULL)
