"""Logs that are sent to be explained, by the API. They are never kept; the report is where the
sender wishes it."""

from __future__ import annotations

import tempfile
from functools import partial

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.responses import Response

from firstfault.model.explained import (
    Explained,
    Explainer,
    Keeper,
    NotExplained,
    NotKept,
    Upload,
)
from firstfault.report.masking import masked
from firstfault.web import guard
from firstfault.web.api import values
from firstfault.web.api.operations import Operation, answered
from firstfault.web.api.parameters import LONGEST_WORD, Asked, Parameter, flag, word
from firstfault.web.board.explain import HOST, MOST_FILES, names_of, title_of
from firstfault.web.problems import refused

TEXT = "text/plain"
PACKED = "application/octet-stream"
FORM = "multipart/form-data"
FIELD = "file"
# What a log is called that was sent without a name.
NAME = "log"


def host(text: str) -> str:
    """A host's name. Raises ValueError."""
    if not HOST.fullmatch(text) or text == "localhost":
        raise ValueError("is no name of a host (letters, digits, dots, dashes; not localhost)")
    return text


_HOST = Parameter(
    "host",
    "The host that the logs are of, where they do not tell.",
    {"type": "string", "pattern": f"^{HOST.pattern}$", "not": {"const": "localhost"}},
    host,
)


_KEEPING = (
    flag("keep", "Keep the report; the answer's `kept` says as what, and until when."),
    word("title", "What a kept report is called; else by its job, or by the first file."),
)


def operations(explainer: Explainer, keeper: Keeper | None = None) -> list[Operation]:
    """What is answered of logs that are sent; without a ``keeper`` no report can be kept."""
    binary: dict[str, object] = {
        "type": "string",
        "contentMediaType": PACKED,
        "minLength": 1,
    }
    files = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
    form = {"type": "object", "properties": {FIELD: files}, "required": [FIELD]}
    return [
        Operation(
            "explain",
            "/explain",
            "The verdict on logs that are sent, as `firstfault explain` makes it: one as the body, "
            f'or several as a form\'s files named "{FIELD}". Packed ones are read as they are. '
            + ("Nothing is kept." if keeper is None else "Without `keep` nothing is kept."),
            direct=partial(_explain, explainer, keeper),
            method="POST",
            parameters=(_HOST,) if keeper is None else (_HOST, *_KEEPING),
            bodies={
                TEXT: {"type": "string", "minLength": 1},
                PACKED: binary,
                FORM: form | {"additionalProperties": False},
            },
            answers=values.Explanation,
            body_bytes=explainer.max_bytes,
            costly=True,
            statuses={
                408: "Sending it took too long",
                **({} if keeper is None else {409: "The report cannot be kept"}),
                413: "It is too large",
                415: "It is of another type",
                422: "It holds no log",
                429: "Too much was asked for",
                503: "It cannot be explained, or not now",
            },
        )
    ]


async def _explain(explainer: Explainer, keeper: Keeper | None, asked: Asked) -> Response:
    media = asked.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media not in (TEXT, PACKED, FORM):
        allowed = (TEXT, PACKED, FORM)
        raise refused(
            415,
            f"The body must be {', '.join(allowed)}, by its Content-Type.",
            "content-type",
            "header",
            allowed,
        )
    keeping = _keeping(keeper, asked, media)
    try:
        if keeping is not None:
            await run_in_threadpool(keeping.check_room, asked.reader)
        if media == FORM:
            found, first = await _of_form(explainer, asked)
        else:
            found, first = await _of_body(explainer, asked), NAME
        # A site's own patterns are known here, not to the process that explained.
        found = msgspec.structs.replace(found, verdict=masked(found.verdict))
        kept = None
        if keeping is not None:
            title = title_of(asked["title"] or "", found.verdict, first)
            kept = await run_in_threadpool(keeping.keep, asked.reader, found, title)
    except NotExplained as error:
        raise refused(503, str(error)) from error
    except NotKept as error:
        raise refused(409, str(error), "keep", "query") from error
    return answered(asked.request, values.Explanation(found.verdict, found.warnings, kept))


def _keeping(keeper: Keeper | None, asked: Asked, media: str) -> Keeper | None:
    """Who is to keep the report. Raises `Refused` where a page of another site may ask for it."""
    if keeper is None:
        return None
    if not asked["keep"]:
        if asked["title"] is not None:
            raise refused(409, "A title is for a report that is kept: keep=true.", "title", "query")
        return None
    headers = asked.request.headers
    # A browser that tells no origin sends these types as forms do, whatever page has it send them.
    told = "origin" in headers or "sec-fetch-site" in headers
    if guard.visit(asked.request).ambient and media != PACKED and not told:
        raise refused(
            403,
            f"To keep a report, send the log as {PACKED}, which no page of another site can do, "
            f"or name the pages' own address as Origin.",
            "content-type",
            "header",
            (PACKED,),
        )
    return keeper


async def _of_body(explainer: Explainer, asked: Asked) -> Explained:
    hosts = {} if asked["host"] is None else {NAME: asked["host"]}
    with tempfile.TemporaryFile() as file:
        async for chunk in asked.request.stream():
            file.write(chunk)
        if not file.tell():
            raise refused(422, "The body is empty: send a log.", None, "body")
        return await run_in_threadpool(explainer.explain, [Upload(NAME, file)], hosts)


# What was found, and the first file's name.
async def _of_form(explainer: Explainer, asked: Asked) -> tuple[Explained, str]:
    try:
        async with asked.request.form(max_files=MOST_FILES, max_fields=MOST_FILES) as form:
            uploads = _uploads(form)
            hosts = {} if asked["host"] is None else {each.name: asked["host"] for each in uploads}
            found = await run_in_threadpool(explainer.explain, uploads, hosts)
            return found, uploads[0].name
    except (MultiPartException, HTTPException) as error:
        said = error.detail if isinstance(error, HTTPException) else error.message
        raise refused(400, f"The form cannot be read: {said}", None, "body") from error


def _uploads(form: FormData) -> list[Upload]:
    strange = sorted({name for name, _ in form.multi_items()} - {FIELD})
    if strange:
        name = strange[0][:LONGEST_WORD]
        raise refused(422, f"The form may have fields {FIELD} only.", name, "body", (FIELD,))
    files = [each for each in form.getlist(FIELD) if isinstance(each, UploadFile)]
    if not files or len(files) < len(form.getlist(FIELD)):
        raise refused(422, f"Each field {FIELD} must be a file with a name.", FIELD, "body")
    names = names_of([str(each.filename) for each in files])
    return [Upload(name, each.file) for name, each in zip(names, files, strict=True)]
