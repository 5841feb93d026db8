"""Nodes: the sick one is found, and no innocent one is blamed."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.model import verdict as v
from firstfault.model.board import NodeStanding
from firstfault.model.slurm import JobFacts
from firstfault.store import standing
from firstfault.store.database import Database, open_store
from firstfault.store.standing import LEAST, LEVEL, Part, adjusted, at_least, chance, share_of
from tests.store.fill import failed

NOW = dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC)


def year(of: random.Random, nodes: int, failures: int, sick: int | None = None) -> list[Part]:
    """The parts of all nodes in failures that begin on any node of their job, each of 2 to 64
    nodes side by side; a job with the ``sick`` one ends there every third time."""
    took, began, expected = Counter[int](), Counter[int](), Counter[int]()
    for _ in range(failures):
        size = of.choice((2, 4, 8, 16, 64))
        first = of.randrange(nodes - size)
        members = range(first, first + size)
        host = sick if sick in members and of.random() < 0.3 else of.choice(members)
        assert host is not None
        began[host] += 1
        for node in members:
            took[node] += 1
            expected[node] += round(1e6 / size)
    return [
        Part(node, took[node], took[node], began[node], 0, expected[node] / 1e6) for node in took
    ]


def suspects(parts: list[Part]) -> set[int]:
    levels = adjusted([chance(part) for part in parts])
    return {
        part.key
        for part, level in zip(parts, levels, strict=True)
        if level < LEVEL and part.initiated >= LEAST
    }


def test_of_many_innocent_nodes_practically_none_is_blamed() -> None:
    of = random.Random(5)
    blamed = [len(suspects(year(of, 10_000, 20_000))) for _ in range(10)]

    assert sum(blamed) <= 1


def test_a_sick_node_among_many_is_found_and_it_alone() -> None:
    found = suspects(year(random.Random(6), 10_000, 20_000, sick=777))

    assert found == {777}


def test_a_tail_is_what_counting_all_outcomes_gives() -> None:
    for trials, probability in ((1, 0.5), (7, 0.1), (30, 0.25), (200, 0.01)):
        terms = [
            math.comb(trials, k) * probability**k * (1 - probability) ** (trials - k)
            for k in range(trials + 1)
        ]
        for successes in range(trials + 2):
            assert at_least(successes, trials, probability) == pytest.approx(
                math.fsum(terms[successes:]), rel=1e-9, abs=1e-250
            )


@given(
    chances=st.lists(st.sampled_from([1 / 2, 1 / 4, 1 / 8, 1 / 64]), min_size=1, max_size=12),
    more=st.integers(1, 8),
)
def test_trials_that_differ_are_never_less_likely_taken_as_alike(
    chances: list[float], more: int
) -> None:
    exact = [1.0]
    for one in chances:
        shifted = zip([*exact, 0.0], [0.0, *exact], strict=True)
        exact = [stays * (1 - one) + begins * one for stays, begins in shifted]
    wanted = math.ceil(sum(chances)) + more
    part = Part(1, len(chances), len(chances), wanted, 0, sum(chances))

    assert chance(part) >= math.fsum(exact[wanted:]) - 1e-12


@settings(deadline=None)
@given(st.integers(0, 2000), st.integers(0, 2000), st.floats(0, 1))
def test_a_tail_is_a_probability_whatever_it_is_asked(
    successes: int, trials: int, probability: float
) -> None:
    assert 0.0 <= at_least(successes, trials, probability) <= 1.0


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_the_interval_of_a_share_holds_the_share(some: int, others: int) -> None:
    low, high = share_of(some, some + others)

    assert 0.0 <= low <= high <= 1.0
    assert some + others == 0 or low <= some / (some + others) <= high


def test_intervals_are_wilsons() -> None:
    # Newcombe 1998, table I.
    assert share_of(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert share_of(15, 148) == pytest.approx((0.0624, 0.1605), abs=1e-4)
    assert share_of(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert share_of(1, 29) == pytest.approx((0.0061, 0.1718), abs=1e-4)


@given(st.lists(st.floats(0, 1), max_size=50))
def test_looking_at_more_nodes_never_makes_one_more_suspicious(found: list[float]) -> None:
    after = adjusted(found)

    assert all(low <= high <= 1.0 for low, high in zip(found, after, strict=True))
    order = sorted(range(len(found)), key=found.__getitem__)
    assert [after[i] for i in order] == sorted(after)


@given(st.integers(-3000, 3000), st.integers(0, 800))
def test_days_are_taken_together_each_once(first: int, count: int) -> None:
    found = list(standing.spans(first, first + count))
    days = [
        day
        for length, low, high in found
        for span in range(low, high)
        for day in range(span * length, (span + 1) * length)
    ]

    assert sorted(days) == list(range(first, first + count))
    assert len(found) <= 7


class Cluster:
    """A store of failed jobs on the nodes n1 to n8."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.made = 0

    def failures(
        self, count: int, host: str, domain: str, user: str = "alice", nodes: str = "n[1-8]"
    ) -> None:
        """Jobs of ``user`` that fail first on ``host``."""
        found = []
        size = 8 if nodes == "n[1-8]" else 1
        for _ in range(count):
            self.made += 1
            at = NOW - dt.timedelta(minutes=self.made)
            facts = JobFacts(
                id=str(self.made), cluster="c", user=user, nodes=nodes, ended_at=at, state="FAILED"
            )
            cause = v.Cause("gpu.ecc", "x", domain, v.LIKELY)
            found.append((facts, size, v.Verdict(v.Job(), cause, v.Initiator(host=host))))
        failed(self.database, found)

    def standing(self, node: str) -> NodeStanding:
        """The node's."""
        since = NOW - dt.timedelta(days=3)
        found = standing.standings(self.database, since, NOW)
        return next(one for one in found if one.node == node)


@pytest.fixture
def cluster(store_url: str) -> Iterator[Cluster]:
    database = open_store(store_url)
    yield Cluster(database)
    database.close()


def test_a_node_on_which_the_systems_failures_begin_is_suspect(cluster: Cluster) -> None:
    cluster.failures(12, "n3", "system")
    cluster.failures(3, "n5", "system")
    cluster.failures(40, "n4", "user")

    sick, other, users = (cluster.standing(node) for node in ("n3", "n5", "n4"))

    assert sick.suspect
    assert (sick.initiated, sick.took_part, sick.expected) == (12, 55, 15 / 8)
    assert sick.causes == (("gpu.ecc", 12),)
    assert not other.suspect
    assert (users.initiated, users.suspect) == (0, False)


def test_one_user_who_sends_a_broken_job_again_and_again_blames_no_node(cluster: Cluster) -> None:
    cluster.failures(30, "n1", "either", "alice")

    alone = cluster.standing("n1")
    cluster.failures(1, "n1", "either", "bob")

    assert alone.adjusted < 1e-6
    assert not alone.suspect
    assert cluster.standing("n1").suspect


def test_jobs_of_one_node_are_shown_and_tell_nothing(cluster: Cluster) -> None:
    cluster.failures(50, "n2", "system", nodes="n2")

    found = cluster.standing("n2")

    assert (found.initiated, found.expected, found.adjusted) == (50, 50.0, 1.0)
    assert not found.suspect


def test_two_failures_are_no_habit(cluster: Cluster) -> None:
    cluster.failures(2, "n2", "system")

    assert not cluster.standing("n2").suspect
