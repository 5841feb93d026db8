"""The pages: a list of failed jobs, their reports and verdicts. No script, nothing from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firstfault.model import verdict as v
from firstfault.model.jobs import JobSummary, StoredVerdict
from firstfault.report.page import page

SHOWN = 100
# https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Failures(Protocol):
    """Where the pages read; both may block."""

    def newest(self, limit: int) -> Sequence[JobSummary]:
        """The last failures, newest first."""

    def verdicts(self, cluster: str | None, job: str) -> Sequence[StoredVerdict]:
        """The newest verdict of each incarnation of a job, newest first."""


class Hardened:
    """Adds the security headers to every response, whoever made it."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str]) -> None:
        self.app = app
        self.headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on and completes the answer's headers."""

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *self.headers]
            await send(message)

        await self.app(scope, receive, complete)


def application(
    failures: Failures,
    render: Callable[[StoredVerdict], str],
    healthy: Callable[[], bool],
    metrics: Callable[[], bytes] | None = None,
    shared: Callable[[str], str | None] = lambda _token: None,
) -> Starlette:
    """The pages as an ASGI application. ``healthy`` False makes /healthz answer 503; with
    ``metrics`` they are at /metrics. ``shared`` gives the report that a signed link leads to."""

    async def jobs(_request: Request) -> Response:
        rows = await run_in_threadpool(failures.newest, SHOWN)
        return HTMLResponse(page("jobs.html").render(jobs=[_shown(row) for row in rows]))

    async def report(request: Request) -> Response:
        stored = await _stored(failures, request)
        if stored is None:
            return _absent(request)
        return HTMLResponse(await run_in_threadpool(render, stored))

    async def verdict(request: Request) -> Response:
        stored = await _stored(failures, request)
        if stored is None:
            return JSONResponse({"error": "no verdict of this job is stored"}, status_code=404)
        return Response(v.encode(stored.verdict), media_type="application/json")

    async def linked(request: Request) -> Response:
        html = await run_in_threadpool(shared, request.path_params["token"])
        if html is None:
            return PlainTextResponse(
                "This link is not valid, or not any more. Ask the cluster's administrators for a "
                "new one: firstfault job JOBID --link\n",
                status_code=404,
            )
        return HTMLResponse(html)

    routes = [
        _route("/", jobs),
        _route("/jobs/{cluster}/{job}.json", verdict),
        _route("/jobs/{cluster}/{job}", report),
        _route("/shared/{token}", linked),
        *_inspection(healthy, metrics),
    ]
    return _hardened(routes)


def inspection(healthy: Callable[[], bool], metrics: Callable[[], bytes]) -> Starlette:
    """/healthz and /metrics alone, for an address of their own."""
    return _hardened(_inspection(healthy, metrics))


def _inspection(healthy: Callable[[], bool], metrics: Callable[[], bytes] | None) -> list[Route]:
    async def health(_request: Request) -> Response:
        fine = await run_in_threadpool(healthy)
        return PlainTextResponse("ok\n" if fine else "not working\n", 200 if fine else 503)

    routes = [_route("/healthz", health)]
    if metrics is not None:
        render = metrics

        async def scraped(_request: Request) -> Response:
            return Response(await run_in_threadpool(render), media_type=METRICS_TYPE)

        routes.append(_route("/metrics", scraped))
    return routes


def _hardened(routes: Sequence[Route]) -> Starlette:
    return Starlette(routes=list(routes), middleware=[Middleware(Hardened, headers=_HEADERS)])


def _route(path: str, handler: Callable[[Request], Awaitable[Response]]) -> Route:
    return Route(path, handler, methods=["GET"])


async def _stored(failures: Failures, request: Request) -> StoredVerdict | None:
    cluster = request.path_params["cluster"]
    found = await run_in_threadpool(
        failures.verdicts, None if cluster == "-" else cluster, request.path_params["job"]
    )
    return found[0] if found else None


def _absent(request: Request) -> Response:
    return PlainTextResponse(
        "No verdict of this job is stored: it is not judged yet, did not fail, or is not known.\n",
        status_code=404,
    )


def _shown(row: JobSummary) -> dict[str, object]:
    return {
        "cluster": row.cluster,
        "job": row.job,
        "path": f"/jobs/{quote(row.cluster or '-', safe='')}/{quote(row.job, safe='')}",
        "name": row.name,
        "user": row.user,
        "cause": row.cause,
        "title": row.title,
        "rank": row.rank,
        "host": row.host,
        "confidence": row.confidence,
        "ended_at": row.ended_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "ended_shown": row.ended_at.strftime("%Y-%m-%d %H:%M:%S"),
    }
