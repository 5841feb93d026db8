"""Incidents of nodes are written with the verdict, and only with it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import msgspec
import pytest

from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.store import evidence, incidents, work
from firstfault.store.database import Database, open_store
from tests.intake.records import ENDED_AT
from tests.store.incoming import incoming

NOW = ENDED_AT + dt.timedelta(seconds=2)
LONG_AGO = ENDED_AT - dt.timedelta(days=365)
AT = ENDED_AT - dt.timedelta(seconds=40)


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def verdict(host: str | None, domain: str = "system", **initiator: object) -> v.Verdict:
    return v.Verdict(
        job=v.Job(id="12"),
        cause=v.Cause("gpu.ecc", "A GPU lost memory", domain, v.LIKELY),
        initiator=v.Initiator(host=host, latest=AT, **initiator),  # type: ignore[arg-type]
    )


def judge(database: Database, given: v.Verdict, *, new: bool = True) -> None:
    evidence.keep(database, [incoming(f"n{len(seen(database)) + 3}", nodes=())], NOW)
    claim = work.claim_jobs(database, NOW, 60, 10)
    outcome = work.Outcome(j.JUDGED, NOW, NOW, 1, 0)
    how = {"verdict" if new else "refreshed": given}

    assert work.finish(database, claim, claim.jobs[0], msgspec.structs.replace(outcome, **how), NOW)


def seen(database: Database) -> list[tuple[str, str, str]]:
    found = incidents.newest(database, LONG_AGO)
    return sorted((one.node, one.role, one.cause) for one in found)


def test_the_first_host_and_those_that_failed_alike_are_noted(database: Database) -> None:
    judge(database, verdict("n1", also=(v.Member(1, "n1"), v.Member(8, "n2"))))

    (first, second) = sorted(incidents.newest(database, LONG_AGO), key=lambda one: one.node)
    assert (first.node, first.role, first.at) == ("n1", "initiator", AT)
    assert (first.cluster, first.job, first.incarnation) == ("testcluster", "12", 1)
    assert (first.cause, first.domain, first.confidence) == ("gpu.ecc", "system", "likely")
    assert (second.node, second.role) == ("n2", "took-part")


def test_where_it_must_be_one_of_several_none_is_the_initiator(database: Database) -> None:
    judge(database, verdict(None, candidates=(v.Member(0, "n1"), v.Member(8, "n2"))))

    assert [(node, role) for node, role, _ in seen(database)] == [
        ("n1", "took-part"),
        ("n2", "took-part"),
    ]


@pytest.mark.parametrize(
    "given",
    [
        verdict("n1", "user"),
        msgspec.structs.replace(verdict("n1"), cause=v.Cause("none", "", "either", v.CONFIRMED)),
        msgspec.structs.replace(verdict("n1"), cause=v.Cause("unknown", "", "either", v.UNKNOWN)),
        verdict(None),
    ],
)
def test_what_is_not_the_systems_is_no_incident(database: Database, given: v.Verdict) -> None:
    judge(database, given)

    assert seen(database) == []


@pytest.mark.parametrize("new", [True, False])
def test_a_revision_replaces_what_was_said_before(database: Database, new: bool) -> None:
    judge(database, verdict("n1"))
    judge(database, verdict("n2", "either"), new=new)

    assert [(node, role) for node, role, _ in seen(database)] == [("n2", "initiator")]


def test_a_revision_that_blames_the_user_takes_the_incident_back(database: Database) -> None:
    judge(database, verdict("n1"))
    judge(database, verdict("n1", "user"))

    assert seen(database) == []


def test_incidents_of_a_node_are_asked_for_since_a_time(database: Database) -> None:
    judge(database, verdict("n1"))

    assert [one.node for one in incidents.newest(database, AT, "n1")] == ["n1"]
    assert incidents.newest(database, AT, "n2") == []
    assert incidents.newest(database, AT + dt.timedelta(seconds=1), "n1") == []
