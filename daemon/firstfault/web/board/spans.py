"""The times that pages offer to look at: the last day, week, month and year."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

DAY = dt.timedelta(days=1)
# Weeks begin on one, as the board counts them.
MONDAY = dt.datetime(1970, 1, 5, tzinfo=dt.UTC)


class Span(NamedTuple):
    """A time to look at: the last ``length``, which ends with the ``step`` that goes on."""

    name: str
    label: str
    length: dt.timedelta
    step: dt.timedelta


SPANS = (
    Span("24h", "24 hours", DAY, dt.timedelta(hours=1)),
    Span("7d", "7 days", 7 * DAY, DAY),
    Span("30d", "30 days", 30 * DAY, DAY),
    Span("1y", "year", 364 * DAY, 7 * DAY),
)


class Choice(NamedTuple):
    """A time, or a cluster, to choose; ``is_chosen`` True for the one that is shown. ``before`` is
    what its label begins with where there is room."""

    label: str
    href: str
    is_chosen: bool
    before: str = ""


def within(span: Span, at: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
    """From when until when ``span`` is, at the moment ``at``: of whole steps, the last begun."""
    begun = (at - MONDAY) // span.step
    until = MONDAY + (begun + 1) * span.step
    return until - span.length, until
