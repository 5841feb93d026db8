"""The pages served over a board, for tests that ask as a browser does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from firstfault.app.explaining import Processes
from firstfault.config import Explain
from firstfault.model.board import Board
from firstfault.model.explained import Keeper
from firstfault.web import board as pages
from firstfault.web import files, server
from firstfault.web.application import application
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


def places(
    board: Board, settings: Explain | None = None, keeper: Keeper | None = None
) -> list[Place]:
    """All pages, as if it were `NOW`."""
    explainer = Processes(settings or Explain())
    return [*files.places(), *pages.places(board, explainer, lambda: NOW, keeper)]


@contextmanager
def served(found: list[Place]) -> Iterator[str]:
    """Serves them on loopback; the address."""
    sock = server.listener("127.0.0.1", 0)
    with server.serving(application(found), sock):
        yield server.address(sock)
