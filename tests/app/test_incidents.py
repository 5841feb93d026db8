"""Incidents: several jobs that fail by one thing are one matter, told once and handled once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import msgspec
import pytest

from firstfault.app.incidents import Incidents, silences
from firstfault.app.slack_readers import ADMINS, OWNERS
from firstfault.config import Config, Slack
from firstfault.deliver.outcome import Needless, Sent
from firstfault.model import jobs as j
from firstfault.slurm.reservations import Reservation
from firstfault.store import common_causes
from firstfault.store.common_causes import Sign, groups
from firstfault.store.database import Database, open_store
from tests.app.test_gathering import Scene, said, verdict
from tests.fakes.slack_api import SlackApi
from tests.intake.records import ENDED_AT

TEN_MINUTES = dt.timedelta(minutes=10)


@pytest.fixture
def slack() -> Iterator[SlackApi]:
    with SlackApi({"ada@example.org": "U1", "bob@example.org": "U2"}) as server:
        yield server


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    yield opened
    opened.close()


class Site(Scene):
    """A scene whose daemon looks for incidents."""

    def __init__(self, database: Database, slack: SlackApi) -> None:
        super().__init__(database, slack)
        config = msgspec.structs.replace(Config(), slack=Slack(admins="C1"))
        self.incidents = Incidents(database, config, tells=True)

    def crash(self, count: int, first: int = 100, **given: object) -> None:
        """So many jobs fail by node n3, each another way, and are looked at."""
        for job in range(first, first + count):
            name = {"cause": "gpu.ecc", "domain": "system", "fingerprint": f"1:{job}", **given}
            self.judge(str(job), verdict(str(job), **name))  # type: ignore[arg-type]
        self.incidents.once(self.now)

    def open(self) -> list[j.Incident]:
        return common_causes.listed(self.database, 10, only_open=True)


@pytest.fixture
def site(database: Database, slack: SlackApi) -> Site:
    return Site(database, slack)


def sign(job: int, kind: str, name: str, minute: float = 0, cluster: str = "c") -> Sign:
    return Sign(job, cluster, kind, name, ENDED_AT + dt.timedelta(minutes=minute))


def named(signs: list[Sign]) -> list[tuple[str, str, int]]:
    return [(g.kind, g.name, len(g.jobs)) for g in groups(signs, 5, TEN_MINUTES)]


def test_five_jobs_on_one_node_with_one_cause_are_an_incident_of_the_node() -> None:
    both = [
        sign(k, kind, name) for k in range(5) for kind, name in (("node", "n3"), ("cause", "x"))
    ]

    assert named(both) == [("node", "n3", 5)]


def test_what_more_jobs_share_comes_before_what_is_narrower() -> None:
    signs = [sign(k, "cause", "x") for k in range(12)] + [sign(k, "node", "n3") for k in range(5)]

    assert named(signs) == [("cause", "x", 12)]


def test_a_file_system_comes_before_its_cause() -> None:
    pairs = (("file-system", "nfs1"), ("cause", "storage.nfs"))
    signs = [sign(k, kind, name) for k in range(6) for kind, name in pairs]

    assert named(signs) == [("file-system", "nfs1", 6)]


@pytest.mark.parametrize(
    "signs",
    [
        [sign(k, "node", "n3") for k in range(4)],
        [sign(k, "node", "n3", minute=3 * k) for k in range(20)],
        [sign(k, "node", f"n{k}") for k in range(20)],
        [sign(k, "node", "n3", cluster=str(k % 5)) for k in range(20)],
        [sign(1, "node", "n3") for _ in range(9)],
    ],
    ids=["too few", "too far apart", "other nodes", "other clusters", "one job"],
)
def test_what_is_not_shared_by_enough_jobs_in_time_is_none(signs: list[Sign]) -> None:
    assert named(signs) == []


def test_administrators_get_one_message_of_an_incident_and_it_grows(site: Site) -> None:
    site.crash(6)
    site.later(0)

    assert set(map(str, site.deliver(ADMINS))) == {str(Needless("it is told as one of incident 1"))}
    (message,) = site.messages
    assert "6 jobs failed by node n3" in said(message)

    site.crash(3, 200)
    site.later(20)

    (message,) = site.messages
    assert "9 jobs failed by node n3" in said(message)
    assert "jobs" in str(message.payload["blocks"][0])


def test_each_owner_gets_one_line_whatever_the_jobs_are(site: Site) -> None:
    site.crash(4)
    site.crash(3, 300, user="bob")

    assert set(map(str, site.deliver(OWNERS))) == {str(Sent())}
    site.later(20)
    told = {m.conversation: said(m) for m in site.messages if m.conversation != "C1"}
    assert len(site.messages) == 3
    assert "4 of your jobs failed as 3 others did, by node n3" in told["D1"]
    assert "3 of your jobs failed as 4 others did, by node n3" in told["D2"]


def test_who_was_told_before_it_was_an_incident_sees_it_become_one(site: Site) -> None:
    site.crash(4)
    site.deliver(OWNERS)
    assert "incident" not in said(site.messages[0])

    site.crash(1, 200)
    site.later(20)

    owners = [said(m) for m in site.messages if m.conversation == "D1"]
    assert all("for the administrators it is incident 1" in text.lower() for text in owners)


def test_failures_of_users_code_are_no_incident(site: Site) -> None:
    site.crash(30, domain="user")

    assert site.open() == []


def test_a_quiet_incident_is_over_and_the_next_failures_open_another(site: Site) -> None:
    site.crash(5)
    site.later(2 * 3600)
    site.incidents.once(site.now)

    assert site.open() == []


def test_a_job_whose_verdict_changes_leaves_the_incident(site: Site) -> None:
    site.crash(6)
    site.judge("100", verdict("100"))

    (incident,) = site.open()
    assert incident.jobs == 5


def test_acknowledged_and_ended_it_says_so(site: Site) -> None:
    site.crash(5)
    site.later(0)

    assert common_causes.acknowledge(site.database, 1, "root", site.now)
    site.later(0)
    assert "root takes care of it" in said(site.messages[0])

    assert common_causes.end(site.database, 1, site.now)
    site.later(0)
    assert "over, " in said(site.messages[0])
    assert not common_causes.end(site.database, 1, site.now)
    assert not common_causes.acknowledge(site.database, 99, "root", site.now)


def test_a_silenced_node_makes_no_message_until_the_silence_ends(site: Site) -> None:
    until = site.now + dt.timedelta(minutes=10)
    common_causes.silence(site.database, j.Silence(None, j.NODE, "n3", until, "root"), site.now)
    site.crash(5)
    site.later(0)
    assert site.messages == []
    assert len(site.open()) == 1

    site.now = until
    site.incidents.once(site.now)
    site.later(0)

    assert "5 jobs failed by node n3" in said(site.messages[0])


def test_nodes_in_maintenance_are_not_told_of(site: Site) -> None:
    reservation = Reservation("maint", site.now, site.now + TEN_MINUTES, ("n1", "n3"))
    later = Reservation("next", site.now + TEN_MINUTES, site.now + 2 * TEN_MINUTES, ("n9",))
    wanted = silences([reservation, later], "testcluster", site.now)
    assert [one.name for one in wanted] == ["n1", "n3"]

    common_causes.reserve(site.database, "testcluster", wanted)
    site.crash(5)
    site.later(0)
    assert site.messages == []

    common_causes.reserve(site.database, "testcluster", [])
    site.incidents.once(site.now)
    site.later(0)

    assert len(site.messages) == 1


def test_a_daemon_that_died_before_it_told_of_an_incident_tells_it(
    database: Database, slack: SlackApi
) -> None:
    before = Site(database, slack)
    common_causes.update(database, before.now, 5, TEN_MINUTES, TEN_MINUTES)
    for job in range(5):
        given = verdict(str(job), "gpu.ecc", domain="system", fingerprint=f"1:{job}")
        before.judge(str(job), given)
    common_causes.update(database, before.now, 5, TEN_MINUTES, TEN_MINUTES)

    after = Site(database, slack)
    after.incidents.once(after.now)
    after.later(0)

    assert len(slack.messages) == 1


def test_old_incidents_are_forgotten_with_all_that_belongs_to_them(site: Site) -> None:
    site.crash(5)
    site.later(0)
    common_causes.end(site.database, 1, site.now)

    assert common_causes.remove_old(site.database, site.now + TEN_MINUTES) == 1
    assert common_causes.listed(site.database, 10) == []
