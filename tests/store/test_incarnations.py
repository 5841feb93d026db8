"""Which job a record is of: clusters, requeues, arrays, heterogeneous jobs, numbers used again."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from firstfault.intake.record import Limits
from firstfault.intake.record import incoming as taken
from firstfault.model import jobs as j
from firstfault.store import evidence, work
from firstfault.store.database import Database, open_store
from firstfault.store.schema import jobs
from tests.intake.records import ENDED_AT, fields
from tests.store.incoming import incoming

NOW = ENDED_AT + dt.timedelta(seconds=2)
MONTHS = dt.timedelta(days=200)


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def known(database: Database) -> list[j.JobStatus]:
    with database.reading() as connection:
        return [work.status(row) for row in connection.execute(sa.select(jobs).order_by("key"))]


def component(node: str, job: str, leader: str, nodes: str, **environment: str) -> j.Incoming:
    own = {"SLURM_HET_JOB_ID": leader, **environment}
    content = fields(node, job, nodes=nodes, environment=own)
    return taken(json.dumps(content).encode(), Limits())


def test_the_components_of_a_heterogeneous_job_are_one_job_under_its_leader(
    database: Database,
) -> None:
    first = [component("n1", "70", "70", "n[1-2]"), component("n2", "70", "70", "n[1-2]")]
    second = [component("g1", "71", "70", "g[1-3]", SLURM_JOB_SLUID="s2")]

    evidence.keep(database, [*first, *second], NOW)
    evidence.keep(database, [component("g2", "71", "70", "g[1-3]", SLURM_JOB_SLUID="s2")], NOW)

    (job,) = known(database)
    assert (job.job, job.incarnation, job.components) == ("70", 1, 2)
    assert (job.nodes_reported, job.nodes_expected) == (4, 5)


def test_a_heterogeneous_job_that_is_requeued_is_two_incarnations(database: Database) -> None:
    first = component("n1", "70", "70", "n1")
    later = fields("n1", "70", nodes="n1", ended_at=ENDED_AT + dt.timedelta(seconds=300))
    later["environment"]["SLURM_HET_JOB_ID"] = "70"

    evidence.keep(database, [first, taken(json.dumps(later).encode(), Limits())], NOW)

    assert [(job.incarnation, job.nodes_expected) for job in known(database)] == [(1, 1), (2, 1)]


def test_an_ordinary_job_has_no_components(database: Database) -> None:
    evidence.keep(database, [incoming()], NOW)

    assert known(database)[0].components == 0


def test_the_tasks_of_an_array_are_jobs_of_their_own(database: Database) -> None:
    # A node knows a task by its raw id only: the array's own id, or the next ones.
    evidence.keep(database, [incoming(job=job) for job in ("80", "81", "82")], NOW)

    assert [(job.job, job.incarnation) for job in known(database)] == [
        ("80", 1),
        ("81", 1),
        ("82", 1),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, None),
        ("start_time:1764500000", "start_time:1781700000"),
        ("sluid:sA", "sluid:sB"),
        (None, "start_time:1781700000"),
        # Slurm was updated between them.
        ("start_time:1764500000", "sluid:sB"),
    ],
)
def test_a_number_that_is_used_again_months_later_is_another_job(
    database: Database, before: str | None, after: str | None
) -> None:
    evidence.keep(database, [incoming("n1", run=before), incoming("n2", run=before)], NOW)
    again = {"run": after, "ended_at": ENDED_AT + MONTHS}
    evidence.keep(database, [incoming("n1", **again), incoming("n2", **again)], NOW + MONTHS)

    assert [(job.incarnation, job.nodes_reported) for job in known(database)] == [(1, 2), (2, 2)]


def test_the_same_number_on_two_clusters_is_two_jobs_at_the_same_moment(
    database: Database,
) -> None:
    evidence.keep(
        database,
        [incoming(node, cluster=name) for name in ("a", "b") for node in ("n1", "n2")],
        NOW,
    )

    assert [(job.cluster, job.nodes_reported) for job in known(database)] == [("a", 2), ("b", 2)]


def test_nodes_that_know_the_run_and_nodes_that_do_not_are_of_one_job(database: Database) -> None:
    evidence.keep(database, [incoming("n1", run="sluid:sA"), incoming("n2")], NOW)

    (job,) = known(database)
    assert job.nodes_reported == 2
