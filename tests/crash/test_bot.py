"""A daemon that is killed while its bot posts: Slack holds each message once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.store.database import connect
from firstfault.store.schema import deliveries, message_jobs, messages
from tests.crash import stream
from tests.crash.daemons import Forked
from tests.crash.site import Site
from tests.fakes.slack import SlackServer
from tests.fakes.slack_api import SlackApi

pytestmark = pytest.mark.slow

MOMENTS = ("event=judged ", "event=delivered ", "event=slurm-facts ", "event=incident")


def bots_site(folder: Path, store_url: str, receiver: SlackServer, api: SlackApi) -> Site:
    """A daemon whose bot writes to owners and administrators, a message for each job."""
    token = folder / "token"
    token.touch(0o600)
    token.write_text(api.TOKEN)
    settings = {
        "webhook": "",
        "token_file": str(token),
        "api_url": api.url,
        "admins": "C0123456789",
        "admins_domains": ["user", "system", "either"],
        "gather_s": 0,
        "per_hour": 100_000,
    }
    return Site(
        folder,
        store_url,
        receiver,
        slack=settings,
        owners={"template": "{user}@example.org"},
        incidents={"jobs": 10_000},
    )


def addresses(known: list[stream.Job]) -> dict[str, str]:
    users = sorted({row["User"] for job in known for row in job.rows if row.get("User")})
    return {f"{user}@example.org": f"U{number}" for number, user in enumerate(users)}


def one_life(site: Site, api: SlackApi, records: list[stream.Record], chance: random.Random) -> str:
    """A daemon lives while records come in, until a time, a line of its log, or an answer."""
    how = chance.choice(("time", "line", "answer", "answer"))
    count, line = chance.randint(1, 3), chance.choice(MOMENTS)
    with Forked(site.config) as daemon:
        daemon.wait_for("event=started ")
        end = time.monotonic() + (chance.uniform(0, 1.5) if how == "time" else 5)
        left = iter(range(count - 1, -1, -1))

        def kill_at_the_last(method: str) -> None:
            if method.startswith("chat.") and next(left, None) == 0:
                with suppress(ProcessLookupError):
                    os.kill(daemon.pid, signal.SIGKILL)

        if how == "answer":
            api.answered = kill_at_the_last
        while daemon.lives() and time.monotonic() < end:
            if records:
                stream.put(site.spool, records.pop(0))
            if how == "line" and daemon.said().count(line) >= count:
                break
            time.sleep(chance.uniform(0, 0.01))
        daemon.kill()
    api.answered = lambda method: None
    for record in records:
        stream.put(site.spool, record)
    return how


@pytest.mark.parametrize(
    ("count", "kills"),
    [(18, 5), pytest.param(600, 150, marks=pytest.mark.soak)],
    ids=["short", "long"],
)
def test_a_bot_that_is_killed_over_and_over_posts_each_message_once(
    tmp_path: Path, store_url: str, slack: SlackServer, count: int, kills: int
) -> None:
    chance = random.Random(kills)
    known = stream.jobs(count)
    ends: Counter[str] = Counter()
    with SlackApi(addresses(known), ["C0123456789"]) as api:
        site = bots_site(tmp_path, store_url, slack, api)
        site.expect(known)
        records = stream.arrivals(known, chance)
        share = -(-len(records) // kills)
        for number in range(kills):
            mine = records[number * share : (number + 1) * share]
            ends[one_life(site, api, mine, chance)] += 1
            site.free_leases()
        site.finish(900)
        held = api.messages

    with closing(connect(store_url)) as database, database.reading() as connection:
        rows = connection.execute(sa.select(messages)).all()
        told = connection.execute(sa.select(message_jobs.c.job_key, message_jobs.c.channel)).all()
        states = connection.execute(sa.select(deliveries.c.state, deliveries.c.error)).all()
    ids = Counter(m.payload["metadata"]["event_payload"]["id"] for m in held)
    print(f"\n{ends.total()} lives {dict(ends)}: {len(held)} messages, {api.calls}")
    assert set(ids.values()) == {1}, "a message was posted twice"
    assert {(row.message_id, row.ts) for row in rows} == {
        (m.payload["metadata"]["event_payload"]["id"], m.ts) for m in held
    }
    assert len(told) == len(rows), "each job has a message of its own in each channel"
    assert {row.state for row in states} <= {j.SENT, j.SUPERSEDED}, states
    assert api.refused == []
    assert "message-error" not in site.log()
