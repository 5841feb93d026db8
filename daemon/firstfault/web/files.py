"""The pages' own styles, scripts and pictures, at /static/NAME."""

from __future__ import annotations

import hashlib
import importlib.resources
from functools import cache
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from firstfault.model.board import Reader
from firstfault.report.page import page
from firstfault.web.places import Place
from firstfault.web.refusals import absent

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "woff2": "font/woff2",
}
_STYLES = frozenset({"report.css", "board.css"})
_YEAR = "public, max-age=31536000, immutable"


class File(NamedTuple):
    """A file as it is served; ``version`` changes with its content."""

    content: bytes
    media_type: str
    version: str


def address(name: str) -> str:
    """Where the file ``name`` is, its version with it: it may be kept for ever."""
    found = _found(name)
    return f"/static/{name}" + (f"?v={found.version}" if found else "")


def places() -> list[Place]:
    """The place of the files."""
    return [Place("/static/{name}", _file, "anyone")]


async def _file(request: Request, _reader: Reader) -> Response:
    found = _found(request.path_params["name"])
    if found is None:
        raise absent()
    kept = request.query_params.get("v") == found.version
    headers = {"etag": f'"{found.version}"', "cache-control": _YEAR if kept else "no-cache"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)


def _found(name: str) -> File | None:
    if name in _STYLES:  # templates: a site may have its own, and others after a reload
        return _versioned(page(name).render().encode(), "css")
    return _files().get(name)


@cache
def _files() -> dict[str, File]:
    found = {}
    for each in importlib.resources.files("firstfault.templates").iterdir():
        kind = each.name.rpartition(".")[2]
        if each.is_file() and kind in _TYPES:
            found[each.name] = _versioned(each.read_bytes(), kind)
    return found


def _versioned(content: bytes, kind: str) -> File:
    return File(content, _TYPES[kind], hashlib.sha256(content).hexdigest()[:16])
