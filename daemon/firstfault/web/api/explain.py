"""Logs that are sent to be explained, by the API. Nothing of them is kept."""

from __future__ import annotations

import tempfile
from functools import partial

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.responses import Response

from firstfault.model.explained import Explained, Explainer, NotExplained, Upload
from firstfault.report.masking import masked
from firstfault.web.api.operations import Operation, answered
from firstfault.web.api.parameters import LONGEST_WORD, Asked, Parameter
from firstfault.web.board.explain import HOST, MOST_FILES, names_of
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


def operations(explainer: Explainer) -> list[Operation]:
    """What is answered of logs that are sent."""
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
            "Nothing is kept.",
            direct=partial(_explain, explainer),
            method="POST",
            parameters=(_HOST,),
            bodies={
                TEXT: {"type": "string", "minLength": 1},
                PACKED: binary,
                FORM: form | {"additionalProperties": False},
            },
            answers=Explained,
            body_bytes=explainer.max_bytes,
            costly=True,
            statuses={
                408: "Sending it took too long",
                413: "It is too large",
                415: "It is of another type",
                422: "It holds no log",
                429: "Too much was asked for",
                503: "It cannot be explained, or not now",
            },
        )
    ]


async def _explain(explainer: Explainer, asked: Asked) -> Response:
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
    try:
        if media == FORM:
            found = await _of_form(explainer, asked)
        else:
            found = await _of_body(explainer, asked)
    except NotExplained as error:
        raise refused(503, str(error)) from error
    # A site's own patterns are known here, not to the process that explained.
    told = msgspec.structs.replace(found, verdict=masked(found.verdict))
    return answered(asked.request, told)


async def _of_body(explainer: Explainer, asked: Asked) -> Explained:
    hosts = {} if asked["host"] is None else {NAME: asked["host"]}
    with tempfile.TemporaryFile() as file:
        async for chunk in asked.request.stream():
            file.write(chunk)
        if not file.tell():
            raise refused(422, "The body is empty: send a log.", None, "body")
        return await run_in_threadpool(explainer.explain, [Upload(NAME, file)], hosts)


async def _of_form(explainer: Explainer, asked: Asked) -> Explained:
    try:
        async with asked.request.form(max_files=MOST_FILES, max_fields=MOST_FILES) as form:
            uploads = _uploads(form)
            hosts = {} if asked["host"] is None else {each.name: asked["host"] for each in uploads}
            return await run_in_threadpool(explainer.explain, uploads, hosts)
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
