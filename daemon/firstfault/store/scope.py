"""What a reader may see, as conditions of a question: never looked through afterwards."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from firstfault.model.board import Reader
from firstfault.store import names
from firstfault.store.failure_tables import failures

# An account's coordinator has a few; a question for each.
MOST_ACCOUNTS = 50

Conditions = tuple[sa.ColumnElement[bool], ...]


class Share(NamedTuple):
    """Some of the failures: those whose ``column`` has this number, but for what the ``others``
    leave out; all where there is no column."""

    column: sa.Column[int] | None = None
    number: int = 0
    others: Conditions = ()

    @property
    def searched(self) -> Conditions:
        """The conditions, the first of which an index is for."""
        mine = () if self.column is None else (self.column == self.number,)
        return (*mine, *self.others)

    @property
    def checked(self) -> Conditions:
        """The conditions, for rows that are found by something else."""
        mine = () if self.column is None else (quiet(self.column) == self.number,)
        return (*mine, *self.others)


def shares(connection: sa.Connection, reader: Reader) -> list[Share]:
    """The failures that the reader may see, in parts that have none in common.

    An administrator's one part has no condition; who sees nothing has no part.
    """
    if reader.administrator:
        return [Share()]
    accounts = sorted({*reader.accounts})[:MOST_ACCOUNTS]
    wanted = {names.full("account", name) for name in accounts}
    own = None if reader.user is None else names.full("user", reader.user)
    known = names.known(connection, wanted if own is None else {own, *wanted})
    found: list[Share] = []
    c = failures.c
    mine = None if own is None else known.get(own)
    if mine is not None:
        found.append(Share(c.user, mine))
    for name in sorted(wanted & known.keys()):
        others = () if mine is None else (sa.or_(c.user.is_(None), quiet(c.user) != mine),)
        found.append(Share(c.account, known[name], others))
    return found


def quiet(column: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """The column, for a comparison that no index is to be chosen for."""
    return sa.type_coerce(column, sa.BigInteger) + 0
