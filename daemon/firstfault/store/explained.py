"""Reports of logs that readers sent, kept because they wished it.

A row is its owner's; whoever asks without an owner is asked nothing more. What was kept before
``since`` is not there any more, though retention may not have come to it yet.
"""

from __future__ import annotations

import datetime as dt

import msgspec
import sqlalchemy as sa
import zstandard

from firstfault.model.explained import Explained
from firstfault.report.masking import masked
from firstfault.store.database import KEEPING, Database, hold
from firstfault.store.retention import STEP, give_back
from firstfault.store.schema import explained

_LEVEL = 3


class Row(msgspec.Struct, frozen=True):
    """A kept report without its body."""

    id: str
    owner: str
    kept_by: str
    kept_at: dt.datetime
    title: str
    cause: str
    confidence: str


_COLUMNS = [explained.c[name] for name in Row.__struct_fields__]


def packed(found: Explained) -> bytes:
    """The body of a row."""
    return zstandard.ZstdCompressor(_LEVEL).compress(msgspec.json.encode(found))


def keep(database: Database, row: Row, body: bytes, since: dt.datetime, most: int) -> bool:
    """Stores a report, unless its owner has ``most`` already; False then."""
    with database.writing() as connection:
        hold(connection, KEEPING)
        if _count(connection, row.owner, since, most) >= most:
            return False
        connection.execute(explained.insert().values(**msgspec.structs.asdict(row), body=body))
    return True


def count(database: Database, owner: str, since: dt.datetime, most: int) -> int:
    """How many reports an owner has; counted up to ``most``."""
    with database.reading() as connection:
        return _count(connection, owner, since, most)


def listed(
    database: Database,
    owner: str,
    since: dt.datetime,
    limit: int,
    after: tuple[dt.datetime, str] | None = None,
) -> list[Row]:
    """An owner's reports, the newest first: those ``after`` the one of this time and id."""
    order = (explained.c.kept_at, explained.c.id)
    query = sa.select(*_COLUMNS).where(_of(owner, since))
    if after is not None:
        place = (sa.literal(after[0], explained.c.kept_at.type), sa.literal(after[1]))
        query = query.where(sa.tuple_(*order) < sa.tuple_(*place))
    query = query.order_by(*(column.desc() for column in order)).limit(limit)
    with database.reading() as connection:
        return [Row(*each) for each in connection.execute(query)]


def one(
    database: Database, name: str, owner: str | None, since: dt.datetime
) -> tuple[Row, Explained] | None:
    """The report with the id ``name``, of this owner (None: of whom it may be).

    It is masked by the forms and patterns of today. Raises msgspec.DecodeError or
    zstandard.ZstdError for a body that is damaged.
    """
    query = sa.select(*_COLUMNS, explained.c.body).where(
        explained.c.id == name, explained.c.kept_at > since
    )
    if owner is not None:
        query = query.where(explained.c.owner == owner)
    with database.reading() as connection:
        found = connection.execute(query).one_or_none()
    if found is None:
        return None
    *fields, body = found
    text = zstandard.ZstdDecompressor().decompress(body)
    return Row(*fields), masked(msgspec.json.decode(text, type=Explained))


def forget(database: Database, name: str, owner: str | None) -> bool:
    """Removes the report with the id ``name``, of this owner (None: of whom it may be). False:
    there is none."""
    which = explained.c.id == name
    if owner is not None:
        which = sa.and_(which, explained.c.owner == owner)
    with database.writing() as connection:
        removed = connection.execute(explained.delete().where(which)).rowcount
    if removed:
        give_back(database)
    return removed > 0


def remove(database: Database, before: dt.datetime) -> int:
    """Removes some of what was kept before then, or at that time; how many."""
    old = (
        sa.select(explained.c.key)
        .where(explained.c.kept_at <= before)
        .order_by(explained.c.kept_at)
        .limit(STEP)
    )
    with database.reading() as connection:
        keys = connection.execute(old).scalars().all()
    if not keys:
        return 0
    with database.writing() as connection:
        removed = connection.execute(explained.delete().where(explained.c.key.in_(keys))).rowcount
    give_back(database)
    return removed


def _of(owner: str, since: dt.datetime) -> sa.ColumnElement[bool]:
    return sa.and_(explained.c.owner == owner, explained.c.kept_at > since)


def _count(connection: sa.Connection, owner: str, since: dt.datetime, most: int) -> int:
    some = sa.select(explained.c.key).where(_of(owner, since)).limit(most).subquery()
    return connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()
