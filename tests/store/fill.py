"""Jobs that failed, put into a store as the daemon puts them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.model.slurm import JobFacts
from firstfault.store import sweeps, work
from firstfault.store.database import Database

AT_ONCE = 200


def failed(database: Database, ends: Sequence[tuple[JobFacts, int, v.Verdict]]) -> None:
    """Stores jobs as Slurm told of them, each of so many nodes, and judges them."""
    for start in range(0, len(ends), AT_ONCE):
        part = ends[start : start + AT_ONCE]
        found = [sweeps.Unseen(f.id, None, nodes, f, _ended(f), True) for f, nodes, _ in part]
        now = max(each.ended_at for each in found) + dt.timedelta(seconds=3)
        sweeps.keep(database, found, lambda _seen, _one: False, now)
        verdicts = {(f.cluster, f.id): verdict for f, _, verdict in part}
        claim = work.claim_jobs(database, now, 60, AT_ONCE)
        assert len(claim.jobs) == len(part)
        for job in claim.jobs:
            assert judge(database, claim, job, verdicts[job.cluster, job.job], now)


def judge(
    database: Database, claim: work.Claim, job: j.JobStatus, verdict: v.Verdict, now: dt.datetime
) -> bool:
    """Stores the verdict of a claimed job, which is due no more; False where another has it."""
    outcome = work.Outcome(
        state=j.JUDGED,
        settled_at=now,
        tried_at=now,
        judged_evidence=job.evidence_revision,
        judged_facts=job.facts_revision,
        verdict=verdict,
    )
    return work.finish(database, claim, job, outcome, now)


def _ended(facts: JobFacts) -> dt.datetime:
    assert facts.ended_at is not None
    return facts.ended_at
