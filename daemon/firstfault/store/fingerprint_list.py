"""Fingerprints: the same failure again and again, and what somebody knows of it."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from firstfault.model.board import Fingerprint, FingerprintPage, Reader
from firstfault.model.texts import storable
from firstfault.report.masking import masked
from firstfault.store import names
from firstfault.store.database import Database
from firstfault.store.failure_tables import (
    failures,
    fingerprint_notes,
    fingerprint_users,
    fingerprints,
)
from firstfault.store.schema import UtcTime, jobs
from firstfault.store.scope import Share, shares

MOST = 500
LONGEST_NOTE = 2000
FRESH = dt.timedelta(days=7)
GONE = dt.timedelta(days=30)
# So many failures of each part are looked at for those that were seen last.
_NEWEST = 500
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class _Seen(NamedTuple):
    """What a reader sees of a fingerprint; ``newest`` is one of the failures' jobs."""

    key: int
    first_at: dt.datetime
    last_at: dt.datetime
    failures: int
    newest: int
    users: int


def page(
    database: Database, reader: Reader, place: str | None, limit: int, now: dt.datetime
) -> FingerprintPage:
    """Fingerprints, those last seen first. Raises `ValueError` for a ``place`` that is none."""
    limit = max(1, min(limit, MOST))
    begin = None if place is None else _place(place)
    with database.reading() as connection:
        if reader.administrator:
            found = _of_all(connection, begin, limit + 1)
        else:
            found = _of_some(connection, reader, begin, limit + 1)
        more, found = len(found) > limit, found[:limit]
        shown = _shown(connection, reader, found, now)
    end = found[-1] if more else None
    return FingerprintPage(shown, None if end is None else _mark(_micro(end.last_at), end.key))


def one(
    database: Database, reader: Reader, fingerprint: str, now: dt.datetime
) -> Fingerprint | None:
    """One fingerprint, None where the reader sees no failure of it."""
    name = names.full("fingerprint", fingerprint)
    with database.reading() as connection:
        key = names.known(connection, [name]).get(name)
        if key is None:
            return None
        if reader.administrator:
            found = _of_all(connection, None, 1, key)
        else:
            found = _of_some(connection, reader, None, 1, key)
        shown = _shown(connection, reader, found, now)
    return shown[0] if shown else None


def note(
    database: Database, fingerprint: str, text: str | None, who: str, now: dt.datetime
) -> bool:
    """Says of a fingerprint what somebody knows of it (None: nothing any more)."""
    name = names.full("fingerprint", fingerprint)
    stands = name.partition(":")[2]
    mine = fingerprint_notes.c.fingerprint == stands
    with database.writing() as connection:
        key = names.known(connection, [name]).get(name)
        query = sa.select(fingerprints.c.key).where(fingerprints.c.key == key)
        if key is None or connection.execute(query).first() is None:
            return False
        connection.execute(fingerprint_notes.delete().where(mine))
        if text is not None:
            connection.execute(
                fingerprint_notes.insert().values(
                    fingerprint=stands,
                    note=storable(text)[:LONGEST_NOTE],
                    noted_by=storable(who)[: names.LONGEST],
                    noted_at=now,
                )
            )
    return True


def _of_all(
    connection: sa.Connection, begin: tuple[int, int] | None, limit: int, key: int | None = None
) -> list[_Seen]:
    c = fingerprints.c
    at = sa.type_coerce(c.last_at, sa.BigInteger)
    query = sa.select(c.key, c.first_at, c.last_at, c.failures, c.newest)
    if key is not None:
        query = query.where(c.key == key)
    if begin is not None:
        query = query.where(sa.tuple_(at, c.key) < sa.tuple_(*begin))
    rows = connection.execute(query.order_by(at.desc(), c.key.desc()).limit(limit)).all()
    users = fingerprint_users.c
    of_each: dict[int, int] = {}
    for part in names.parts([row.key for row in rows]):
        counted = (
            sa.select(users.fingerprint, sa.func.count())
            .where(users.fingerprint.in_(part), users.failures > 0)
            .group_by(users.fingerprint)
        )
        of_each.update((number, count) for number, count in connection.execute(counted))
    return [_Seen(*row, of_each.get(row.key, 0)) for row in rows]


def _of_some(
    connection: sa.Connection,
    reader: Reader,
    begin: tuple[int, int] | None,
    limit: int,
    key: int | None = None,
) -> list[_Seen]:
    """Of the failures that the reader may see, the last seen first."""
    c = failures.c
    columns = (c.fingerprint, c.user, c.ended_at, c.key)
    mine = c.fingerprint.is_not(None) if key is None else c.fingerprint == key
    visible = shares(connection, reader)
    if begin is None and key is None:
        newest = _newest(connection, visible, limit)
        mine = mine if newest is None else c.fingerprint.in_(newest)
    seen = [sa.select(*columns).where(*share.searched, mine) for share in visible]
    if not seen:
        return []
    rows = sa.union_all(*seen).subquery().c
    last_at = sa.func.max(sa.type_coerce(rows.ended_at, sa.BigInteger))
    query = (
        sa.select(
            rows.fingerprint,
            sa.func.min(rows.ended_at),
            sa.func.max(rows.ended_at),
            sa.func.count(),
            sa.func.max(rows.key),
            sa.func.count(sa.func.coalesce(rows.user, 0).distinct()),
        )
        .group_by(rows.fingerprint)
        .order_by(last_at.desc(), rows.fingerprint.desc())
        .limit(limit)
    )
    if begin is not None:
        at, number = begin
        query = query.having(
            sa.or_(last_at < at, sa.and_(last_at == at, rows.fingerprint < number))
        )
    return [_Seen(*row) for row in connection.execute(query)]


def _newest(connection: sa.Connection, visible: Sequence[Share], limit: int) -> list[int] | None:
    """The fingerprints that were seen last, where the newest failures alone tell which these are.

    So all that the reader may see need not be put in order by fingerprint.
    """
    c = failures.c
    at = sa.type_coerce(c.ended_at, sa.BigInteger)
    last_at: dict[int, int] = {}
    reached: int | None = None
    for share in visible:
        query = sa.select(c.fingerprint, at).where(*share.searched, c.fingerprint.is_not(None))
        rows = connection.execute(query.order_by(at.desc()).limit(_NEWEST)).all()
        if len(rows) == _NEWEST:
            reached = max(reached or rows[-1][1], rows[-1][1])
        for number, ended_at in rows:
            last_at[number] = max(ended_at, last_at.get(number, ended_at))
    if reached is None:
        return None
    # Of what lies further back others may have been seen as late.
    known = sorted(((at, number) for number, at in last_at.items() if at > reached), reverse=True)
    return [number for _, number in known[:limit]] if len(known) >= limit else None


def _shown(
    connection: sa.Connection, reader: Reader, found: Sequence[_Seen], now: dt.datetime
) -> tuple[Fingerprint, ...]:
    texts = names.of_numbers(connection, [each.key for each in found])
    about: dict[int, tuple[str, str]] = {}
    for part in names.parts([each.newest for each in found]):
        query = sa.select(jobs.c.key, jobs.c.cause, jobs.c.title).where(jobs.c.key.in_(part))
        about.update((key, (cause, title)) for key, cause, title in connection.execute(query))
    notes: dict[str, sa.Row[Any]] = {}
    for part in names.parts(sorted(texts.values())):
        noted = sa.select(fingerprint_notes).where(fingerprint_notes.c.fingerprint.in_(part))
        notes.update((row.fingerprint, row) for row in connection.execute(noted))
    recent = [each for each in found if each.last_at >= now - FRESH > each.first_at]
    back = _back(connection, reader, [each.key for each in recent], now - FRESH)
    shown = []
    for each in found:
        fingerprint = texts.get(each.key)
        cause, title = about.get(each.newest, ("unknown", ""))
        if fingerprint is None:
            continue
        said = notes.get(fingerprint)
        shown.append(
            Fingerprint(
                fingerprint=fingerprint,
                cause=cause,
                title=(title or "")[:500],
                first_at=each.first_at,
                last_at=each.last_at,
                failures=each.failures,
                users=each.users,
                fresh=each.first_at >= now - FRESH,
                back=each.key in back,
                note=None if said is None else said.note,
                noted_by=None if said is None else said.noted_by,
                noted_at=None if said is None else said.noted_at,
            )
        )
    return masked(tuple(shown))


def _back(
    connection: sa.Connection, reader: Reader, keys: Sequence[int], since: dt.datetime
) -> set[int]:
    """Those of ``keys`` that were seen since a time, and before that not for long."""
    c = failures.c
    recent = sa.bindparam(None, since, UtcTime)
    first: dict[int, list[dt.datetime]] = {key: [] for key in keys}
    last: dict[int, list[dt.datetime]] = {key: [] for key in keys}
    for share, part in itertools.product(shares(connection, reader), names.parts(keys)):
        mine = sa.select(c.ended_at).where(c.fingerprint == fingerprints.c.key, *share.checked)
        after = mine.where(c.ended_at >= recent).order_by(c.ended_at).limit(1)
        before = mine.where(c.ended_at < recent).order_by(c.ended_at.desc()).limit(1)
        query = sa.select(
            fingerprints.c.key, after.scalar_subquery(), before.scalar_subquery()
        ).where(fingerprints.c.key.in_(part))
        for key, begun, ended in connection.execute(query):
            first[key] += [] if begun is None else [begun]
            last[key] += [] if ended is None else [ended]
    return {
        key for key in keys if first[key] and last[key] and min(first[key]) - max(last[key]) >= GONE
    }


def _micro(at: dt.datetime) -> int:
    return (at - _EPOCH) // dt.timedelta(microseconds=1)


def _mark(at: int, key: int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([at, key])).decode().rstrip("=")


def _place(text: str) -> tuple[int, int]:
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        at, key = msgspec.json.decode(data, type=tuple[int, int])
    except (binascii.Error, ValueError) as error:
        raise ValueError("not a page of fingerprints") from error
    if not (abs(at) < 1 << 62 and 0 <= key < 1 << 62):
        raise ValueError("not a page of fingerprints")
    return at, key
