"""The pages of the dashboard: a module for each, with its places."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from firstfault.model.board import Board
from firstfault.model.explained import Explainer, Keeper
from firstfault.web.board import (
    causes,
    deliveries,
    explain,
    explained,
    failure,
    failures,
    fingerprints,
    health,
    incidents,
    live,
    nodes,
    overview,
)
from firstfault.web.board.layout import now
from firstfault.web.places import Place


def places(
    board: Board,
    explainer: Explainer | None,
    clock: Callable[[], dt.datetime] = now,
    keeper: Keeper | None = None,
) -> list[Place]:
    """The places of all pages; without an ``explainer`` there is none that explains logs, without
    a ``keeper`` none of reports that are kept."""
    return [
        *overview.places(board, clock),
        *failures.places(board, clock),
        *failure.places(board),
        *nodes.places(board, clock),
        *causes.places(board, clock),
        *fingerprints.places(board),
        *incidents.places(board, clock),
        *explain.places(explainer, keeper),
        *explained.places(keeper),
        *deliveries.places(board),
        *health.places(board, clock),
        *live.places(board),
    ]
