"""A failure as it is found and counted: written with the verdict, changed and let go with it.

`record` and `remove` are the only writers of the tables that follow from it, so that each count is
at any time what a recount would give; tests compare the two.
"""

from __future__ import annotations

import array
import datetime as dt
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from firstfault.model import verdict as v
from firstfault.model.slurm import JobFacts
from firstfault.readers.nodelist import NodeListError, expand
from firstfault.store import failure_counts, names
from firstfault.store.database import hold
from firstfault.store.failure_counts import DAY, Counted
from firstfault.store.failure_tables import failure_nodes, failure_words, failures
from firstfault.store.schema import evidence, jobs, verdicts

# A number that no other program takes in this database, as those of `firstfault.store.database`.
# Who holds it changes counts that others change too; it is taken after a job's row.
COUNTING = 0x66697273740005

DOMAINS = {"user": 1, "system": 2, "either": 3}
CONFIDENCES = {v.UNKNOWN: 1, v.POSSIBLE: 2, v.LIKELY: 3, v.CONFIRMED: 4}
_NO_FAILURE = "none"
_MOST_WORDS = 32
_LONGEST_WORD = 40
_LONGEST_TEXT = 2000
_LONGEST_RUN = dt.timedelta(days=3660)
_WORD = re.compile(r"[^\W_]+")
# In every second title; nobody looks for a failure by these.
# fmt: off
_STOP_WORDS = frozenset((
    "a", "an", "and", "as", "at", "by", "for", "from", "had", "in", "is", "it", "of", "on", "or",
    "the", "to", "was", "with",
))
# fmt: on


class _Named(NamedTuple):
    """What the row says in numbers of names."""

    cluster: str
    cause: str
    user: str | None
    account: str | None
    partition: str | None
    name: str | None
    fingerprint: str | None


def words_of(*texts: str | None) -> list[str]:
    """The words by which texts are found, each once, in their order."""
    found: dict[str, None] = {}
    for text in texts:
        for word in _WORD.findall((text or "")[:_LONGEST_TEXT].casefold()):
            if word not in _STOP_WORDS:
                found.setdefault(word[:_LONGEST_WORD])
    return list(found)


def record(connection: sa.Connection, job_key: int, verdict: v.Verdict | None) -> None:
    """Makes what is stored of a job's failure say what its row and its newest verdict say.

    ``verdict`` is that verdict, None where it is the one that was recorded before. The job's row
    is locked, or new, in this transaction.
    """
    hold(connection, COUNTING)
    before = connection.execute(sa.select(failures).where(failures.c.key == job_key)).first()
    job = connection.execute(sa.select(jobs).where(jobs.c.key == job_key)).one()
    if job.cause == _NO_FAILURE or job.cause is None or (verdict is None and before is None):
        _forget(connection, before)
        return
    known = None if before is None else before.verdict_revision
    if verdict is None and known != job.verdict_revision:
        return  # a program of before has judged it since: `firstfault.store.filling` sees to it
    row = _row(connection, job, verdict, before)
    if before is not None and all(getattr(before, name) == row[name] for name in row):
        return
    if before is None:
        connection.execute(failures.insert().values(row))
    else:
        connection.execute(failures.update().where(failures.c.key == job_key).values(row))
    _find_by(connection, before, row)
    failure_counts.change(
        connection, None if before is None else _counted(before._mapping), _counted(row)
    )
    if before is not None:
        _let_go(connection, before, row)


def remove(connection: sa.Connection, job_key: int) -> None:
    """Takes a job's failure out of all lists and counts."""
    hold(connection, COUNTING)
    before = connection.execute(sa.select(failures).where(failures.c.key == job_key)).first()
    _forget(connection, before)


def _forget(connection: sa.Connection, before: sa.Row[Any] | None) -> None:
    if before is None:
        return
    connection.execute(failures.delete().where(failures.c.key == before.key))
    _find_by(connection, before, None)
    failure_counts.change(connection, _counted(before._mapping), None)
    _let_go(connection, before, None)


def _row(
    connection: sa.Connection,
    job: sa.Row[Any],
    verdict: v.Verdict | None,
    before: sa.Row[Any] | None,
) -> dict[str, Any]:
    facts = None if job.facts is None else msgspec.json.decode(job.facts, type=JobFacts)
    newest = connection.execute(
        sa.select(verdicts.c.key, verdicts.c.fingerprint).where(
            verdicts.c.job_key == job.key, verdicts.c.revision == job.verdict_revision
        )
    ).one()
    said = _Named(
        cluster=job.cluster,
        cause=job.cause,
        # Who sees a failure goes by what Slurm said, before what the evidence has.
        user=job.user if facts is None or facts.user is None else facts.user,
        account=None if facts is None else facts.account,
        partition=None if facts is None else facts.partition,
        name=job.name,
        fingerprint=newest.fingerprint,
    )
    numbers = {
        kind: names.full(kind, text)
        for kind, text in zip(said._fields, said, strict=True)
        if text is not None
    }
    words = words_of(job.cause, said.user, job.host, job.name, job.title)[:_MOST_WORDS]
    spelled = [names.full("word", word) for word in words]
    known = names.numbered(connection, {*numbers.values(), *spelled})
    members = _members(connection, job)
    known_nodes = names.numbered_nodes(connection, job.cluster, members)
    domain = before.domain if verdict is None and before is not None else 0
    if verdict is not None:
        domain = DOMAINS.get(verdict.cause.domain, 0)
    return {
        "key": job.key,
        "ended_at": job.last_ended_at,
        **{kind: known.get(numbers.get(kind, "")) for kind in said._fields},
        "domain": domain,
        "confidence": CONFIDENCES.get(job.confidence, 0),
        "nodes": job.nodes_expected,
        **_lost(job, facts),
        "host": known_nodes.get(job.host),
        "verdict": newest.key,
        "verdict_revision": job.verdict_revision,
        "facts_revision": job.facts_revision,
        "members": packed(known_nodes[node] for node in members),
        "words": packed(known[word] for word in spelled),
    }


def _lost(job: sa.Row[Any], facts: JobFacts | None) -> dict[str, Any]:
    if facts is None or facts.started_at is None:
        return {"started_at": None, "node_s": 0, "gpu_s": None}
    ran = (facts.ended_at or job.last_ended_at) - facts.started_at
    run_s = round(min(max(ran, dt.timedelta(0)), _LONGEST_RUN).total_seconds())
    gpus = facts.gpus
    return {
        "started_at": facts.started_at,
        "node_s": run_s * job.nodes_expected,
        "gpu_s": None if gpus is None else run_s * gpus,
    }


def _members(connection: sa.Connection, job: sa.Row[Any]) -> list[str]:
    """The nodes that the job ran on, as far as is known: of its list, and the first failure's."""
    found = {job.host} if job.host else set[str]()
    if job.node_list:
        with suppress(NodeListError):  # of a record that is kept all the same
            found.update(expand(job.node_list))
    if job.components:
        # The list is that of one component.
        of_job = sa.select(evidence.c.node).where(evidence.c.job_key == job.key).distinct()
        found.update(connection.execute(of_job).scalars())
    return sorted(name[: names.LONGEST] for name in found)


def _find_by(
    connection: sa.Connection, before: sa.Row[Any] | None, after: dict[str, Any] | None
) -> None:
    """Brings up to date under which nodes and words the failure is found."""
    for table, column, numbers in (
        (failure_nodes, failure_nodes.c.node, "members"),
        (failure_words, failure_words.c.word, "words"),
    ):
        old = {*unpacked(getattr(before, numbers))} if before is not None else set[int]()
        new = {*unpacked(after[numbers])} if after is not None else set[int]()
        if before is not None and after is not None and before.ended_at != after["ended_at"]:
            gone, come = old, new
        else:
            gone, come = old - new, new - old
        if gone and before is not None:
            mine = sa.and_(table.c.ended_at == before.ended_at, table.c.failure == before.key)
            for part in names.parts(sorted(gone)):
                connection.execute(table.delete().where(column.in_(part), mine))
        if come and after is not None:
            shared = {"ended_at": after["ended_at"], "failure": after["key"]}
            rows = [{column.name: number, **shared} for number in sorted(come)]
            connection.execute(table.insert(), rows)


def _let_go(connection: sa.Connection, before: sa.Row[Any], after: dict[str, Any] | None) -> None:
    """Forgets the names of persons, jobs and words that no failure has any more."""
    gone = set[int]()
    for column in (
        failures.c.user,
        failures.c.account,
        failures.c.name,
        failures.c.fingerprint,
    ):
        number = getattr(before, column.name)
        if number is None or (after is not None and after[column.name] == number):
            continue
        held = sa.select(failures.c.key).where(column == number).limit(1)
        if connection.execute(held).first() is None:
            gone.add(number)
    for number in {*unpacked(before.words)} - {*unpacked(after["words"] if after else b"")}:
        held = sa.select(failure_words.c.failure).where(failure_words.c.word == number).limit(1)
        if connection.execute(held).first() is None:
            gone.add(number)
    names.forget(connection, gone)


def _counted(row: Any) -> Counted:
    members = unpacked(row["members"])
    return Counted(
        key=row["key"],
        ended_at=row["ended_at"],
        day=day_of(row["ended_at"]),
        cluster=row["cluster"],
        cause=row["cause"],
        domain=row["domain"],
        node_s=row["node_s"],
        gpu_s=row["gpu_s"] or 0,
        fingerprint=row["fingerprint"],
        user=row["user"],
        members=members,
        # Of which the system may be at fault, and that began on a node that is known.
        host=row["host"] if row["domain"] in (2, 3) and row["host"] in members else None,
    )


def day_of(at: dt.datetime) -> int:
    """Whole days since 1970, in UTC."""
    return (at - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // DAY


def packed(numbers: Iterable[int]) -> bytes:
    """Numbers, four bytes each, the lowest byte first."""
    made = array.array("I", numbers)
    if sys.byteorder == "big":
        made.byteswap()
    return made.tobytes()


def unpacked(data: bytes) -> tuple[int, ...]:
    """The numbers that `packed` was given."""
    made = array.array("I")
    made.frombytes(data)
    if sys.byteorder == "big":
        made.byteswap()
    return tuple(made)
