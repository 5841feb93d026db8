"""An operation of the API: what it is called, what it takes and answers, and who does it.

One value serves twice: `place` makes of it what answers requests, `firstfault.web.api.openapi` what
is documented.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from firstfault.model.board import Reader
from firstfault.web.api.parameters import Asked, Parameter, asked
from firstfault.web.places import FORM_BYTES, Needs, Place
from firstfault.web.problems import Refused, refused, response

PREFIX = "/api/v1"
JSON = "application/json"

Work = Callable[[Asked, Any], object]
"""Answers a request: a value, a ready `Response`, or None for what does not exist. It may block;
the second argument is the request's body, read. It may raise `Refused`."""

Direct = Callable[[Asked], Awaitable[Response]]
"""Answers a request whose body it reads itself."""


class Operation(msgspec.Struct, frozen=True):
    """``answers`` is the type of the answer's JSON (None: it is ``media``); ``takes`` that of the
    body's. ``bodies`` documents a body that ``direct`` reads: schemas by media type. ``statuses``
    are those of refusals beside 400, which is everywhere, by what they mean here."""

    id: str
    path: str
    said: str
    work: Work | None = None
    direct: Direct | None = None
    method: Literal["GET", "POST"] = "GET"
    needs: Needs = "reader"
    parameters: tuple[Parameter, ...] = ()
    takes: Any = None
    bodies: dict[str, dict[str, object]] = {}
    answers: Any = None
    media: str = JSON
    statuses: dict[int, str] = {}
    body_bytes: int = FORM_BYTES
    body_s: float = 30.0
    costly: bool = False
    streams: bool = False


def place(operation: Operation) -> Place:
    """The place where an operation is answered."""

    async def handler(request: Request, reader: Reader) -> Response:
        try:
            read = asked(request, reader, operation.parameters)
            if operation.direct is not None:
                return await operation.direct(read)
            body = None if operation.takes is None else await _body(request, operation.takes)
            assert operation.work is not None
            found = await run_in_threadpool(operation.work, read, body)
        except Refused as error:
            return response(error.problem)
        if found is None:
            return response(absent(operation).problem)
        return found if isinstance(found, Response) else answered(request, found)

    return Place(
        PREFIX + operation.path,
        handler,
        operation.needs,
        (operation.method,),
        body_bytes=operation.body_bytes,
        body_s=operation.body_s,
        costly=operation.costly,
        streams=operation.streams,
        form=False,
    )


def absent(operation: Operation) -> Refused:
    """The refusal of what does not exist, or is not this reader's to see."""
    said = operation.statuses.get(404, "There is no such thing")
    return refused(404, f"{said}, or it is not yours to see.")


def answered(request: Request, value: object) -> Response:
    """``value`` as JSON. A reader who has it already (If-None-Match) is told so instead."""
    return tagged(request, msgspec.json.encode(value) + b"\n", JSON)


def tagged(request: Request, body: bytes, media_type: str) -> Response:
    """``body`` with its ETag, or 304 where the reader has it."""
    # Weak: a proxy that packs the answer may keep it.
    tag = f'W/"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'
    if request.method in ("GET", "HEAD") and _has(request.headers.get("if-none-match"), tag):
        return Response(None, 304, {"etag": tag})
    return Response(body, headers={"etag": tag}, media_type=media_type)


def _has(header: str | None, tag: str) -> bool:
    if header is None:
        return False
    opaque = tag.removeprefix("W/")
    tags = {each.strip().removeprefix("W/") for each in header.split(",")}
    return "*" in tags or opaque in tags


async def _body(request: Request, kind: Any) -> Any:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != JSON:
        raise refused(
            415, f"The body must be {JSON}, by its Content-Type.", "content-type", "header", (JSON,)
        )
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except msgspec.ValidationError as error:
        _, _, where = str(error).partition(" - at `$")
        name = where.strip("`.") or None
        raise refused(422, f"The body is not as it must be: {error}.", name, "body") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise refused(400, f"The body is no JSON: {error}.", None, "body") from error
