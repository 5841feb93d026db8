"""Nodes by the API, for administrators."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial

import msgspec
from starlette.responses import Response

from firstfault.model.board import Board
from firstfault.web.api import spreadsheet, values
from firstfault.web.api.failures import CLUSTER, span, span_parameters
from firstfault.web.api.operations import Operation
from firstfault.web.api.parameters import Asked, segment, word

DEFAULT_H = 30 * 24
_TIME = span_parameters(DEFAULT_H)


def operations(board: Board, now: Callable[[], dt.datetime]) -> list[Operation]:
    """What is answered of nodes."""
    those = (*_TIME, word("cluster", "Of this cluster."))
    return [
        Operation(
            "nodes",
            "/nodes",
            "Nodes of failed jobs: how often a failure began there, and whether that is chance.",
            partial(_nodes, board, now),
            needs="administrator",
            parameters=those,
            answers=values.Nodes,
        ),
        Operation(
            "nodes_csv",
            "/nodes.csv",
            "The same as CSV, one line each below a line of names.",
            partial(_export, board, now),
            needs="administrator",
            parameters=those,
            media="text/csv",
        ),
        Operation(
            "node",
            "/nodes/{cluster}/{node}",
            "One node: its standing, what verdicts said of it, and the failed jobs on it.",
            partial(_node, board, now),
            needs="administrator",
            parameters=(CLUSTER, segment("node", "The node's name."), *_TIME),
            answers=values.NodeDetail,
            statuses={404: "No failed job ran on this node"},
        ),
    ]


def _nodes(board: Board, now: Callable[[], dt.datetime], asked: Asked, _body: None) -> values.Nodes:
    since, until = span(now, asked)
    found = board.nodes(asked.reader, since, until, asked["cluster"])
    return values.Nodes(since, until, tuple(map(values.node, found)))


def _export(board: Board, now: Callable[[], dt.datetime], asked: Asked, _body: None) -> Response:
    found = _nodes(board, now, asked, None)
    rows = [values.Node.__struct_fields__, *map(msgspec.structs.astuple, found.nodes)]
    return Response(
        spreadsheet.lines(rows),
        media_type=spreadsheet.MEDIA_TYPE,
        headers={"content-disposition": 'attachment; filename="nodes.csv"'},
    )


def _node(
    board: Board, now: Callable[[], dt.datetime], asked: Asked, _body: None
) -> values.NodeDetail | None:
    since, until = span(now, asked)
    cluster = None if asked["cluster"] == "-" else asked["cluster"]
    found = board.node(asked.reader, cluster, asked["node"], since, until)
    if found is None:
        return None
    return values.NodeDetail(values.node(found.standing), found.incidents, found.failures)
