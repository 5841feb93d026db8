"""How far has been looked for jobs of which no record came, and what was found: one transaction."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

import msgspec
import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.model.slurm import JobFacts
from firstfault.store.database import JOBS, Database, hold
from firstfault.store.schema import jobs, sweeps

_AT_ONCE = 500


class Position(msgspec.Struct, frozen=True):
    """Ends from ``began_at`` on are looked for, and those until ``until_at`` have been once."""

    began_at: dt.datetime
    until_at: dt.datetime


class Unseen(msgspec.Struct, frozen=True):
    """An end of a job that Slurm tells of. ``run`` as a record would have it, of ``nodes`` many."""

    job: str
    run: str | None
    nodes: int
    facts: JobFacts
    ended_at: dt.datetime


class Seen(msgspec.Struct, frozen=True):
    """An end of a job that the store has."""

    cluster: str | None
    job: str
    run: str | None
    first_ended_at: dt.datetime
    last_ended_at: dt.datetime
    facts: JobFacts | None


def position(database: Database, name: str) -> Position | None:
    """How far the sweep ``name`` has come, None where it has not begun."""
    query = sa.select(sweeps).where(sweeps.c.name == name)
    with database.reading() as connection:
        row = connection.execute(query).one_or_none()
    return None if row is None else Position(row.began_at, row.until_at)


def begin(database: Database, name: str, at: dt.datetime) -> None:
    """Begins the sweep ``name``: what ended before ``at`` is none of its business."""
    with database.writing() as connection:
        hold(connection, JOBS)
        known = connection.execute(sa.select(sweeps).where(sweeps.c.name == name)).first()
        if known is None:
            connection.execute(sweeps.insert().values(name=name, began_at=at, until_at=at))


def keep(
    database: Database,
    name: str,
    found: Sequence[Unseen],
    until: dt.datetime,
    is_same: Callable[[Seen, Unseen], bool],
    now: dt.datetime,
) -> list[Unseen]:
    """Stores those of ``found`` that the store does not have, as jobs without evidence.

    Returns them. ``is_same`` tells whether two are one end of one job; the sweep ``name`` has
    then come to ``until``.
    """
    with database.writing() as connection:
        # A record of the same end may come in at this moment.
        hold(connection, JOBS)
        new = []
        rows = _rows(connection, sorted({one.job for one in found}))
        for one in found:
            of_job = rows.get(one.job, [])
            if any(is_same(_seen(row), one) for row in of_job):
                continue
            cluster = one.facts.cluster or ""
            number = max((r.incarnation for r in of_job if r.cluster == cluster), default=0) + 1
            rows.setdefault(one.job, []).append(_insert(connection, one, cluster, number, now))
            new.append(one)
        connection.execute(
            sweeps.update()
            .where(sweeps.c.name == name, sweeps.c.until_at < until)
            .values(until_at=until)
        )
    return new


def _rows(
    connection: sa.Connection, job_ids: Sequence[str]
) -> dict[str, list[sa.Row[tuple[object, ...]]]]:
    found: dict[str, list[sa.Row[tuple[object, ...]]]] = {}
    for start in range(0, len(job_ids), _AT_ONCE):
        query = sa.select(jobs).where(jobs.c.job.in_(job_ids[start : start + _AT_ONCE]))
        for row in connection.execute(query):
            found.setdefault(row.job, []).append(row)
    return found


def _seen(row: sa.Row[tuple[object, ...]]) -> Seen:
    return Seen(
        cluster=row.cluster or None,
        job=row.job,
        run=row.run,
        first_ended_at=row.first_ended_at,
        last_ended_at=row.last_ended_at,
        facts=None if row.facts is None else msgspec.json.decode(row.facts, type=JobFacts),
    )


def _insert(
    connection: sa.Connection, one: Unseen, cluster: str, number: int, now: dt.datetime
) -> sa.Row[tuple[object, ...]]:
    connection.execute(
        jobs.insert().values(
            cluster=cluster,
            job=one.job,
            incarnation=number,
            run=one.run,
            state=j.SEEN,
            node_list=one.facts.nodes,
            nodes_expected=one.nodes,
            nodes_reported=0,
            suspicious=True,
            first_ended_at=one.ended_at,
            last_ended_at=one.ended_at,
            first_seen_at=now,
            evidence_revision=0,
            facts_revision=1,
            judged_evidence=0,
            judged_facts=0,
            facts=msgspec.json.encode(one.facts),
            facts_asked=0,
            facts_closed=False,
            verdict_revision=0,
            posted=0,
            name=one.facts.name,
            user=one.facts.user,
            look_at=now,
        )
    )
    query = sa.select(jobs).where(
        jobs.c.cluster == cluster, jobs.c.job == one.job, jobs.c.incarnation == number
    )
    return connection.execute(query).one()
