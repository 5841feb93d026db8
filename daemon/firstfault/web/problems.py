"""What the API answers where it cannot do what it was asked: RFC 9457 (problem+json)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Literal

import msgspec
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"

In = Literal["query", "path", "header", "body"]


class Problem(msgspec.Struct, frozen=True):
    """Why a request was refused. ``detail`` is for people, and says what to do.

    Where it is about one value of the request, ``parameter`` names it, ``in`` where it stands,
    and ``allowed`` what may stand there, as far as that can be listed.
    """

    status: int
    title: str
    detail: str
    type: str = "about:blank"
    parameter: str | None = None
    in_: In | None = msgspec.field(default=None, name="in")
    allowed: tuple[str, ...] | None = None


class Refused(Exception):
    """Ends a request with a `Problem`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def refused(
    status: int,
    detail: str,
    parameter: str | None = None,
    place: In | None = None,
    allowed: tuple[str, ...] | None = None,
) -> Refused:
    """The refusal of a request, to be raised."""
    title = HTTPStatus(status).phrase
    return Refused(Problem(status, title, detail, parameter=parameter, in_=place, allowed=allowed))


def response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that tells a problem."""
    body = msgspec.json.encode(problem) + b"\n"
    return Response(body, problem.status, headers, media_type=MEDIA_TYPE)
