"""Reports of logs that readers sent, kept where they wish it; see docs/access.md for whose they are."""

from __future__ import annotations

import datetime as dt
import re
import secrets
from collections.abc import Callable

import msgspec

from firstfault.app.links import Links
from firstfault.config import Explain
from firstfault.model.board import Reader
from firstfault.model.explained import (
    Explained,
    Kept,
    KeptPage,
    KeptReport,
    NotKept,
    SharedLink,
)
from firstfault.model.texts import storable
from firstfault.report import html
from firstfault.report import wording as w
from firstfault.report.discretion import for_owner
from firstfault.report.masking import masked, masked_text
from firstfault.store import explained as stored
from firstfault.store.database import Database

# Of a report, as JSON: a hundred times what one of a large job takes.
MOST_BYTES = 1 << 20
_ID = re.compile(r"[0-9a-f]{32}")
_PLACE = re.compile(r"([0-9]{1,17})-([0-9a-f]{32})")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)

Clock = Callable[[], dt.datetime]


class KeptReports:
    """See `firstfault.model.explained.Keeper`. ``links`` gives what signs at the moment."""

    def __init__(
        self, database: Database, settings: Explain, links: Callable[[], Links], clock: Clock
    ) -> None:
        self.days = settings.keep_days
        self.most = settings.keep_reports
        self._database = database
        self._links = links
        self._clock = clock

    def check_room(self, reader: Reader) -> None:
        """See `Keeper`."""
        if stored.count(self._database, _owner(reader), self._since(), self.most) >= self.most:
            raise NotKept(self._full())

    def keep(self, reader: Reader, found: Explained, title: str) -> Kept:
        """See `Keeper`."""
        warnings = tuple(masked_text(w.clean(each)) for each in found.warnings)
        found = storable(masked(Explained(found.verdict, warnings)))
        if len(msgspec.json.encode(found)) > MOST_BYTES:
            raise NotKept(
                f"The report is larger than {w.mebibytes(MOST_BYTES >> 10)}, the most that is kept of "
                f"one. Save or print the page instead."
            )
        row = stored.Row(
            id=secrets.token_hex(16),
            owner=_owner(reader),
            kept_by=storable(reader.name),
            kept_at=self._clock(),
            title=storable(masked_text(title)),
            cause=found.verdict.cause.id[:64],
            confidence=found.verdict.cause.confidence[:16],
        )
        body = stored.packed(found)
        if not stored.keep(self._database, row, body, self._since(), self.most):
            raise NotKept(self._full())
        return self._kept(row)

    def listed(self, reader: Reader, page: str | None = None, limit: int = 50) -> KeptPage:
        """See `Keeper`."""
        after = None if page is None else _place(page)
        rows = stored.listed(self._database, _owner(reader), self._since(), limit + 1, after)
        shown = rows[:limit]
        following = _page(shown[-1]) if len(rows) > limit else None
        return KeptPage(tuple(map(self._kept, shown)), following)

    def report(self, reader: Reader, name: str) -> KeptReport | None:
        """See `Keeper`."""
        return self._report(name, None if reader.administrator else _owner(reader))

    def forget(self, reader: Reader, name: str) -> bool:
        """See `Keeper`."""
        owner = None if reader.administrator else _owner(reader)
        return _ID.fullmatch(name) is not None and stored.forget(self._database, name, owner)

    def signs(self) -> bool:
        """See `Keeper`."""
        return self._links().signs

    def address(self, kept: Kept) -> str:
        """See `Keeper`."""
        return self._links().explained_page(kept.id)

    def link(self, kept: Kept) -> SharedLink | None:
        """See `Keeper`."""
        links = self._links()
        href = links.signed_explained(kept.id)
        until = min(kept.kept_until, self._clock() + dt.timedelta(days=links.days))
        return None if href is None else SharedLink(href, until)

    def shared(self, token: str) -> str | None:
        """The report that a signed link leads to, as a page by itself; None: to none. As behind
        every link, no process of another user is on it."""
        name = self._links().explained(token)
        found = None if name is None else self._report(name, None)
        if found is None:
            return None
        return html.render(for_owner(found.explained.verdict), generated_at=found.kept.kept_at)

    def _report(self, name: str, owner: str | None) -> KeptReport | None:
        if not _ID.fullmatch(name):
            return None
        found = stored.one(self._database, name, owner, self._since())
        return None if found is None else KeptReport(self._kept(found[0]), found[1])

    def _kept(self, row: stored.Row) -> Kept:
        until = row.kept_at + dt.timedelta(days=self.days)
        title = masked_text(row.title)
        return Kept(row.id, title, row.cause, row.confidence, row.kept_by, row.kept_at, until)

    def _since(self) -> dt.datetime:
        return self._clock() - dt.timedelta(days=self.days)

    def _full(self) -> str:
        return (
            f"You keep {w.count(self.most, 'report')} already, and that is the most. Forget one "
            f"that you do not need any more, or have this one explained without keeping it."
        )


# A person's by their name as a user, whatever proves it; else that of the token, or of everyone.
def _owner(reader: Reader) -> str:
    return f"reader {reader.name}" if reader.user is None else f"user {reader.user}"


def _page(row: stored.Row) -> str:
    return f"{(row.kept_at - _EPOCH) // _MICROSECOND}-{row.id}"


def _place(page: str) -> tuple[dt.datetime, str]:
    found = _PLACE.fullmatch(page)
    if found is None:
        raise ValueError("not a page of kept reports")
    return _EPOCH + int(found[1]) * _MICROSECOND, found[2]
