"""Who reads: what a request proves of its sender.

Ways are asked one after the other; docs/access.md tells what each is worth.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from starlette.requests import Request

from firstfault.model.board import NOBODY, Reader


class Identity(NamedTuple):
    """Who a request comes from. ``ambient``: by something that a browser sends by itself, so that
    another site could make it send it; forms then need their token. ``why`` says why it is nobody;
    it may be told to the sender. ``digest`` is the SHA-256 (hex) of the body that was signed, None
    where nothing was."""

    reader: Reader
    ambient: bool = True
    why: str = ""
    digest: str | None = None


class Access(Protocol):
    """Who reads."""

    @property
    def note(self) -> str:
        """What the pages say at their foot of how access is given, "" for nothing."""

    async def identify(self, request: Request) -> Identity:
        """Who sends ``request``; nobody where nothing proves it."""


class Open:
    """Everyone who reaches the pages is an administrator; for loopback alone."""

    note = "No access control: everyone who reaches this page may see and do everything."

    async def identify(self, request: Request) -> Identity:
        """See `Access`."""
        return Identity(Reader("anyone", administrator=True))


class Closed:
    """Nobody reads."""

    note = ""

    async def identify(self, request: Request) -> Identity:
        """See `Access`."""
        return Identity(NOBODY, why="nobody may read here")
