"""How far has been looked for jobs of which no record came, and what was found."""

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
    """An end of a job that Slurm tells of. ``run`` as a record would have it, of ``nodes`` many.

    ``missed`` is True where it is to be reported though no node told of it.
    """

    job: str
    run: str | None
    nodes: int
    facts: JobFacts
    ended_at: dt.datetime
    missed: bool


class Seen(msgspec.Struct, frozen=True):
    """An end of a job that the store has; ``key`` None: since this moment."""

    key: int | None
    facts_closed: bool
    cluster: str | None
    incarnation: int
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
    found: Sequence[Unseen],
    is_same: Callable[[Seen, Unseen], bool],
    now: dt.datetime,
) -> list[Unseen]:
    """Stores those of ``found`` that were missed and that the store does not have: jobs without
    evidence.

    Returns them. A job that the store has, and on which Slurm's answer was given up, gets it now.
    ``is_same`` tells whether two are one end of one job. Others wait for as long as this takes:
    not too many at once.
    """
    with database.writing() as connection:
        # A record of the same end may come in at this moment.
        hold(connection, JOBS)
        known = _known(connection, sorted({one.job for one in found}))
        new = []
        values = []
        for one in found:
            of_job = known.setdefault(one.job, [])
            same = next((seen for seen in of_job if is_same(seen, one)), None)
            if same is not None:
                if same.facts is None and same.facts_closed:
                    _tell_late(connection, same, one.facts, now)
                continue
            if not one.missed:
                continue
            cluster = one.facts.cluster
            numbers = (seen.incarnation for seen in of_job if seen.cluster == cluster)
            number = max(numbers, default=0) + 1
            of_job.append(
                Seen(None, False, cluster, number, one.run, one.ended_at, one.ended_at, one.facts)
            )
            new.append(one)
            values.append(_values(one, number, now))
        if values:
            connection.execute(jobs.insert(), values)
    return new


def advance(database: Database, name: str, until: dt.datetime) -> None:
    """Notes that the sweep ``name`` has come to ``until``; it never goes back."""
    with database.writing() as connection:
        connection.execute(
            sweeps.update()
            .where(sweeps.c.name == name, sweeps.c.until_at < until)
            .values(until_at=until)
        )


def _tell_late(connection: sa.Connection, seen: Seen, facts: JobFacts, now: dt.datetime) -> None:
    connection.execute(
        jobs.update()
        .where(jobs.c.key == seen.key, jobs.c.facts.is_(None))
        .values(
            facts=msgspec.json.encode(facts),
            facts_revision=jobs.c.facts_revision + 1,
            name=facts.name,
            user=facts.user,
            look_at=now,
        )
    )


def _known(connection: sa.Connection, job_ids: Sequence[str]) -> dict[str, list[Seen]]:
    columns = [jobs.c[name] for name in Seen.__struct_fields__]
    found: dict[str, list[Seen]] = {}
    for start in range(0, len(job_ids), _AT_ONCE):
        part = job_ids[start : start + _AT_ONCE]
        query = sa.select(jobs.c.job, *columns).where(jobs.c.job.in_(part))
        for row in connection.execute(query):
            fields = {name: getattr(row, name) for name in Seen.__struct_fields__}
            fields["cluster"] = row.cluster or None
            if row.facts is not None:
                fields["facts"] = msgspec.json.decode(row.facts, type=JobFacts)
            found.setdefault(row.job, []).append(Seen(**fields))
    return found


def _values(one: Unseen, number: int, now: dt.datetime) -> dict[str, object]:
    return {
        "cluster": one.facts.cluster or "",
        "job": one.job,
        "incarnation": number,
        "run": one.run,
        "state": j.SEEN,
        "node_list": one.facts.nodes,
        "nodes_expected": one.nodes,
        "nodes_reported": 0,
        "suspicious": True,
        "first_ended_at": one.ended_at,
        "last_ended_at": one.ended_at,
        "first_seen_at": now,
        "evidence_revision": 0,
        "facts_revision": 1,
        "judged_evidence": 0,
        "judged_facts": 0,
        "facts": msgspec.json.encode(one.facts),
        "facts_asked": 0,
        "facts_closed": False,
        "verdict_revision": 0,
        "posted": 0,
        "name": one.facts.name,
        "user": one.facts.user,
        "look_at": now,
    }
