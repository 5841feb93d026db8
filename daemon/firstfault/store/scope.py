"""What a reader may see, as conditions of a question: never looked through afterwards."""

from __future__ import annotations

import sqlalchemy as sa

from firstfault.model.board import Reader
from firstfault.store import names
from firstfault.store.failure_tables import failures

# An account's coordinator has a few; a question for each.
MOST_ACCOUNTS = 50

Conditions = tuple[sa.ColumnElement[bool], ...]


def shares(connection: sa.Connection, reader: Reader) -> list[Conditions]:
    """The failures that the reader may see, in parts that have none in common.

    Each part is a list of conditions, the first of which an index is for. An administrator's one
    part has no condition; who sees nothing has no part.
    """
    if reader.administrator:
        return [()]
    accounts = sorted({*reader.accounts})[:MOST_ACCOUNTS]
    wanted = {names.full("account", name) for name in accounts}
    own = None if reader.user is None else names.full("user", reader.user)
    known = names.known(connection, wanted if own is None else {own, *wanted})
    found: list[Conditions] = []
    c = failures.c
    mine = None if own is None else known.get(own)
    if mine is not None:
        found.append((c.user == mine,))
    for name in sorted(wanted & known.keys()):
        others = () if mine is None else (sa.or_(c.user.is_(None), quiet(c.user) != mine),)
        found.append((c.account == known[name], *others))
    return found


def quiet(column: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """The column, for a comparison that no index is to be chosen for."""
    return sa.type_coerce(column, sa.BigInteger) + 0
