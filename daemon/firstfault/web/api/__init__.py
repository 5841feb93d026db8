"""The API: all that the board answers, as JSON below /api/v1, and an OpenAPI document of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import msgspec

from firstfault import __version__
from firstfault.model.board import Board
from firstfault.model.explained import Explainer, Keeper
from firstfault.web.api import explain, explained, failures, matters, nodes
from firstfault.web.api.openapi import document
from firstfault.web.api.operations import JSON, Operation, place, tagged
from firstfault.web.places import Place


def places(
    board: Board,
    explainer: Explainer | None = None,
    now: Callable[[], dt.datetime] | None = None,
    keeper: Keeper | None = None,
) -> list[Place]:
    """The API's places. Without an ``explainer`` no logs are explained, without a ``keeper`` no
    report of them is kept; ``now`` gives the time."""
    offered = operations(board, explainer, now or _now, keeper)
    body = msgspec.json.format(msgspec.json.encode(document(offered, __version__)), indent=1)
    described = Operation(
        "openapi",
        "/openapi.json",
        "This document.",
        lambda asked, _body: tagged(asked.request, body + b"\n", JSON),
        needs="anyone",
    )
    return [place(each) for each in (described, *offered)]


def operations(
    board: Board,
    explainer: Explainer | None,
    now: Callable[[], dt.datetime],
    keeper: Keeper | None = None,
) -> list[Operation]:
    """All that the API does."""
    return [
        *failures.operations(board, now),
        *nodes.operations(board, now),
        *matters.operations(board),
        *([] if explainer is None else explain.operations(explainer, keeper)),
        *([] if keeper is None else explained.operations(keeper)),
    ]


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
