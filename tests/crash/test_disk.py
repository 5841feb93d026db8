"""A disk that is full or read-only for a while: told in the log, and made up afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash import stream
from tests.crash.daemons import Forked
from tests.crash.site import Site, Told, is_told_once_and_right
from tests.fakes.slack import SlackServer
from tests.intake.records import put

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("a small file system needs root")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"nothing may be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", disk], check=True)


def fill(disk: Path) -> Path:
    """Takes what is left of the disk; the file that takes it."""
    path = disk / "filler"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return path


def put_what_fits(site: Site, records: Sequence[stream.Record]) -> list[stream.Record]:
    """A node keeps what it cannot write, and tries again; what is left."""
    left = []
    for record in records:
        try:
            stream.put(site.spool, record)
        except OSError:
            left.append(record)
    return left


@pytest.mark.parametrize(
    ("count", "seconds"), [(36, 4.0), pytest.param(150, 60.0, marks=pytest.mark.soak)]
)
def test_a_full_disk_loses_nothing(
    tmp_path: Path,
    disk: Path,
    slack: SlackServer,
    undisturbed: dict[str, tuple[str, Told]],
    count: int,
    seconds: float,
) -> None:
    chance = random.Random(count)
    site = Site(tmp_path, f"sqlite:///{disk}/ff.db", slack, disk)
    known = stream.jobs(count)
    site.expect(known)
    records = stream.arrivals(known, chance)
    third = len(records) // 3
    with Forked(site.config) as daemon:
        daemon.wait_for("event=started")
        left = put_what_fits(site, records[:third])
        assert left == []
        daemon.wait_for("event=judged")
        filler = fill(disk)
        left = put_what_fits(site, records[third : 2 * third])
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.5)
            left = put_what_fits(site, left)
        said_while_full = daemon.said()
        filler.unlink()
        assert put_what_fits(site, [*left, *records[2 * third :]]) == []
        site.free_leases()
        site.come_to_rest(daemon, 300 + count)

    is_told_once_and_right(site, known, undisturbed)
    assert "No space left on device" in said_while_full or "disk is full" in said_while_full


def test_while_spool_and_reports_cannot_be_written_all_jobs_are_judged_and_told(
    tmp_path: Path, disk: Path, slack: SlackServer, undisturbed: dict[str, tuple[str, Told]]
) -> None:
    site = Site(tmp_path, f"sqlite:///{tmp_path}/ff.db", slack, disk)
    known = stream.jobs(54)
    site.expect(known)
    with Forked(site.config) as daemon:
        daemon.wait_for("event=started")
        os.kill(daemon.pid, signal.SIGSTOP)
        put(site.spool, b"no record", "0-damaged.json")
        site.put(known)
        files = len(list(site.spool.glob("*.gz")))
        remount(disk, "ro")
        os.kill(daemon.pid, signal.SIGCONT)

        slack.wait(sum(undisturbed[job.case][1].posted for job in known), 180)

        daemon.wait_for("event=delivery-failed .*channel=report .*Read-only file system")
        assert len(list(site.spool.glob("*.gz"))) == files > 100
        daemon.wait_for("event=records-stuck .*Read-only file system")
        remount(disk, "rw")
        (site.spool / "0-damaged.json").unlink()
        site.come_to_rest(daemon, 300)

    is_told_once_and_right(site, known, undisturbed)
