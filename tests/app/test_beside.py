"""Two daemons on one store: they share the work, and nothing is done twice."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from firstfault.store.database import connect, open_store
from firstfault.store.schema import jobs, verdicts
from tests.app.processes import Daemon, configure
from tests.fakes.slack import SlackServer
from tests.intake.records import fields, file, put

TRACEBACK = (
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/home/alice/train.py", line 7, in <module>\n'
    "[rank1]: RuntimeError: lost\n"
)


def put_jobs(spools: list[Path], count: int) -> None:
    """A job of two nodes each; the first node reports to one daemon, the second to the other."""
    for job in range(100, 100 + count):
        for number, spool in enumerate(spools, 1):
            files = [file(f"/home/alice/slurm-{job}.out", "job-output", TRACEBACK)]
            put(spool, fields(f"n{number}", f"{job}", nodes="n[1-2]", files=files))


def said(log: str, event: str, channel: str | None = None) -> list[str]:
    """The jobs of an event's lines."""
    lines = [line for line in log.splitlines() if f"event={event} " in line]
    return [
        match[1]
        for line in lines
        if channel is None or f"channel={channel}" in line
        if (match := re.search(r"\bjob=(\w+)", line))
    ]


@pytest.mark.parametrize(
    "count", [pytest.param(25, id="few"), pytest.param(500, id="many", marks=pytest.mark.soak)]
)
def test_two_daemons_on_one_store_judge_and_deliver_each_job_once(
    tmp_path: Path, store_url: str, count: int
) -> None:
    open_store(store_url).close()
    folders = [tmp_path / "a", tmp_path / "b"]
    with SlackServer() as slack, ExitStack() as stack:
        daemons = []
        for folder in folders:
            folder.mkdir()
            daemon = configure(
                folder,
                store={"url": store_url},
                slack={"webhook": slack.url},
                report={"dir": str(tmp_path / "reports")},
                # However slow the machine is: with one node's evidence nothing is judged.
                judge={"settle_s": 600.0, "early_s": 600.0},
            )
            daemons.append(stack.enter_context(Daemon(daemon)))
        for daemon in daemons:
            daemon.wait_for("event=started", 60)
        put_jobs([folder / "spool" for folder in folders], count)
        slack.wait(count, 60 + count)
        for daemon in daemons:
            daemon.stop(timeout_s=60)
        logs = [daemon.said() for daemon in daemons]
        messages = Counter(str(message.payload["blocks"][-1]) for message in slack.messages)

    expected = {f"{job}": 1 for job in range(100, 100 + count)}
    both = "\n".join(logs)
    assert "worker-error" not in both
    assert Counter(said(both, "judged")) == expected
    assert Counter(said(both, "delivered", "slack")) == expected
    assert set(messages.values()) == {1}
    with closing(connect(store_url)) as database, database.reading() as connection:
        rows = connection.execute(sa.select(jobs.c.nodes_reported, jobs.c.incarnation)).all()
        revisions = connection.execute(sa.select(verdicts.c.revision)).scalars().all()
    assert [tuple(row) for row in rows] == [(2, 1)] * count
    assert list(revisions) == [1] * count
