"""A daemon's surroundings on one machine, and what must be true of them when all is done."""

from __future__ import annotations

import datetime as dt
import difflib
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.store import work
from firstfault.store.database import connect
from firstfault.store.schema import deliveries, jobs, messages, verdicts
from tests.app.processes import Daemon, configure
from tests.crash import stream
from tests.crash.daemons import Forked
from tests.fakes.sacct import SacctProgram
from tests.fakes.slack import Message, SlackServer

LONG_AGO = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)


class Site:
    """One daemon's surroundings: its folders, sacct, receiver and store.

    Spool and reports lie on ``disk``, where one is given; configuration and log in ``folder``.
    """

    def __init__(
        self,
        folder: Path,
        store_url: str,
        receiver: SlackServer,
        disk: Path | None = None,
        **tables: Mapping[str, object],
    ) -> None:
        self.folder = folder
        self.slack = receiver
        self.store_url = store_url
        self.sacct = SacctProgram(folder / "slurm")
        self.spool = (disk or folder) / "spool"
        self.reports = (disk or folder) / "reports"
        self.spool.mkdir()
        self.reports.mkdir()
        known: dict[str, dict[str, object]] = {
            "spool": {"dir": str(self.spool), "scan_s": 0.5},
            "report": {"dir": str(self.reports)},
            "store": {"url": store_url},
            "slurm": {"source": "sacct", "sacct": str(self.sacct.path), "first_ask_s": 0.2},
            "judge": {"settle_s": 5.0, "early_s": 0.5},
            "slack": {"webhook": receiver.url},
            "web": {"enabled": False},
        }
        for name, keys in tables.items():
            known.setdefault(name, {}).update(keys)
        self.config = configure(folder, **known)

    def log(self) -> str:
        """What all daemons here have said."""
        return (self.folder / "log").read_text()

    def expect(self, known: Iterable[stream.Job]) -> None:
        """sacct knows these jobs."""
        self.sacct.know({job.id: job.rows for job in known})

    def put(self, known: Iterable[stream.Job]) -> None:
        """All records of these jobs lie in the spool."""
        for job in known:
            for record in job.records:
                stream.put(self.spool, record)

    def finish(self, timeout_s: float) -> None:
        """A last daemon does what is left."""
        with Forked(self.config, "--once-idle") as daemon:
            assert daemon.end(timeout_s) == 0, daemon.said()[-4000:]

    def come_to_rest(self, daemon: Forked | Daemon, timeout_s: float) -> None:
        """Waits until a living daemon has nothing left to do."""
        end = time.monotonic() + timeout_s
        with closing(connect(self.store_url)) as database:
            while list(self.spool.glob("*.gz")) or work.next_due_at(database) is not None:
                assert daemon.lives() and time.monotonic() < end, daemon.said()[-4000:]
                time.sleep(0.2)

    def free_leases(self) -> None:
        """What a killed worker had claimed is free after its lease: here, at once."""
        with closing(connect(self.store_url)) as database, database.writing() as connection:
            connection.execute(jobs.update().values(lease_until=None))
            for table, column in (
                (jobs, "ask_at"),
                (deliveries, "next_at"),
                (messages, "next_at"),
            ):
                known = table.c[column]
                connection.execute(
                    table.update().where(known.is_not(None)).values({column: LONG_AGO})
                )


class Told(NamedTuple):
    """What became of a job: its last verdict's bytes, and whether it was posted."""

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


def is_told_once_and_right(
    site: Site, known: Sequence[stream.Job], undisturbed: dict[str, tuple[str, Told]]
) -> Counter[str]:
    """Asserts that nothing is lost or otherwise; returns how often each delivery was received."""
    outcomes = told(site)
    reports = {path.name: path.stat().st_size for path in site.reports.rglob("*.html")}

    assert list(site.spool.glob("*.gz")) == []
    assert list((site.spool / "quarantine").iterdir()) == []
    assert list(site.reports.rglob(".*")) == [], "drafts were left behind"
    assert outcomes.keys() == {job.id for job in known}
    for job in known:
        other, outcome = undisturbed[job.case]
        expected = stream.renumbered(outcome.verdict, other, job.id).decode()
        said = outcomes[job.id].verdict.decode()
        assert said == expected, f"{job.case}: {_difference(expected, said)}"
        if outcome.posted:
            assert outcomes[job.id].posted
            assert reports[f"{job.id}.html"] > 10_000
    with closing(connect(site.store_url)) as database, database.reading() as connection:
        rows = connection.execute(
            sa.select(deliveries, jobs.c.job, jobs.c.posted).join(
                jobs, jobs.c.key == deliveries.c.job_key
            )
        ).all()
    received = Counter(delivery_id(message) for message in site.slack.messages)
    by_slack = [row for row in rows if row.channel == "slack"]
    for row in rows:
        assert row.state in (j.SENT, j.SUPERSEDED) or row.error == "nothing to take back", row
    assert received.keys() >= {row.delivery_id for row in by_slack if row.state == j.SENT}
    assert received.keys() <= {row.delivery_id for row in by_slack}
    assert site.slack.refused == []
    # A revision that would repeat the message is not sent.
    last = {
        row.job: j.SENT if row.error and "the same cause and place" in row.error else row.state
        for row in by_slack
        if row.revision == row.posted
    }
    for job in known:
        if undisturbed[job.case][1].posted:
            assert last[job.id] == j.SENT
    return received


def _difference(expected: str, said: str) -> str:
    lines = difflib.unified_diff(expected.splitlines(), said.splitlines(), lineterm="", n=1)
    return "\n".join(lines)


def delivery_id(message: Message) -> str:
    found = re.search(r"delivery ([0-9a-f]{12})", str(message.payload["blocks"][-1]))
    assert found is not None, message.payload
    return found[1]


def figures(received: Counter[str], ends: Counter[str], begun: float) -> None:
    print(
        f"\nended {ends.total()} times ({dict(sorted(ends.items()))}): {len(received)} messages and"
        f" {doubles(received)} doubles of them, {time.monotonic() - begun:.0f} s"
    )


def doubles(received: Counter[str]) -> int:
    return received.total() - len(received)
