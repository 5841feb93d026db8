"""Everything at once, by two programs: nobody waits for ever, and nothing is lost or counted twice."""

from __future__ import annotations

import datetime as dt
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.model.slurm import JobFacts
from firstfault.store import deliveries, evidence, retention, work
from firstfault.store.database import Database, open_store
from firstfault.store.schema import evidence as evidence_table
from firstfault.store.schema import jobs, verdicts
from tests.intake.records import ENDED_AT
from tests.store.incoming import incoming

NOW = ENDED_AT + dt.timedelta(seconds=2)
NODES = ("n1", "n2", "n3", "n4")


@pytest.fixture
def two(store_url: str) -> Iterator[list[Database]]:
    with closing(open_store(store_url)) as one, closing(open_store(store_url)) as other:
        yield [one, other]


def verdict(number: int) -> v.Verdict:
    return v.Verdict(
        job=v.Job(id="12"),
        cause=v.Cause("gpu.ecc", f"{number}", "system", v.LIKELY),
        initiator=v.Initiator(rank=number, host="n1"),
    )


class Programs:
    """The kinds of work of two daemons, each in a thread of its own, until all is quiet."""

    def __init__(self, databases: list[Database], count: int) -> None:
        self.databases = databases
        self.jobs = [f"{number}" for number in range(100, 100 + count)]
        self.errors: list[Exception] = []
        self.kept = threading.Event()
        self.sent: list[tuple[str, int]] = []

    def run(self) -> None:
        keepers = [
            threading.Thread(target=self.guarded, args=(self.keep, d, seed))
            for seed, d in enumerate(self.databases)
        ]
        others = [
            threading.Thread(target=self.until_quiet, args=(once, d))
            for d in self.databases
            for once in (self.judge, self.ask, self.deliver, self.retain)
        ]
        for thread in [*keepers, *others]:
            thread.start()
        for thread in keepers:
            thread.join()
        self.kept.set()
        for thread in others:
            thread.join()

    def guarded(self, once: Callable[..., int], *arguments: object) -> int:
        try:
            return once(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must show it
            self.errors.append(error)
            return 0

    def until_quiet(self, once: Callable[[Database], int], database: Database) -> None:
        while not self.errors:
            last = self.kept.is_set()
            done = self.guarded(once, database)
            if last and not done and work.next_due_at(database) is None:
                return

    def keep(self, database: Database, seed: int) -> int:
        """Each program gets every record; the order of jobs and nodes differs."""
        chance = random.Random(seed)
        records = [incoming(node, job, nodes=NODES) for job in self.jobs for node in NODES]
        chance.shuffle(records)
        while records:
            batch = [records.pop() for _ in range(min(len(records), chance.randint(1, 9)))]
            evidence.keep(database, batch, NOW)
        return 0

    def judge(self, database: Database) -> int:
        claim = work.claim_jobs(database, NOW, 600, 3)
        for job in claim.jobs:
            outcome = work.Outcome(
                state=j.JUDGED,
                settled_at=NOW,
                tried_at=NOW,
                judged_evidence=job.evidence_revision,
                judged_facts=job.facts_revision,
                verdict=verdict(job.verdict_revision),
                channels=("slack", "report"),
                post=True,
                ask_at=NOW if job.settled_at is None else None,
            )
            assert work.finish(database, claim, job, outcome, NOW)
        return len(claim.jobs)

    def ask(self, database: Database) -> int:
        asked = work.claim_questions(database, NOW, 600, 5)
        facts = [JobFacts(id=job.job, state="FAILED", ended_at=ENDED_AT) for job in asked]
        answers = [
            work.Answer(job.key, fact, True, None) for job, fact in zip(asked, facts, strict=True)
        ]
        work.store_answers(database, answers, NOW)
        return len(asked)

    def deliver(self, database: Database) -> int:
        claimed = [
            d for name in ("slack", "report") for d in deliveries.claim(database, name, NOW, 600, 2)
        ]
        for delivery in claimed:
            self.sent.append((delivery.channel, delivery.key))
            deliveries.sent(database, delivery, NOW)
        return len(claimed)

    def retain(self, database: Database) -> int:
        # Nothing is old enough, but whatever is closed for a moment is looked at.
        return retention.remove_evidence(database, NOW - dt.timedelta(days=1), NOW).records


@pytest.mark.parametrize(
    "count", [pytest.param(8, id="few"), pytest.param(150, id="many", marks=pytest.mark.soak)]
)
def test_all_kinds_of_work_of_two_programs_at_once(two: list[Database], count: int) -> None:
    programs = Programs(two, count)

    programs.run()

    assert programs.errors == []
    assert len(programs.sent) == len(set(programs.sent))
    with two[0].reading() as connection:
        rows = connection.execute(sa.select(jobs)).all()
        kept = connection.execute(sa.select(sa.func.count()).select_from(evidence_table)).scalar()
        revisions = connection.execute(
            sa.select(verdicts.c.job_key, sa.func.count()).group_by(verdicts.c.job_key)
        ).all()
    assert kept == count * len(NODES)
    assert sorted(row.job for row in rows) == programs.jobs
    assert {row.nodes_reported for row in rows} == {len(NODES)}
    assert {row.state for row in rows} <= {j.DELIVERED, j.REVISED}
    assert {(row.key, row.verdict_revision) for row in rows} == {tuple(row) for row in revisions}
