"""What the web application consists of: places, each with who may go there.

A module of pages gives its places as a list; `firstfault.web.application` makes routes of them, and
every request goes through the one check there (`firstfault.web.access`) before a handler sees it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from firstfault.model.board import Reader

# "anyone": also who is nobody. "reader": who is somebody; what they see is the board's matter.
# "administrator": only they; for others the place does not exist.
Needs = Literal["anyone", "reader", "administrator"]
Handler = Callable[[Request, Reader], Awaitable[Response]]


class Place(NamedTuple):
    """One path, as Starlette writes it ("/jobs/{cluster}/{job}"), and who answers there.

    A place that changes something takes POST only, and the check asks for the token of its form
    (a machine's token or a signed request needs none).
    """

    path: str
    handler: Handler
    needs: Needs
    methods: tuple[str, ...] = ("GET",)
