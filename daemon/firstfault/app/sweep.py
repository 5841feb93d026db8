"""The sweep: jobs that ended badly and of which no node has told.

A node that died sends nothing, an Epilog that never ran neither; Slurm's accounting knows of the
job all the same. A window of it is asked for again and again, each overlapping the one before:
accounting runs behind the jobs, by minutes where slurmdbd was away. Where it was away for so long
that the question of a job was given up, the sweep brings the answer.
"""

from __future__ import annotations

import datetime as dt
import logging

from firstfault.app import counters
from firstfault.app.ends import ALWAYS, rule
from firstfault.app.journal import say
from firstfault.config import Ends
from firstfault.model.slurm import JobFacts
from firstfault.readers import nodelist
from firstfault.slurm.facts import CLOCKS_DIFFER, EPILOG_AFTER_END, FactsError, SlurmFacts
from firstfault.store import sweeps
from firstfault.store.database import Database

NAME = "ended"
OVERLAP = dt.timedelta(hours=1)
# What came into the accounting later than that: looked for once an hour.
LONG_OVERLAP = dt.timedelta(days=1)
LONG_EVERY = dt.timedelta(hours=1)
# One question brings no more than the bad ends of so long a time.
WINDOW = dt.timedelta(hours=1)
# Records wait while so many jobs are stored.
AT_ONCE = 200


class Sweeper:
    """Looks for jobs that ended badly more than ``after_s`` seconds ago.

    The first look ever begins the watch: what ended before is not reported.
    """

    def __init__(self, database: Database, slurm: SlurmFacts, ends: Ends, after_s: float) -> None:
        self._database = database
        self._slurm = slurm
        self._ends = ends
        self._after = dt.timedelta(seconds=after_s)
        self._long_at: dt.datetime | None = None

    def once(self, now: dt.datetime) -> int:
        """Looks once; returns how many jobs were found that nobody had told of."""
        at = sweeps.position(self._database, NAME)
        if at is None:
            sweeps.begin(self._database, NAME, now)
            return 0
        is_long = self._long_at is None or now >= self._long_at + LONG_EVERY
        since = max(at.began_at, at.until_at - (LONG_OVERLAP if is_long else OVERLAP))
        count = 0
        while since < now - self._after:
            until = min(since + WINDOW, now - self._after)
            try:
                found = self._slurm.ended(since, until)
            except FactsError as error:
                counters.SLURM_QUESTIONS.labels("failed").inc()
                say(logging.WARNING, "slurm-not-answering", ended_since=since, error=error)
                return count
            counters.SLURM_QUESTIONS.labels("answered").inc()
            count += self._keep(found, now)
            sweeps.advance(self._database, NAME, until)
            since = until
        if is_long:
            self._long_at = now
        return count

    def _keep(self, found: list[JobFacts], now: dt.datetime) -> int:
        unseen = [_unseen(facts, self._ends) for facts in found if facts.started_at is not None]
        new: list[sweeps.Unseen] = []
        for start in range(0, len(unseen), AT_ONCE):
            part = unseen[start : start + AT_ONCE]
            new += sweeps.keep(self._database, part, is_same_end, now)
        for one in new:
            say(
                logging.INFO,
                "job-without-record",
                cluster=one.facts.cluster,
                job=one.job,
                state=one.facts.state,
                nodes=one.facts.nodes,
            )
        return len(new)


def is_missed(facts: JobFacts, ends: Ends) -> bool:
    """True for an end that is reported without any evidence; a job must have had its nodes."""
    ran = facts.nodes is not None and facts.started_at is not None
    return ran and rule(ends, facts.state, facts) == ALWAYS


def is_same_end(seen: sweeps.Seen, unseen: sweeps.Unseen) -> bool:
    """True when a job that the store has is the one that Slurm tells of."""
    facts = unseen.facts
    if seen.cluster is not None and facts.cluster is not None and seen.cluster != facts.cluster:
        return False
    if seen.run is not None and unseen.run is not None and _kind(seen.run) == _kind(unseen.run):
        return seen.run == unseen.run
    if seen.facts is not None and seen.facts.started_at is not None:
        return seen.facts.started_at == facts.started_at
    return (
        seen.last_ended_at >= unseen.ended_at - CLOCKS_DIFFER
        and seen.first_ended_at <= unseen.ended_at + EPILOG_AFTER_END
    )


def _kind(run: str) -> str:
    return run.partition(":")[0]


def _unseen(facts: JobFacts, ends: Ends) -> sweeps.Unseen:
    assert facts.ended_at is not None and facts.started_at is not None
    leader, _, component = facts.id.partition("+")
    try:
        nodes = len(nodelist.expand(facts.nodes or ""))
    except nodelist.NodeListError:
        nodes = 0
    return sweeps.Unseen(
        # The records of a heterogeneous job's components are kept under their leader.
        job=leader if component else facts.raw_id or facts.id,
        run=f"start_time:{int(facts.started_at.timestamp())}",
        nodes=0 if component else nodes,
        facts=facts,
        ended_at=facts.ended_at,
        missed=is_missed(facts, ends),
    )
