"""Causes: the knowledge base, with how often this cluster met each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from firstfault.model.board import Board, Count, FailureFilter, Reader
from firstfault.report import causes as knowledge
from firstfault.report import handbook
from firstfault.report import wording as w
from firstfault.report.causes import CauseText
from firstfault.web.board.layout import answer, now
from firstfault.web.places import Place
from firstfault.web.refusals import absent

MONTH, YEAR = dt.timedelta(days=30), dt.timedelta(days=365)
NEWEST = 20
_DOMAINS = ("user", "system", "either")


class Row(NamedTuple):
    """A cause with its counts; ``text`` None: one that this version does not know."""

    id: str
    text: CauseText | None
    month: Count
    year: Count


class Group(NamedTuple):
    """Causes of one domain."""

    title: str
    rows: tuple[Row, ...]


def places(board: Board, clock: Callable[[], dt.datetime] = now) -> list[Place]:
    """/causes and /causes/{id}; the counts are of what the reader may see."""

    async def causes(request: Request, reader: Reader) -> Response:
        month, year = await run_in_threadpool(_counts, board, reader, clock())
        rows = _rows(month, year)
        met = sorted(
            (row for row in rows if row.year.failures),
            key=lambda row: (-row.month.failures, -row.year.failures, row.id),
        )
        groups = [
            Group(f"For {w.WHO_ACTS[domain]}", tuple(_of(domain, rows))) for domain in _DOMAINS
        ]
        return answer("causes.html", request, reader, met=met, groups=groups)

    async def cause(request: Request, reader: Reader) -> Response:
        try:
            text = knowledge.cause(request.path_params["cause"])
        except KeyError:
            raise absent() from None
        month, year = await run_in_threadpool(_counts, board, reader, clock())
        newest = await run_in_threadpool(
            board.failures, reader, FailureFilter(cause=text.id), None, NEWEST
        )
        return answer(
            "cause.html",
            request,
            reader,
            said=handbook.data(text),
            who_acts=w.WHO_ACTS[text.domain],
            month=month.get(text.id, Count()),
            year=year.get(text.id, Count()),
            failures=newest.failures,
            more=newest.next is not None,
        )

    return [Place("/causes", causes, "reader"), Place("/causes/{cause}", cause, "reader")]


def _counts(
    board: Board, reader: Reader, until: dt.datetime
) -> tuple[dict[str, Count], dict[str, Count]]:
    return (
        board.causes(reader, until - MONTH, until),
        board.causes(reader, until - YEAR, until),
    )


def _rows(month: dict[str, Count], year: dict[str, Count]) -> list[Row]:
    known = {text.id: text for text in knowledge.causes()}
    return [
        Row(each, known.get(each), month.get(each, Count()), year.get(each, Count()))
        for each in (*known, *sorted({*month, *year} - known.keys()))
    ]


def _of(domain: str, rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.text is not None and row.text.domain == domain]
