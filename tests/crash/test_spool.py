"""Bursts of files, lost events and a spool that is replaced: each record is found all the same."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from firstfault.store.database import connect
from firstfault.store.schema import evidence, jobs
from tests.crash import stream
from tests.crash.daemons import Forked
from tests.crash.site import Site, Told, is_told_once_and_right
from tests.fakes.slack import SlackServer
from tests.intake.records import fields, put

pytestmark = pytest.mark.slow

# A write aside and a rename are created, modified, closed, moved from and moved to.
EVENTS = 5
NODES = 500


def queue_length() -> int:
    return int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


@pytest.mark.parametrize("count", [4500, pytest.param(20_000, marks=pytest.mark.soak)])
def test_a_burst_that_overflows_the_watch_is_taken_in_whole(
    tmp_path: Path, slack: SlackServer, count: int
) -> None:
    site = Site(tmp_path, f"sqlite:///{tmp_path}/ff.db", slack, slurm={"source": "none"})
    with Forked(site.config) as daemon:
        daemon.wait_for("event=started")
        os.kill(daemon.pid, signal.SIGSTOP)
        for number in range(count):
            job, node = divmod(number, NODES)
            put(site.spool, fields(f"n{node + 1}", f"{job + 1}", nodes=f"n[1-{NODES}]"))
        assert count * EVENTS > queue_length()
        begun = time.monotonic()
        os.kill(daemon.pid, signal.SIGCONT)
        site.come_to_rest(daemon, 300 + count / 100)

    print(f"\n{count} files taken in and judged in {time.monotonic() - begun:.0f} s")
    with closing(connect(site.store_url)) as database, database.reading() as connection:
        assert (
            connection.execute(sa.select(sa.func.count()).select_from(evidence)).scalar() == count
        )
        reported = connection.execute(sa.select(jobs.c.nodes_reported)).scalars().all()
    assert reported == [NODES] * (count // NODES)


def test_a_spool_that_is_replaced_is_found_by_the_scan(
    tmp_path: Path, slack: SlackServer, undisturbed: dict[str, tuple[str, Told]]
) -> None:
    site = Site(tmp_path, f"sqlite:///{tmp_path}/ff.db", slack)
    known = stream.jobs(len(stream.RECORDED))
    site.expect(known)
    with Forked(site.config) as daemon:
        daemon.wait_for("event=started")
        site.spool.rename(tmp_path / "before")
        daemon.wait_for("event=worker-error worker=intake .*No such file or directory")
        (tmp_path / "before").rename(site.spool)
        site.put(known)
        site.come_to_rest(daemon, 180)

    is_told_once_and_right(site, known, undisturbed)


def test_a_record_that_cannot_be_put_aside_holds_up_no_other(
    tmp_path: Path, slack: SlackServer, undisturbed: dict[str, tuple[str, Told]]
) -> None:
    site = Site(tmp_path, f"sqlite:///{tmp_path}/ff.db", slack)
    known = stream.jobs(len(stream.RECORDED))
    site.expect(known)
    damaged = put(site.spool, b"no record", "0-damaged.json")
    with Forked(site.config) as daemon:
        daemon.wait_for("event=record-refused")
        quarantine = site.spool / "quarantine"
        quarantine.rename(tmp_path / "away")
        quarantine.write_text("")
        put(site.spool, b"no record", damaged.name)
        site.put(known)

        daemon.wait_for("event=records-stuck .*0-damaged.json .*quarantine")
        slack.wait(sum(outcome.posted for _, outcome in undisturbed.values()), 180)

        assert damaged.exists()
        quarantine.unlink()
        (tmp_path / "away").rename(quarantine)
        daemon.wait_for("event=record-refused .*0-damaged.json.1")
        site.come_to_rest(daemon, 180)
    for path in quarantine.iterdir():
        path.unlink()

    is_told_once_and_right(site, known, undisturbed)
