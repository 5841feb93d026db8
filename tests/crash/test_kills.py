"""A daemon that is killed over and over: nothing is lost, and nothing is said otherwise."""

from __future__ import annotations

import datetime as dt
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.store.database import connect
from firstfault.store.schema import deliveries, jobs, verdicts
from tests.app.processes import configure
from tests.crash import stream
from tests.crash.daemons import Forked
from tests.databases import PostgreSQL
from tests.fakes.sacct import SacctProgram
from tests.fakes.slack import Message, SlackServer

LONG_AGO = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
# Where a worker has committed, and has not yet done what follows.
MOMENTS = ("started", "records", "judged", "slurm-facts", "delivered")


class Site:
    """One daemon's surroundings: its folders, sacct, receiver and store."""

    def __init__(self, folder: Path, store_url: str, slack: SlackServer) -> None:
        self.folder = folder
        self.slack = slack
        self.store_url = store_url
        self.sacct = SacctProgram(folder / "slurm")
        self.spool = folder / "spool"
        self.config = configure(
            folder,
            spool={"scan_s": 0.5},
            store={"url": store_url},
            slurm={"source": "sacct", "sacct": str(self.sacct.path), "first_ask_s": 0.2},
            judge={"settle_s": 5.0, "early_s": 0.5},
            slack={"webhook": slack.url},
            web={"enabled": False},
        )

    def finish(self, timeout_s: float) -> None:
        """A last daemon does what is left."""
        with Forked(self.config, "--once-idle") as daemon:
            assert daemon.end(timeout_s) == 0, daemon.said()[-4000:]

    def free_leases(self) -> None:
        """What a killed worker had claimed is free after its lease: here, at once."""
        with closing(connect(self.store_url)) as database, database.writing() as connection:
            connection.execute(jobs.update().values(lease_until=None))
            for table, column in ((jobs, "ask_at"), (deliveries, "next_at")):
                known = table.c[column]
                connection.execute(
                    table.update().where(known.is_not(None)).values({column: LONG_AGO})
                )


class Told(NamedTuple):
    """What became of a job: its last verdict's bytes, the revision that was posted last."""

    verdict: bytes
    posted: bool


def told(site: Site) -> dict[str, Told]:
    """Every job in the store."""
    query = sa.select(jobs.c.job, verdicts.c.body, jobs.c.posted).join(
        verdicts,
        sa.and_(verdicts.c.job_key == jobs.c.key, verdicts.c.revision == jobs.c.verdict_revision),
    )
    with closing(connect(site.store_url)) as database, database.reading() as connection:
        rows = connection.execute(query).all()
    assert len({row.job for row in rows}) == len(rows), "a job has come apart into incarnations"
    return {row.job: Told(row.body, row.posted > 0) for row in rows}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, Told]]:
    """What a daemon that is left alone tells of each recorded case: job id and outcome."""
    folder = tmp_path_factory.mktemp("undisturbed")
    known = stream.jobs(len(stream.RECORDED))
    with SlackServer() as slack:
        site = Site(folder, f"sqlite:///{folder}/ff.db", slack)
        site.sacct.know({job.id: job.rows for job in known})
        for job in known:
            for record in job.records:
                stream.put(site.spool, record)
        site.finish(60)
    outcomes = told(site)
    return {job.case: (job.id, outcomes[job.id]) for job in known}


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    with SlackServer() as server:
        yield server


def lives_and_dies(site: Site, records: list[stream.Record], chance: random.Random) -> str:
    """One life of a daemon, while ``records`` come in; what ended it."""
    with Forked(site.config) as daemon:
        how, is_over = _fate(site, daemon, chance)
        end = time.monotonic() + 10
        while not is_over() and time.monotonic() < end:
            if records:
                stream.put(site.spool, records.pop(0))
            time.sleep(chance.uniform(0, 0.004))
        daemon.kill()
        assert daemon.process.exitcode == -signal.SIGKILL, daemon.said()[-4000:]
    site.slack.answered = lambda message: None
    for record in records:
        stream.put(site.spool, record)
    return how


def _fate(site: Site, daemon: Forked, chance: random.Random) -> tuple[str, Callable[[], bool]]:
    """How a daemon is to die: at a time, after a line of its log, or by the receiver's hand."""
    kind = chance.choice(("time", "line", "line", "answer"))
    count = chance.randint(1, 6)
    if kind == "time":
        end = time.monotonic() + chance.uniform(0, 1.5)
        return "time", lambda: time.monotonic() > end
    if kind == "line":
        event = f"event={chance.choice(MOMENTS)} "
        return "line", lambda: daemon.said().count(event) >= count

    left = iter(range(count - 1, -1, -1))

    def kill_at_the_last(message: Message) -> None:
        if next(left, None) == 0:
            with suppress(ProcessLookupError):
                os.kill(daemon.pid, signal.SIGKILL)

    site.slack.answered = kill_at_the_last
    return "answer", lambda: not daemon.lives()


def is_told_once_and_right(
    site: Site, known: Sequence[stream.Job], undisturbed: dict[str, tuple[str, Told]]
) -> Counter[str]:
    """Asserts that nothing is lost or otherwise; returns how often each delivery was received."""
    outcomes = told(site)

    assert list(site.spool.glob("*.gz")) == []
    assert list((site.spool / "quarantine").iterdir()) == []
    assert outcomes.keys() == {job.id for job in known}
    for job in known:
        other, outcome = undisturbed[job.case]
        assert outcomes[job.id].verdict == stream.renumbered(outcome.verdict, other, job.id)
        if outcome.posted:
            assert outcomes[job.id].posted
            assert (site.folder / "reports" / f"{job.id}.html").stat().st_size > 10_000
    with closing(connect(site.store_url)) as database, database.reading() as connection:
        rows = connection.execute(
            sa.select(deliveries, jobs.c.job, jobs.c.posted).join(
                jobs, jobs.c.key == deliveries.c.job_key
            )
        ).all()
    received = Counter(_delivery_id(message) for message in site.slack.messages)
    by_slack = [row for row in rows if row.channel == "slack"]
    for row in rows:
        assert row.state in (j.SENT, j.SUPERSEDED) or row.error == "nothing to take back", row
    assert received.keys() >= {row.delivery_id for row in by_slack if row.state == j.SENT}
    assert received.keys() <= {row.delivery_id for row in by_slack}
    assert site.slack.refused == []
    last = {row.job: row.state for row in by_slack if row.revision == row.posted}
    for job in known:
        if undisturbed[job.case][1].posted:
            assert last[job.id] == j.SENT
    return received


def _delivery_id(message: Message) -> str:
    found = re.search(r"delivery ([0-9a-f]{12})", str(message.payload["blocks"][-1]))
    assert found is not None, message.payload
    return found[1]


def kill_again_and_again(
    site: Site, count: int, kills: int, chance: random.Random
) -> tuple[list[stream.Job], Counter[str]]:
    """The stream of ``count`` jobs comes in during ``kills`` lives; what ended them."""
    known = stream.jobs(count)
    site.sacct.know({job.id: job.rows for job in known})
    records = stream.arrivals(known, chance)
    share = -(-len(records) // kills)
    ends: Counter[str] = Counter()
    for number in range(kills):
        ends[lives_and_dies(site, records[number * share : (number + 1) * share], chance)] += 1
    return known, ends


def figures(received: Counter[str], ends: Counter[str], begun: float) -> None:
    print(
        f"\nended {ends.total()} times ({dict(sorted(ends.items()))}): {len(received)} messages and"
        f" {doubles(received)} doubles of them, {time.monotonic() - begun:.0f} s"
    )


def doubles(received: Counter[str]) -> int:
    return received.total() - len(received)


def test_a_daemon_killed_ten_times_tells_all_and_the_same(
    tmp_path: Path,
    store_url: str,
    slack: SlackServer,
    undisturbed: dict[str, tuple[str, Told]],
) -> None:
    begun = time.monotonic()
    site = Site(tmp_path, store_url, slack)

    known, ends = kill_again_and_again(site, 60, 10, random.Random(1130))
    site.free_leases()
    site.finish(120)

    received = is_told_once_and_right(site, known, undisturbed)
    figures(received, ends, begun)
    # Each kill may cost one double: the message that had been answered and not yet noted.
    assert doubles(received) <= ends.total()
    assert "worker-error" not in (tmp_path / "log").read_text()


@pytest.mark.soak
def test_a_daemon_killed_three_hundred_times_tells_all_and_the_same(
    tmp_path: Path,
    store_url: str,
    slack: SlackServer,
    undisturbed: dict[str, tuple[str, Told]],
) -> None:
    begun = time.monotonic()
    site = Site(tmp_path, store_url, slack)

    known, ends = kill_again_and_again(site, 2000, 300, random.Random(1201))
    site.finish(1200)  # waits for the leases, too

    received = is_told_once_and_right(site, known, undisturbed)
    figures(received, ends, begun)
    assert doubles(received) <= ends.total()
    assert "worker-error" not in (tmp_path / "log").read_text()


def restart(server: PostgreSQL, how: str, down_s: float) -> None:
    """Ends the database server in order ("stop"), at once ("quit") or by SIGKILL, and starts it."""
    if how == "stop":
        server.stop()
    elif how == "sigkill":
        postmaster = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
        main = psutil.Process(postmaster)
        for process in (main, *main.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        server.kill()
    else:
        server.kill()
    time.sleep(down_s)
    server.start()


def restarted_under(
    site: Site, server: PostgreSQL, count: int, restarts: int
) -> tuple[list[stream.Job], Counter[str]]:
    """The stream of ``count`` jobs comes to a living daemon whose database is restarted."""
    chance = random.Random(restarts)
    known = stream.jobs(count)
    site.sacct.know({job.id: job.rows for job in known})
    records = stream.arrivals(known, chance)
    share = -(-len(records) // restarts)
    ends: Counter[str] = Counter()
    with Forked(site.config) as daemon:
        daemon.wait_for("event=started")
        for number in range(restarts):
            for record in records[number * share : (number + 1) * share]:
                stream.put(site.spool, record)
                time.sleep(chance.uniform(0, 0.02))
            how = ("sigkill", "stop", "quit")[number % 3]
            restart(server, how, chance.uniform(0, 1))
            ends[how] += 1
        assert daemon.lives(), daemon.said()[-4000:]
        daemon.kill()
    return known, ends


@pytest.mark.parametrize(
    ("count", "restarts"), [(45, 3), pytest.param(2000, 10, marks=pytest.mark.soak)]
)
def test_a_database_that_is_killed_and_started_again_loses_nothing(
    tmp_path: Path,
    postgresql: PostgreSQL,
    postgresql_url: str,
    slack: SlackServer,
    undisturbed: dict[str, tuple[str, Told]],
    count: int,
    restarts: int,
) -> None:
    begun = time.monotonic()
    site = Site(tmp_path, postgresql_url, slack)

    known, ends = restarted_under(site, postgresql, count, restarts)
    site.free_leases()
    site.finish(60 + count)

    received = is_told_once_and_right(site, known, undisturbed)
    figures(received, ends, begun)
    # A message whose answer could not be noted is sent again, once for each time.
    assert doubles(received) <= 2 * ends.total()
    assert "event=worker-error" in (tmp_path / "log").read_text()
