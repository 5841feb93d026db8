"""A daemon that is killed over and over: nothing is lost, and nothing is said otherwise."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.crash import stream
from tests.crash.daemons import Forked
from tests.crash.site import Site, Told, doubles, figures, is_told_once_and_right
from tests.databases import PostgreSQL
from tests.fakes.slack import Message, SlackServer

pytestmark = pytest.mark.slow

# Where a worker has committed, and has not yet done what follows.
MOMENTS = ("started", "records", "judged", "slurm-facts", "delivered")


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


def kill_again_and_again(
    site: Site, count: int, kills: int, chance: random.Random
) -> tuple[list[stream.Job], Counter[str]]:
    """The stream of ``count`` jobs comes in during ``kills`` lives; what ended them."""
    known = stream.jobs(count)
    site.expect(known)
    records = stream.arrivals(known, chance)
    share = -(-len(records) // kills)
    ends: Counter[str] = Counter()
    for number in range(kills):
        ends[lives_and_dies(site, records[number * share : (number + 1) * share], chance)] += 1
    return known, ends


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
    site.finish(300)

    received = is_told_once_and_right(site, known, undisturbed)
    figures(received, ends, begun)
    # Each kill may cost one double: the message that had been answered and not yet noted.
    assert doubles(received) <= ends.total()
    assert "worker-error" not in site.log()


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
    assert "worker-error" not in site.log()


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
    site.expect(known)
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
    site.finish(300 + count)

    received = is_told_once_and_right(site, known, undisturbed)
    figures(received, ends, begun)
    # A message whose answer could not be noted is sent again, once for each time.
    assert doubles(received) <= 2 * ends.total()
    assert "event=worker-error" in site.log()
