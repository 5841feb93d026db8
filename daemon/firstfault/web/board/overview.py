"""The overview: what failed in a time, whose fault it is, which node is sick."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial
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
from firstfault.web.board.spans import SPANS, Choice, Span, within
from firstfault.web.places import Place
from firstfault.web.refusals import Refusal

MOST_CLUSTERS = 12


def places(board: Board, clock: Callable[[], dt.datetime] = now) -> list[Place]:
    """The place of the overview."""
    return [Place("/", partial(_overview, board, clock), "reader")]


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
        Choice(each.label, _address(each, restricted), each is chosen, "Last ") for each in SPANS
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
