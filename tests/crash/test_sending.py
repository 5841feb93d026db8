"""Node and daemon are killed while the one sends and the other stores: each record is stored once."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from firstfault.demo import free_port
from firstfault.store.database import connect
from firstfault.store.schema import evidence
from tests.app.processes import configure
from tests.crash.daemons import Forked
from tests.epilog.conftest import ROOT
from tests.epilog.node import Node
from tests.epilog.test_push import forget_waits, refused, sending_to, waiting


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a key that node and daemon have."""
    place = Path(tempfile.mkdtemp(prefix="firstfault-sending-"))
    place.chmod(0o755)
    (place / "key").touch(0o400)
    (place / "key").write_bytes(os.urandom(32).hex().encode())
    yield place
    shutil.rmtree(place)


def daemon_of(folder: Path, port: int) -> Path:
    """The configuration of a daemon that takes records at ``port``."""
    for name in ("incoming", "reports"):
        (folder / name).mkdir()
    return configure(
        folder,
        spool={"dir": str(folder / "incoming")},
        intake={
            "enabled": True,
            "port": port,
            "munge": False,
            "key_file": str(folder / "key"),
        },
        store={"url": f"sqlite:///{folder}/store.db"},
        slurm={"source": "none"},
        report={"dir": str(folder / "reports")},
        web={"enabled": False},
    )


def node_of(folder: Path, port: int) -> Node:
    """A node that sends there."""
    pyz = folder / "firstfault-epilog.pyz"
    subprocess.run([ROOT / "epilog" / "build-pyz", "-o", pyz], check=True, stdout=-3)
    node = Node(folder, pyz, ROOT / "epilog" / "firstfault-epilog")
    node.configure(**sending_to(node, f"http://127.0.0.1:{port}"))
    return node


@pytest.mark.slow
@pytest.mark.parametrize(
    "count", [4, pytest.param(60, marks=pytest.mark.soak)], ids=["short", "long"]
)
def test_whichever_is_killed_and_when_each_record_is_stored_once(folder: Path, count: int) -> None:
    port = free_port()
    config, node = daemon_of(folder, port), node_of(folder, port)
    chance = random.Random(count)
    for number in range(count):
        node.end_job(SLURM_JOB_ID=str(100 + number))
        with Forked(config) as daemon:
            daemon.wait_for("event=intake ")
            forget_waits(node)
            collector = subprocess.Popen(node.command(), env={}, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.1, 0.8))
            first, second = chance.sample([daemon.kill, collector.kill], 2)
            first()
            time.sleep(chance.uniform(0.0, 0.1))
            second()
            collector.wait()
        for path in node.waiting("claimed"):
            path.rename(path.with_name("0." + path.name.partition(".")[2]))
    forget_waits(node)

    with Forked(config) as daemon:
        daemon.wait_for("event=intake ")
        done = node.collect()

    with closing(connect(f"sqlite:///{folder}/store.db")) as database, database.reading() as rows:
        stored = [tuple(row) for row in rows.execute(sa.select(evidence.c.record_id))]
    assert done.returncode == 0
    assert len(stored) == len(set(stored)) == count
    assert waiting(node) == refused(node) == node.waiting() == []
