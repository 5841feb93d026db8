"""The overview's words and figures."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from firstfault.model.board import CauseCount, Count, NodeStanding, Overview, Reader
from firstfault.model.jobs import NODE, Incident
from firstfault.web.board.glance import bars, sentences, tiles
from firstfault.web.board.spans import SPANS, within

AT = dt.datetime(2026, 11, 30, 9, tzinfo=dt.UTC)
OPS = Reader("ops", administrator=True)
ALICE = Reader("alice", user="alice")
QUIET = Overview(
    AT - dt.timedelta(days=1), AT, 3600, Count(), Count(3), {}, (), (), (), (), ()
)  # fmt: skip
BUSY = msgspec.structs.replace(
    QUIET,
    total=Count(41, 310 * 3600.0, 2100 * 3600.0),
    before=Count(28),
    domains={"system": Count(12), "user": Count(26), "either": Count(3)},
)


def texts(overview: Overview, reader: Reader) -> list[str]:
    return [each.text for each in sentences(overview, reader, "24 hours")]


def sick(node: str, cluster: str | None = None, suspect: bool = True) -> NodeStanding:
    return NodeStanding(node, cluster, 5, 6, 0.9, 0.4, 0.9, 0.0001, suspect)


def incident(key: int) -> Incident:
    return Incident(key, None, NODE, "n17", AT, AT, None, None, 3)


def test_the_administrator_reads_what_failed_whose_fault_it_is_and_what_is_sick() -> None:
    overview = msgspec.structs.replace(
        BUSY, nodes=(sick("n17"),), incidents=(incident(1), incident(2))
    )

    assert " ".join(texts(overview, OPS)) == (
        "Since 2026-11-29 09:00 UTC: 41 failed jobs (28 in the 24 hours before): 12 by the "
        "system, 3 by user or system, 26 by the user. 310 node-hours and 2,100 GPU-hours lost. "
        "Two incidents are open. n17 looks sick."
    )


def test_a_time_without_failures_is_said_so() -> None:
    assert texts(QUIET, OPS) == [
        "No failed jobs since 2026-11-29 09:00 UTC (3 in the 24 hours before)."
    ]


@pytest.mark.parametrize(
    ("reader", "count", "said"),
    [
        (ALICE, 2, "2 failed jobs of yours (28"),
        (ALICE, 1, "1 failed job of yours (28"),
        (Reader("bob", user="bob", accounts=("vision",)), 2, "2 failed jobs that you may see (28"),
        (OPS, 1, "1 failed job (28"),
    ],
)
def test_who_is_no_administrator_reads_of_their_own_jobs(
    reader: Reader, count: int, said: str
) -> None:
    overview = msgspec.structs.replace(BUSY, total=Count(count))

    assert said in texts(overview, reader)[0]


def test_an_ordinary_user_hears_nothing_of_nodes_and_incidents() -> None:
    overview = msgspec.structs.replace(BUSY, nodes=(sick("n17"),), incidents=(incident(1),))

    assert len(texts(overview, ALICE)) == 2


def test_no_node_is_called_sick_that_is_not_suspect() -> None:
    overview = msgspec.structs.replace(BUSY, nodes=(sick("n17", suspect=False),))

    said = texts(overview, OPS)[-1]
    assert said == "No node began more failures than chance would have it."


def test_what_asks_for_action_leads_to_where_it_is_told() -> None:
    one = msgspec.structs.replace(BUSY, nodes=(sick("n/17", "c1"),), incidents=(incident(1),))
    two = msgspec.structs.replace(BUSY, nodes=(sick("n1"), sick("n2")))

    assert [each.href for each in sentences(one, OPS, "24 hours")] == [
        None, None, "/incidents", "/nodes/c1/n%2F17"
    ]  # fmt: skip
    assert sentences(two, OPS, "24 hours")[-1].href == "/nodes"


def test_many_sick_nodes_are_not_all_named_and_clusters_are_told_apart() -> None:
    many = tuple(sick(f"n{number}", f"c{number % 2}") for number in range(5))
    overview = msgspec.structs.replace(BUSY, nodes=many)

    said = texts(overview, OPS)[-1]
    assert said == "n0 of c0, n1 of c1, n2 of c0 and 2 more look sick."


def test_what_slurm_did_not_tell_of_gpus_is_not_said_to_be_none() -> None:
    overview = msgspec.structs.replace(BUSY, total=Count(41, 310 * 3600.0, 0.0))

    assert "310 node-hours lost." in texts(overview, OPS)


def test_every_domain_has_a_tile_also_one_without_failures() -> None:
    overview = msgspec.structs.replace(BUSY, domains={"user": Count(41)})

    found = tiles(overview, "/failures?since=x")
    assert [(tile.domain, tile.total.failures, tile.share) for tile in found] == [
        ("system", 0, 0.0),
        ("either", 0, 0.0),
        ("user", 41, 1.0),
    ]
    assert found[0].href == "/failures?since=x&domain=system"


def test_the_bars_of_causes_are_to_the_scale_of_the_largest() -> None:
    causes = tuple(CauseCount(f"c.{n}", "user", Count(n)) for n in (8, 4, 2))
    overview = msgspec.structs.replace(BUSY, causes=causes)

    found, more = bars(overview, "/failures?since=x", most=2)
    assert [(bar.width, bar.href) for bar in found] == [
        (100.0, "/failures?since=x&cause=c.8"),
        (50.0, "/failures?since=x&cause=c.4"),
    ]
    assert more == 1


@pytest.mark.parametrize(
    ("number", "since", "until"),
    [
        (0, "2026-12-01T17:00", "2026-12-02T17:00"),
        (1, "2026-11-26T00:00", "2026-12-03T00:00"),
        (2, "2026-11-03T00:00", "2026-12-03T00:00"),
        (3, "2025-12-08T00:00", "2026-12-07T00:00"),
    ],
)
def test_a_time_is_of_whole_hours_days_or_weeks_the_last_of_which_goes_on(
    number: int, since: str, until: str
) -> None:
    at = dt.datetime(2026, 12, 2, 16, 30, tzinfo=dt.UTC)

    found = within(SPANS[number], at)
    assert [each.strftime("%Y-%m-%dT%H:%M") for each in found] == [since, until]
    assert number < 3 or found[0].weekday() == 0
