"""The frame of the dashboard's pages: navigation, who reads, and how a template becomes an answer."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse

import firstfault
from firstfault.model.board import Reader
from firstfault.report.page import page


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
# Of reports: they belong to the failures.
_FAILURES_TOO = "/jobs"


class Layout(NamedTuple):
    """What every page's frame is given: ``here`` is the path of the navigation's entry that the
    page belongs to, ``form_token`` what its forms send back."""

    places: tuple[NavigationPlace, ...]
    here: str
    reader: str
    administrator: bool
    version: str
    form_token: str


def layout(request: Request, reader: Reader) -> Layout:
    """The frame of the page that ``request`` asks for."""
    path = request.url.path
    section = "/" + path.split("/")[1]
    return Layout(
        places=tuple(each for each in NAVIGATION if each.for_all or reader.administrator),
        here="/failures" if section == _FAILURES_TOO else section,
        reader=reader.name,
        administrator=reader.administrator,
        version=firstfault.__version__,
        form_token=getattr(request.state, "form_token", ""),
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
