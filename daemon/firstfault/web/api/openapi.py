"""The OpenAPI document of the API, made from its operations and the types of their answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from firstfault.web.api.operations import JSON, PREFIX, Operation
from firstfault.web.api.parameters import Parameter
from firstfault.web.problems import MEDIA_TYPE, Problem

_REF = "#/components/schemas/{name}"
_DESCRIPTION = """\
What the dashboard shows, for programs. Times are RFC 3339 in UTC; what is not known is null.

Who asks sees what they may see: an owner their own jobs, a coordinator those of their accounts, an
administrator everything. What is not theirs is answered like what does not exist (404).

A parameter that is not listed is refused, and so is a value that may not be there; the answer is
problem+json (RFC 9457) and names the parameter, its place and what is allowed. Lists are read page
by page: `next` and `previous` are the addresses of other pages.
"""

# What each operation may be answered with, by what it means.
_REFUSED = {
    400: "A parameter is not as it must be.",
    401: "It is not known who asks.",
    404: "There is no such thing, or it is not the reader's to see.",
    405: "Another method is answered here.",
    421: "The daemon does not answer to this host name.",
    503: "Who asks cannot be found out now, or too many ask at once.",
}
_CHANGE_REFUSED = {403: "A page of another site asked for it.", 408: "Sending it took too long."}
_BODY_REFUSED = {
    413: "The body is too large.",
    415: "The body is of another type.",
    422: "The body is not as it must be.",
}


def document(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """The document (OpenAPI 3.1) for these operations."""
    types = [each for one in operations for each in (one.answers, one.takes) if each is not None]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=_REF)
    schema_of = dict(zip([*types, Problem], schemas, strict=True))
    paths: dict[str, dict[str, object]] = {}
    for one in operations:
        paths.setdefault(PREFIX + one.path, {})[one.method.lower()] = _operation(one, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "firstfault",
            "version": version,
            "summary": "Which rank of a failed job failed first, and why.",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}, {"munge": []}],
        "paths": paths,
        "components": {
            "schemas": {name: _told(schema) for name, schema in components.items()},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A machine's token (docs/access.md).",
                },
                "munge": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "authorization",
                    "description": "A credential of MUNGE; `firstfault failures` makes one.",
                },
            },
        },
    }


def _operation(one: Operation, schema_of: Mapping[Any, dict[str, Any]]) -> dict[str, object]:
    found: dict[str, object] = {
        "operationId": one.id,
        "summary": one.said,
        "responses": _responses(one, schema_of),
    }
    if one.needs == "administrator":
        found["description"] = "For administrators; to others it does not exist."
    if one.parameters:
        found["parameters"] = [_parameter(each) for each in one.parameters]
    if one.takes is not None:
        content = {JSON: {"schema": schema_of[one.takes]}}
        found["requestBody"] = {"required": True, "content": content}
    elif one.bodies:
        content = {media: {"schema": schema} for media, schema in one.bodies.items()}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _parameter(parameter: Parameter) -> dict[str, object]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path",
        "description": parameter.said,
        "schema": dict(parameter.schema),
    }


def _responses(one: Operation, schema_of: Mapping[Any, dict[str, Any]]) -> dict[str, object]:
    schema = {"type": "string"} if one.answers is None else schema_of[one.answers]
    answer: dict[str, object] = {
        "description": "The answer.",
        "content": {one.media: {"schema": schema}},
    }
    found: dict[str, object] = {"200": answer}
    if one.method == "GET" and one.media == JSON:
        tag = {"schema": {"type": "string"}, "description": "For If-None-Match."}
        answer["headers"] = {"ETag": tag}
        found["304"] = {"description": "The reader has this answer already (If-None-Match)."}
    statuses = dict(_REFUSED)
    if one.method == "POST":
        statuses |= _CHANGE_REFUSED
    if one.takes is not None:
        statuses |= _BODY_REFUSED
    statuses |= {status: f"{said}." for status, said in one.statuses.items()}
    problem = {MEDIA_TYPE: {"schema": schema_of[Problem]}}
    for status, said in sorted(statuses.items()):
        found[str(HTTPStatus(status).value)] = {"description": said, "content": problem}
    return found


def _told(schema: dict[str, Any]) -> dict[str, Any]:
    # Docstrings are wrapped for the source.
    if "description" in schema:
        words = re.sub(r"\s+", " ", schema["description"].replace("``", "`")).strip()
        return schema | {"description": words}
    return schema
