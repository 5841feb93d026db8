"""Ways to the failures that a filter is for: by which condition's index they are read.

A filter may hold for a million failures or for none. How many rows each of its conditions leaves is
looked at first, up to a limit; the narrowest one is read by its index, which holds all the others
(`firstfault.store.failure_tables`), so that no row is fetched to be left out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from firstfault.store.failure_tables import LEADING, failure_nodes, failure_words, failures
from firstfault.store.schema import UtcTime
from firstfault.store.scope import Conditions, Share

# So far are rows counted to find the narrowest condition.
_FAR = 20_000


class Driver(NamedTuple):
    """What is read from end to end: the rows of ``table`` for which ``where`` holds. ``name`` tells
    of what kind it is, ``number`` which one of them."""

    table: sa.Table
    where: Conditions
    name: str = ""
    number: Hashable = None


class Wanted(NamedTuple):
    """A filter in numbers. ``equal`` are columns of failures, ``causes`` a family's."""

    equal: dict[str, int]
    causes: tuple[int, ...] | None
    nodes: tuple[int, ...] | None
    words: tuple[int, ...]
    since: dt.datetime | None
    until: dt.datetime | None


def times(at: sa.ColumnElement[Any], wanted: Wanted) -> list[sa.ColumnElement[bool]]:
    """The conditions that ``at`` is in the time that is asked for."""

    def bound(time: dt.datetime) -> sa.BindParameter[Any]:
        return sa.bindparam(None, time, UtcTime)

    found = []
    if wanted.since is not None:
        found.append(at >= bound(wanted.since))
    if wanted.until is not None:
        found.append(at < bound(wanted.until))
    return found


class Widths:
    """How many rows each way leads to: counted to a limit, guessed beyond."""

    def __init__(self, connection: sa.Connection, wanted: Wanted) -> None:
        self._connection = connection
        self._wanted = wanted
        self._known: dict[tuple[str, Hashable], int] = {}
        self._times: tuple[int, int] | None = None

    def of(self, driver: Driver) -> int:
        """How many there are that way."""
        key = driver.name, driver.number
        if key not in self._known:
            self._known[key] = self._count(driver)
        return self._known[key]

    def ordered(self, wanted: Wanted) -> Wanted:
        """The same with the rarest word first: where several are looked up, the others seldom are."""
        if len(wanted.words) < 2:
            return wanted
        words = sorted(wanted.words, key=lambda word: self.of(_by_word(word)))
        return wanted._replace(words=tuple(words))

    def _count(self, driver: Driver) -> int:
        at = driver.table.c.ended_at
        some = (
            sa.select(sa.type_coerce(at, sa.BigInteger).label("at"))
            .where(*driver.where, *times(at, self._wanted))
            .order_by(at.desc())
            .limit(_FAR)
            .subquery()
        )
        query = sa.select(sa.func.count(), sa.func.min(some.c.at))
        count, reached = self._connection.execute(query).one()
        if count < _FAR:
            return int(count)
        # The newest are there; the rest of the time has as many for its length.
        first, last = self._ends()
        return int(_FAR * max(1.0, (last - first) / max(1, last - reached)))

    def _ends(self) -> tuple[int, int]:
        """The times of the first and the last failure."""
        if self._times is None:
            at = sa.type_coerce(failures.c.ended_at, sa.BigInteger)
            ends = [sa.select(end(at)).scalar_subquery() for end in (sa.func.min, sa.func.max)]
            first, last = self._connection.execute(sa.select(*ends)).one()
            self._times = first, last
        return self._times


def drivers(widths: Widths, wanted: Wanted, share: Share, sort: str) -> Sequence[Driver]:
    """The narrowest of the `_ways`."""
    ways = _ways(wanted, share)
    by_time = sort.endswith("ended")
    if len(ways) == 1 and by_time:
        return ways[0]
    sizes = [sum(map(widths.of, way)) for way in ways]
    size, way = min(zip(sizes, ways, strict=True), key=lambda each: (each[0], _cost(each[1][0])))
    by_others = bool(wanted.words or wanted.nodes) or not way[0].where
    if size >= _FAR and by_others and not by_time:
        # In the order that is wanted a page is full long before all rows are read.
        return [Driver(failures, (), sort)]
    return way


def _ways(wanted: Wanted, share: Share) -> list[list[Driver]]:
    """The ways to the rows: each is all that is read one after the other."""
    c = failures.c
    ways: list[list[Driver]] = []
    if wanted.nodes is not None:
        # Several clusters may have a node of this name.
        of_node = failure_nodes.c.node
        ways.append([Driver(failure_nodes, (of_node == one,), "node", one) for one in wanted.nodes])
    ways += [[_by_word(word)] for word in wanted.words]
    ways += [
        [Driver(failures, (c[name] == wanted.equal[name],), name)]
        for name in LEADING
        if name in wanted.equal
    ]
    if share.column is not None:
        mine = (share.column == share.number,)
        ways.append([Driver(failures, mine, "share", (share.column.name, share.number))])
    if wanted.causes is not None and share.column is None:
        family = wanted.causes
        ways.append([Driver(failures, (c.cause == one,), "cause", one) for one in family])
    if wanted.since is not None or not ways:
        ways.append([Driver(failures, (), "")])
    return ways


def _by_word(word: int) -> Driver:
    return Driver(failure_words, (failure_words.c.word == word,), f"word {word}")


def _cost(driver: Driver) -> int:
    """Of ways that are as wide, the one that holds most of what is asked for is the least."""
    if driver.table is not failures:
        return 1
    return 0 if driver.where else 2
