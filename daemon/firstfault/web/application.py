"""The web application: all places, each behind the one check.

A module of pages gives its places; a line in `places` adds them. What is listed first is tried
first: "/jobs/{cluster}/{job}.json" stands before "/jobs/{cluster}/{job}".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from firstfault.model.board import Board, Reader
from firstfault.model.explained import Explainer, Keeper
from firstfault.web import api, board, files
from firstfault.web.guard import Entrance, Guard, Guarded
from firstfault.web.headers import HEADERS, REPORT_POLICY, Hardened
from firstfault.web.hosts import Hosts
from firstfault.web.limits import USUAL, Pace
from firstfault.web.places import Place
from firstfault.web.refusals import Refusal

# https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Sources(NamedTuple):
    """What the places ask, beside who reads. ``healthy`` False makes /healthz answer 503; with
    ``metrics`` they are at /metrics. ``shared`` gives the report that a signed link leads to.
    Without an ``explainer`` no logs are explained, and without a ``keeper`` no report of them is
    kept."""

    board: Board
    healthy: Callable[[], bool]
    metrics: Callable[[], bytes] | None = None
    shared: Callable[[str], str | None] = lambda _token: None
    explainer: Explainer | None = None
    keeper: Keeper | None = None


def places(sources: Sources) -> list[Place]:
    """Every place of the pages."""
    return [
        *files.places(),
        *board.places(sources.board, sources.explainer, keeper=sources.keeper),
        *api.places(sources.board, sources.explainer, keeper=sources.keeper),
        *shared_places(sources.shared),
        *inspection_places(sources.healthy, sources.metrics),
    ]


def application(
    all_places: Sequence[Place],
    entrance: Callable[[], Entrance] = Entrance,
    pace: Pace = USUAL,
) -> Starlette:
    """The pages as an ASGI application; ``entrance`` gives what counts at the moment, ``pace``
    bounds what is costly."""
    guard = Guard(entrance, pace)
    by_path: dict[str, list[Place]] = {}
    for place in all_places:
        by_path.setdefault(place.path, []).append(place)
    routes = [Route(path, Guarded(found, guard)) for path, found in by_path.items()]
    routes.append(Route("/{path:path}", Guarded([], guard)))
    app = Starlette(routes=routes, middleware=[Middleware(Hardened, headers=HEADERS)])
    app.router.redirect_slashes = False
    return app


def inspection(healthy: Callable[[], bool], metrics: Callable[[], bytes]) -> Starlette:
    """/healthz and /metrics alone, for an address of their own."""
    return application(inspection_places(healthy, metrics), lambda: Entrance(hosts=Hosts(["*"])))


def inspection_places(
    healthy: Callable[[], bool], metrics: Callable[[], bytes] | None
) -> list[Place]:
    """/healthz, and /metrics where there are some. They name no user and no job."""

    async def health(_request: Request, _reader: Reader) -> Response:
        fine = await run_in_threadpool(healthy)
        return PlainTextResponse("ok\n" if fine else "not working\n", 200 if fine else 503)

    found = [Place("/healthz", health, "anyone")]
    if metrics is not None:
        render = metrics

        async def scraped(_request: Request, _reader: Reader) -> Response:
            return Response(await run_in_threadpool(render), media_type=METRICS_TYPE)

        found.append(Place("/metrics", scraped, "anyone"))
    return found


def shared_places(shared: Callable[[str], str | None]) -> list[Place]:
    """The reports that signed links lead to: each link to its own, and nowhere else."""

    async def linked(request: Request, _reader: Reader) -> Response:
        html = await run_in_threadpool(shared, request.path_params["token"])
        if html is None:
            raise Refusal(
                404,
                "This link is not valid, or not any more. Ask whoever gave it to you, or the "
                "cluster's administrators, for a new one (firstfault job JOBID --link).",
            )
        # The address is the key to the report: it goes to nobody else.
        headers = {
            "content-security-policy": REPORT_POLICY,
            "referrer-policy": "no-referrer",
            "x-robots-tag": "noindex",
        }
        return HTMLResponse(html, headers=headers)

    return [Place("/shared/{token}", linked, "anyone")]
