"""Pages of failures: filtered, ordered, and read on from a place rather than by counting rows."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from firstfault.model.board import Failure, FailureFilter, FailurePage, Reader
from firstfault.model.texts import storable
from firstfault.report.masking import masked
from firstfault.store import names
from firstfault.store.database import Database
from firstfault.store.failure_tables import (
    failure_nodes,
    failure_words,
    failures,
    nodes,
)
from firstfault.store.failure_ways import Driver, Wanted, Widths, drivers, times
from firstfault.store.failures import CONFIDENCES, DOMAINS, words_of
from firstfault.store.schema import jobs
from firstfault.store.scope import Share, quiet, shares

MOST = 1000
_MOST_WORDS = 8


class Place(NamedTuple):
    """Where a page begins: behind the row with this value and key, or, going back, before it."""

    back: bool
    value: int
    key: int


def page(
    database: Database, reader: Reader, which: FailureFilter, place: str | None, limit: int
) -> FailurePage:
    """A page of failures. Raises `ValueError` for a ``place`` that is none of this filter's."""
    limit, which = max(1, min(limit, MOST)), storable(which)
    tag = zlib.crc32(msgspec.json.encode(which))
    begin = None if place is None else _place(place, tag)
    with database.reading() as connection:
        wanted = _in_numbers(connection, which)
        if wanted is None:
            return FailurePage(())
        rows = _rows(connection, reader, wanted, which.sort, begin, limit + 1)
        back = begin is not None and begin.back
        more, rows = len(rows) > limit, rows[:limit]
        if back:
            rows.reverse()
        shown = shown_failures(connection, [key for _, key in rows])

    def mark(at: int, back: bool) -> str:
        return _mark(Place(back, *rows[at]), tag)

    return FailurePage(
        shown,
        next=mark(-1, False) if rows and (more or back) else None,
        previous=mark(0, True) if rows and begin is not None and (more or not back) else None,
    )


def same_failures(
    database: Database, reader: Reader, fingerprint: str, but: int, limit: int
) -> tuple[Failure, ...]:
    """The newest failures with this fingerprint, but for the one of this job's key."""
    with database.reading() as connection:
        wanted = _in_numbers(connection, FailureFilter(fingerprint=fingerprint))
        if wanted is None:
            return ()
        rows = _rows(connection, reader, wanted, "-ended", None, limit + 1)
        keys = [key for _, key in rows if key != but][:limit]
        return shown_failures(connection, keys)


def shown_failures(connection: sa.Connection, keys: Sequence[int]) -> tuple[Failure, ...]:
    """The failures of these jobs, in this order, with the secrets in their texts masked."""
    found: dict[int, Failure] = {}
    for part in names.parts(keys):
        query = (
            sa.select(
                failures,
                jobs.c.cluster.label("of_cluster"),
                jobs.c.job,
                jobs.c.incarnation,
                jobs.c.state,
                jobs.c.title,
                jobs.c.name.label("job_name"),
                jobs.c.rank,
                jobs.c.host.label("job_host"),
            )
            .join(jobs, jobs.c.key == failures.c.key)
            .where(failures.c.key.in_(part))
        )
        rows = connection.execute(query).all()
        texts = names.of_numbers(
            connection,
            (
                getattr(row, name)
                for row in rows
                for name in ("cause", "user", "account", "partition", "fingerprint")
            ),
        )
        found.update((row.key, _failure(row, texts)) for row in rows)
    return masked(tuple(found[key] for key in keys if key in found))


_DOMAIN_NAMES = {number: name for name, number in DOMAINS.items()}
_CONFIDENCE_NAMES = {number: name for name, number in CONFIDENCES.items()}


def _failure(row: sa.Row[Any], texts: dict[int | None, str]) -> Failure:
    return Failure(
        cluster=row.of_cluster or None,
        job=row.job,
        incarnation=row.incarnation,
        state=row.state,
        ended_at=row.ended_at,
        cause=texts.get(row.cause, "unknown"),
        domain=_DOMAIN_NAMES.get(row.domain),
        confidence=_CONFIDENCE_NAMES.get(row.confidence, "unknown"),
        title=_short(row.title) or "",
        nodes=row.nodes,
        name=_short(row.job_name),
        user=texts.get(row.user),
        account=texts.get(row.account),
        partition=texts.get(row.partition),
        rank=row.rank,
        host=_short(row.job_host),
        fingerprint=texts.get(row.fingerprint),
        started_at=row.started_at,
        node_s=None if row.started_at is None else float(row.node_s),
        gpu_s=None if row.gpu_s is None else float(row.gpu_s),
    )


def _short(text: str | None) -> str | None:
    # A name may be as long as sbatch takes it.
    return text if text is None or len(text) <= 500 else text[:499] + "\u2026"


def _in_numbers(connection: sa.Connection, which: FailureFilter) -> Wanted | None:
    """None where something is asked for that no failure has."""
    asked = {
        kind: names.full(kind, text)
        for kind in ("cluster", "user", "account", "partition", "name", "fingerprint", "cause")
        if (text := getattr(which, kind)) is not None
        and not (kind == "cause" and text.endswith("."))
    }
    spelled = [names.full("word", word) for word in words_of(which.text)[:_MOST_WORDS]]
    if which.text is not None and not any(map(str.isalnum, which.text)):
        return None
    known = names.known(connection, {*asked.values(), *spelled})
    if not {*asked.values(), *spelled} <= known.keys():
        return None
    equal = {kind: known[name] for kind, name in asked.items()}
    for kind, codes in (("domain", DOMAINS), ("confidence", CONFIDENCES)):
        text = getattr(which, kind)
        if text is not None and text not in codes:
            return None
        if text is not None:
            equal[kind] = codes[text]
    family = (which.cause or "").endswith(".")
    causes = _family(connection, which.cause or "") if family else None
    members = _node_numbers(connection, which) if which.node is not None else None
    if causes == () or members == ():
        return None
    words = tuple(known[name] for name in spelled)
    return Wanted(equal, causes, members, words, which.since, which.until)


def _family(connection: sa.Connection, family: str) -> tuple[int, ...]:
    begin = names.full("cause", family)
    column = sa.table("names", sa.column("key"), sa.column("name")).c
    query = sa.select(column.key).where(column.name >= begin, column.name < f"{begin[:-1]}/")
    return tuple(connection.execute(query).scalars())


def _node_numbers(connection: sa.Connection, which: FailureFilter) -> tuple[int, ...]:
    query = sa.select(nodes.c.key).where(nodes.c.node == which.node)
    if which.cluster is not None:
        query = query.where(nodes.c.cluster == which.cluster)
    return tuple(connection.execute(query.limit(names.LONGEST)).scalars())


def _rows(
    connection: sa.Connection,
    reader: Reader,
    wanted: Wanted,
    sort: str,
    begin: Place | None,
    limit: int,
) -> list[tuple[int, int]]:
    """Value and key of the rows of a page, in the order in which they are read."""
    up = (sort == "ended") != (begin is not None and begin.back)
    found: set[tuple[int, int]] = set()
    widths = Widths(connection, wanted)
    wanted = widths.ordered(wanted)
    for share in shares(connection, reader):
        for driver in drivers(widths, wanted, share, sort):
            query = _query(driver, wanted, share, sort, begin, up).limit(limit)
            found.update((value, key) for value, key in connection.execute(query))
    return sorted(found, reverse=not up)[:limit]


def _value(sort: str) -> sa.ColumnElement[int]:
    column = {"-lost": failures.c.node_s, "-nodes": failures.c.nodes}.get(sort, failures.c.ended_at)
    return sa.type_coerce(column, sa.BigInteger)


def _query(
    driver: Driver,
    wanted: Wanted,
    share: Share,
    sort: str,
    begin: Place | None,
    up: bool,
) -> sa.Select[*tuple[Any, ...]]:
    c = failures.c
    value: sa.ColumnElement[int] = _value(sort)
    by_time = sort.endswith("ended")
    key: sa.ColumnElement[int] = c.key
    at: sa.ColumnElement[Any] = c.ended_at
    if driver.table is not failures:
        key, at = driver.table.c.failure, driver.table.c.ended_at
        value = sa.type_coerce(at, sa.BigInteger) if by_time else quiet(value)
    elif not by_time and driver.name != sort:
        value = quiet(value)  # the rows are put in order, not looked for by it
    if driver.name in ("-lost", "-nodes"):
        at = quiet(at)
    query: sa.Select[*tuple[Any, ...]] = sa.select(value, key).where(
        *driver.where, *times(at, wanted)
    )
    if driver.table is not failures:
        query = query.join_from(driver.table, failures, c.key == key)
    query = query.where(*(share.others if driver.name == "share" else share.checked))
    for name, number in wanted.equal.items():
        if driver.name != name:
            query = query.where(quiet(c[name]) == number)
    if wanted.causes is not None and driver.name != "cause":
        query = query.where(quiet(c.cause).in_(wanted.causes))
    query = query.where(*_looked_up(driver, wanted))
    if begin is not None:
        here, there = sa.tuple_(value, key), sa.tuple_(begin.value, begin.key)
        query = query.where(here > there if up else here < there)
    order = (value, key) if up else (value.desc(), key.desc())
    return query.order_by(*order)


def _looked_up(driver: Driver, wanted: Wanted) -> Iterator[sa.ColumnElement[bool]]:
    """For each word, and the node, that the failures are not read by: whether it is there."""
    c = failures.c
    for table, column, name, numbers in (
        *([(failure_nodes, "node", "node", wanted.nodes)] if wanted.nodes else []),
        *((failure_words, "word", f"word {word}", (word,)) for word in wanted.words),
    ):
        if driver.name != name:
            stands = table.alias()
            found = sa.select(sa.literal(1)).where(
                stands.c[column].in_(numbers),
                stands.c.ended_at == c.ended_at,
                stands.c.failure == c.key,
            )
            # A scalar, so that it is looked up row by row: PostgreSQL would join EXISTS as a whole.
            yield found.limit(1).scalar_subquery().is_not(None)


def _mark(place: Place, tag: int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([*place, tag])).decode().rstrip("=")


def _place(text: str, tag: int) -> Place:
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        back, value, key, of = msgspec.json.decode(data, type=tuple[bool, int, int, int])
    except (binascii.Error, ValueError) as error:
        raise ValueError("not a page of failures") from error
    if of != tag or not (abs(value) < 1 << 62 and 0 <= key < 1 << 62):
        raise ValueError("a page of other failures")
    return Place(back, value, key)
