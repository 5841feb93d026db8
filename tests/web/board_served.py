"""The pages served over a board, for tests that ask as a browser does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from firstfault.app.explaining import Processes
from firstfault.config import Explain
from firstfault.model.board import Board
from firstfault.web import files, server
from firstfault.web.application import application
from firstfault.web.board import (
    causes,
    deliveries,
    explain,
    fingerprints,
    health,
    incidents,
    nodes,
)
from firstfault.web.places import Place
from tests.web.boards import NOW

PAGES = (
    "/nodes",
    "/nodes/main/n07",
    "/causes",
    "/causes/gpu.ecc",
    "/fingerprints",
    "/incidents",
    "/deliveries",
    "/health",
    "/explain",
)


def places(board: Board, settings: Explain | None = None) -> list[Place]:
    """Those of nodes, causes, fingerprints, incidents, deliveries, health and explain, as if it
    were `NOW`."""
    return [
        *files.places(),
        *nodes.places(board, lambda: NOW),
        *causes.places(board, lambda: NOW),
        *fingerprints.places(board),
        *incidents.places(board, lambda: NOW),
        *deliveries.places(board),
        *health.places(board, lambda: NOW),
        *explain.places(Processes(settings or Explain())),
    ]


@contextmanager
def served(found: list[Place]) -> Iterator[str]:
    """Serves them on loopback; the address."""
    sock = server.listener("127.0.0.1", 0)
    with server.serving(application(found), sock):
        yield server.address(sock)
