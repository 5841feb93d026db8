"""Whatever happens to jobs, what is counted of their failures is what a recount gives."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.model import verdict as v
from firstfault.model.slurm import JobFacts
from firstfault.store import evidence, retention, work
from firstfault.store.database import Database, open_store
from firstfault.store.failure_tables import failures, names
from firstfault.store.schema import jobs
from tests.intake.records import ENDED_AT
from tests.store import recount
from tests.store.fill import judge
from tests.store.incoming import incoming

FAR = ENDED_AT + dt.timedelta(days=4000)
NODES = ("n1", "n2", "n3")


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    yield opened
    opened.close()


class Life:
    """What may happen to a few jobs; ``at`` goes on with each thing."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.at = ENDED_AT

    def record(self, job: int, node: str, nodes: tuple[str, ...], late_s: int) -> None:
        """A node reports an end, which may be new."""
        ended_at = ENDED_AT + dt.timedelta(seconds=late_s)
        one = incoming(node, str(job), nodes=nodes, ended_at=ended_at)
        evidence.keep(self.database, [one], self.now())

    def told(self, job: int, facts: JobFacts) -> None:
        """Slurm answers on a job."""
        for key in self.keys(job):
            work.store_answers(self.database, [work.Answer(key, facts, False, None)], self.now())

    def judged(self, verdict: v.Verdict) -> None:
        """Every job that is due gets this verdict."""
        claim = work.claim_jobs(self.database, self.now(), 60, 100)
        for job in claim.jobs:
            assert judge(self.database, claim, job, verdict, self.now())

    def removed(self, job: int) -> None:
        """A job is past its time."""
        for one in retention.expired(self.database, FAR, 100):
            if one.job == str(job):
                retention.remove_job(self.database, one)

    def now(self) -> dt.datetime:
        self.at += dt.timedelta(seconds=1)
        return self.at

    def keys(self, job: int) -> list[int]:
        with self.database.reading() as connection:
            query = sa.select(jobs.c.key).where(jobs.c.job == str(job))
            return list(connection.execute(query).scalars())


JOBS = st.integers(1, 4)
WORDS = st.text("ab '\"%_-;\u00e4\u202e", max_size=6)
VERDICTS = st.builds(
    v.Verdict,
    job=st.builds(v.Job, id=st.just("1"), name=st.none() | WORDS, user=st.none() | WORDS),
    cause=st.builds(
        v.Cause,
        st.sampled_from(["gpu.ecc", "python.exception", "none", "unknown"]),
        WORDS,
        st.sampled_from(["user", "system", "either", "new"]),
        st.sampled_from(["confirmed", "likely", "possible", "unknown"]),
    ),
    initiator=st.builds(v.Initiator, host=st.none() | st.sampled_from([*NODES, "elsewhere"])),
    fingerprint=st.none() | st.sampled_from(["1:a", "1:b"]),
)
FACTS = st.builds(
    JobFacts,
    id=st.just("1"),
    user=st.none() | WORDS,
    account=st.none() | WORDS,
    partition=st.none() | st.just("p"),
    state=st.just("FAILED"),
    started_at=st.none()
    | st.integers(-100, 10**6).map(lambda s: ENDED_AT - dt.timedelta(seconds=s)),
    gpus=st.none() | st.integers(0, 8),
)
HAPPENINGS = st.one_of(
    st.tuples(
        st.just("record"),
        JOBS,
        st.sampled_from(NODES),
        st.sampled_from([NODES[:1], NODES[:2], NODES]),
        # Up to over midnight, and beyond what is one end.
        st.sampled_from([0, 5, 90, 30_000, 90_000]),
    ),
    st.tuples(st.just("told"), JOBS, FACTS),
    st.tuples(st.just("judged"), VERDICTS),
    st.tuples(st.just("judged"), VERDICTS),
    st.tuples(st.just("removed"), JOBS),
)


# The store goes on through all examples: what holds must hold whatever was before.
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(happenings=st.lists(HAPPENINGS, min_size=5, max_size=25))
def test_counts_are_what_a_recount_gives_whatever_happens(
    database: Database, happenings: list[tuple[Any, ...]]
) -> None:
    life = Life(database)
    life.judged(v.Verdict(v.Job(), v.Cause("gpu.ecc", "x", "system", "likely")))
    for what, *arguments in happenings:
        getattr(life, what)(*arguments)

    assert recount.counted(database) == recount.recounted(database)
    with database.reading() as connection:
        listed = sa.select(sa.func.count()).select_from(failures)
        judged = sa.select(sa.func.count()).where(jobs.c.cause.is_not(None), jobs.c.cause != "none")
        assert connection.execute(listed).scalar() == connection.execute(judged).scalar()


def test_with_the_last_failure_its_user_and_words_are_forgotten(database: Database) -> None:
    life = Life(database)
    life.record(1, "n1", NODES, 0)
    life.told(1, JobFacts(id="1", user="alice", account="secretproject", name="hushhush"))
    verdict = v.Verdict(
        v.Job(name="hushhush", user="alice"),
        v.Cause("gpu.ecc", "A word nobody else has: xyzzy", "system", v.LIKELY),
        fingerprint="1:only",
    )
    life.judged(verdict)
    life.judged(msgspec.structs.replace(verdict, fingerprint="1:other"))
    life.removed(1)

    with database.reading() as connection:
        left = connection.execute(sa.select(names.c.name)).scalars().all()
    kept = {
        name for name in left if name.partition(":")[0] not in ("cluster", "cause", "partition")
    }
    assert kept == set()
    assert all(not rows for rows in recount.counted(database).values())


def test_many_who_judge_and_take_in_at_once_count_right_and_none_waits_for_ever(
    database: Database,
) -> None:
    """Eight workers judge jobs of the same nodes, users and fingerprints while nodes report."""
    everything = [str(number) for number in range(1, 41)]
    evidence.keep(
        database,
        [incoming(node, job, nodes=NODES) for job in everything for node in NODES[:2]],
        ENDED_AT,
    )
    verdict = v.Verdict(
        v.Job(user="alice"),
        v.Cause("gpu.ecc", "x", "system", v.LIKELY),
        v.Initiator(host="n1"),
        fingerprint="1:same",
    )

    def work_off(number: int) -> None:
        at = ENDED_AT + dt.timedelta(seconds=number)
        if number % 4 == 3:
            node = incoming("n3", everything[number % 40], nodes=NODES)
            evidence.keep(database, [node], at)
            return
        claim = work.claim_jobs(database, at, 60, 5)
        for job in claim.jobs:
            judge(database, claim, job, verdict, at)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work_off, range(80)))
    life = Life(database)
    life.at += dt.timedelta(days=1)
    for _ in range(20):
        life.judged(verdict)

    with database.reading() as connection:
        listed = connection.execute(sa.select(sa.func.count()).select_from(failures)).scalar()
    assert listed == len(everything)
    assert recount.counted(database) == recount.recounted(database)
