"""Reports of logs that were sent: as the answer alone, and those that their maker keeps."""

from __future__ import annotations

from urllib.parse import quote

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from firstfault.model.board import Reader
from firstfault.model.explained import Explained, Keeper, Kept, SharedLink
from firstfault.report import html
from firstfault.report.html import Link
from firstfault.web.board.layout import answer
from firstfault.web.places import Place
from firstfault.web.refusals import absent

MOST_WARNINGS = 20


def places(keeper: Keeper | None) -> list[Place]:
    """/explained/{report}, and what forgets it; no places where nothing is kept."""
    if keeper is None:
        return []
    used = keeper

    async def report(request: Request, reader: Reader) -> Response:
        return await run_in_threadpool(_report, used, request, reader)

    async def forget(request: Request, reader: Reader) -> Response:
        if not await run_in_threadpool(used.forget, reader, request.path_params["report"]):
            raise absent()
        return RedirectResponse("/explain?done=forgotten", 303)

    return [
        Place("/explained/{report}", report, "reader"),
        Place("/explained/{report}/forget", forget, "reader", ("POST",)),
    ]


def path(kept: Kept) -> str:
    """Where a kept report stands among the pages."""
    return f"/explained/{kept.id}"


def page(
    request: Request,
    reader: Reader,
    found: Explained,
    *,
    kept: Kept | None = None,
    address: str | None = None,
    link: SharedLink | None = None,
    not_kept: str | None = None,
) -> Response:
    """The page of a report; ``not_kept`` says why it is not kept, though that was wished."""
    return answer(
        "explained.html",
        request,
        reader,
        # Made by a template of ours that escapes all that is put into it.
        report=Markup(html.body(found.verdict, links=_links(found, kept))),  # noqa: S704
        warnings=found.warnings[:MOST_WARNINGS],
        left_out=max(0, len(found.warnings) - MOST_WARNINGS),
        kept=kept,
        address=address,
        link=link,
        not_kept=not_kept,
    )


def _links(found: Explained, kept: Kept | None) -> list[Link]:
    about = Link("What this cause means", f"/causes/{quote(found.verdict.cause.id, safe='')}")
    own = [] if kept is None else [Link("This report as JSON", f"/api/v1{path(kept)}")]
    return [*own, about]


def _report(keeper: Keeper, request: Request, reader: Reader) -> Response:
    found = keeper.report(reader, request.path_params["report"])
    if found is None:
        raise absent()
    kept, link = found.kept, keeper.link(found.kept)
    return page(
        request,
        reader,
        found.explained,
        kept=kept,
        address=_whole(request, keeper.address(kept)),
        link=None if link is None else link._replace(href=_whole(request, link.href)),
    )


# Where readers' address of the pages is not known, the one that this reader came by.
def _whole(request: Request, href: str) -> str:
    return f"{request.url.scheme}://{request.url.netloc}{href}" if href.startswith("/") else href
