"""What is answered where there is nothing to show: readable pages, JSON for machines."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from firstfault.report.page import page
from firstfault.web import problems
from firstfault.web.problems import Problem

TITLES = {
    400: "This request cannot be understood",
    401: "Who are you?",
    403: "This was not accepted",
    404: "Nothing is here",
    405: "This cannot be done here",
    408: "This took too long",
    413: "This is too large",
    415: "This cannot be read",
    421: "Wrong name",
    422: "This cannot be read",
    429: "Too much at once",
    500: "firstfault failed",
    503: "Busy",
}
ABSENT = (
    "There is no such page, or it is not yours to see. A job's report is here once its nodes have "
    "sent their evidence, and as long as the administrators keep it."
)


class Refusal(Exception):
    """A request that is answered with an error; ``said`` is told to the sender."""

    def __init__(
        self, status: int, said: str, headers: dict[str, str] | None = None, *, closes: bool = False
    ) -> None:
        super().__init__(said)
        self.status = status
        self.said = said
        self.headers = dict(headers or {})
        if closes:  # what is left of the body is not read
            self.headers["connection"] = "close"


class Words(NamedTuple):
    """What an error page says."""

    status: int
    title: str
    said: str


def absent() -> Refusal:
    """What does not exist, or not for this reader: both are answered alike."""
    return Refusal(404, ABSENT)


def wants_json(request: Request) -> bool:
    """True for what machines read."""
    return _path(request).endswith(".json")


def _path(request: Request) -> str:
    # Not by the URL: with a Host header that is none it cannot be made.
    return str(request.scope["path"])


def answer(request: Request, refusal: Refusal) -> Response:
    """The answer to a request that is refused."""
    if _path(request).startswith("/api/"):
        title = HTTPStatus(refusal.status).phrase
        return problems.response(Problem(refusal.status, title, refusal.said), refusal.headers)
    if wants_json(request):
        return JSONResponse(
            {"error": refusal.said}, status_code=refusal.status, headers=refusal.headers
        )
    words = Words(refusal.status, TITLES.get(refusal.status, "This cannot be shown"), refusal.said)
    return HTMLResponse(
        page("refusal.html").render(words=words),
        status_code=refusal.status,
        headers=refusal.headers,
    )
