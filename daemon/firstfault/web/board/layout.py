"""The frame of the dashboard's pages: navigation, who reads, and how a template becomes an answer."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse

import firstfault
from firstfault.model.board import Reader
from firstfault.report.page import page
from firstfault.web import files, guard

# By themselves anew, where it is asked for: /?refresh=60, in seconds.
REFRESH_S = range(10, 3601)


class NavigationPlace(NamedTuple):
    """An entry of the navigation; the pages below its path belong to it."""

    path: str
    label: str
    for_all: bool = True


NAVIGATION = (
    NavigationPlace("/", "Overview"),
    NavigationPlace("/failures", "Failures"),
    NavigationPlace("/nodes", "Nodes", for_all=False),
    NavigationPlace("/causes", "Causes"),
    NavigationPlace("/fingerprints", "Fingerprints"),
    NavigationPlace("/incidents", "Incidents", for_all=False),
    NavigationPlace("/explain", "Explain"),
    NavigationPlace("/deliveries", "Deliveries", for_all=False),
    NavigationPlace("/health", "Health", for_all=False),
)
# Reports belong to the failures, and those of logs that were sent to their form.
_BELONGS = {"/jobs": "/failures", "/explained": "/explain"}


class Files(NamedTuple):
    """The addresses of the pages' own files."""

    board_style: str
    report_style: str
    script: str
    mark: str


class Layout(NamedTuple):
    """What every page's frame is given: ``here`` is the path of the navigation's entry that the
    page belongs to, ``form_token`` what its forms send back, ``note`` what the foot says of
    access, ``refresh_s`` after how long the page is to load itself again (None: not at all)."""

    places: tuple[NavigationPlace, ...]
    here: str
    reader: str
    administrator: bool
    version: str
    form_token: str
    note: str
    refresh_s: int | None
    files: Files


def layout(request: Request, reader: Reader) -> Layout:
    """The frame of the page that ``request`` asks for."""
    section = "/" + request.url.path.split("/")[1]
    visit = guard.visit(request)
    return Layout(
        places=tuple(each for each in NAVIGATION if each.for_all or reader.administrator),
        here=_BELONGS.get(section, section),
        reader=reader.name,
        administrator=reader.administrator,
        version=firstfault.__version__,
        form_token=visit.form_token,
        note=visit.note,
        refresh_s=_refresh_s(request.query_params.get("refresh", "")),
        files=Files(*map(files.address, ("board.css", "report.css", "board.js", "mark.svg"))),
    )


def answer(
    template: str, request: Request, reader: Reader, *, status: int = 200, **context: object
) -> HTMLResponse:
    """The page ``template``, which extends base.html, made of ``context``."""
    html = page(template).render(layout=layout(request, reader), **context)
    return HTMLResponse(html, status)


def now() -> dt.datetime:
    """The present moment, aware."""
    return dt.datetime.now(dt.UTC)


def _refresh_s(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= 4
    return int(text) if is_number and int(text) in REFRESH_S else None
