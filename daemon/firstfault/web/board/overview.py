"""The overview: what failed in a time, whose fault it is, which node is sick."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from firstfault.model.board import Board, Names, Reader
from firstfault.report.filters import stamp
from firstfault.web.board import filtering
from firstfault.web.board.chart import chart
from firstfault.web.board.glance import bars, sentences, tiles
from firstfault.web.board.layout import answer, now
from firstfault.web.places import Place
from firstfault.web.refusals import Refusal

DAY = dt.timedelta(days=1)
MOST_CLUSTERS = 12
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
    """A span to choose; ``is_chosen`` True for the one that is shown."""

    label: str
    href: str
    is_chosen: bool


def places(board: Board, clock: Callable[[], dt.datetime] = now) -> list[Place]:
    """The place of the overview."""
    return [Place("/", partial(_overview, board, clock), "reader")]


def within(span: Span, at: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
    """From when until when ``span`` is, at the moment ``at``: of whole steps, the last begun."""
    begun = (at - MONDAY) // span.step
    until = MONDAY + (begun + 1) * span.step
    return until - span.length, until


async def _overview(
    board: Board, clock: Callable[[], dt.datetime], request: Request, reader: Reader
) -> Response:
    asked = request.query_params.get("span", SPANS[0].name)
    span = next((each for each in SPANS if each.name == asked), None)
    if span is None:
        raise Refusal(400, f"span is one of {', '.join(each.name for each in SPANS)}.")
    cluster = request.query_params.get("cluster") or None
    if cluster is not None and filtering.read([("cluster", cluster)]).wrong:
        raise Refusal(400, "There is no such cluster.")
    since, until = within(span, clock())
    found = await run_in_threadpool(board.overview, reader, since, until, cluster)
    restricted = {} if cluster is None else {"cluster": cluster}
    query = urlencode({**restricted, "since": stamp(since)})
    listing = f"{filtering.PATH}?{query}"
    causes, more_causes = bars(found, listing)
    return await run_in_threadpool(
        answer,
        "overview.html",
        request,
        reader,
        found=found,
        sentences=sentences(found, reader, span.label),
        cluster=cluster,
        choices=_choices(span, restricted),
        clusters=_clusters(span, await run_in_threadpool(board.names, reader), cluster),
        tiles=tiles(found, listing),
        causes=causes,
        more_causes=more_causes,
        chart=chart(found, f"{filtering.PATH}?{urlencode(restricted)}" if cluster else "/failures"),
        suspects=[node for node in found.nodes if node.suspect],
        newest=found.newest,
        listing=listing,
        query=query,
    )


def _choices(chosen: Span, restricted: dict[str, str]) -> list[Choice]:
    return [
        Choice(f"Last {each.label}", _address(each, restricted), each is chosen) for each in SPANS
    ]


def _clusters(span: Span, names: Names, chosen: str | None) -> list[Choice]:
    known = names.clusters[:MOST_CLUSTERS]
    if len(known) < 2 and chosen is None:
        return []
    every = Choice("All clusters", _address(span, {}), chosen is None)
    those = dict.fromkeys((*known, *([] if chosen is None else [chosen])))
    return [every, *(Choice(one, _address(span, {"cluster": one}), one == chosen) for one in those)]


def _address(span: Span, restricted: dict[str, str]) -> str:
    query = urlencode({**({} if span is SPANS[0] else {"span": span.name}), **restricted})
    return f"/?{query}" if query else "/"
