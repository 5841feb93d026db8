"""What the web application consists of: places, each with who may go there.

A module of pages gives its places as a list; `firstfault.web.application` makes routes of them, and
every request goes through the one check (`firstfault.web.guard`) before a handler sees it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from firstfault.model.board import Reader

# "anyone": also who is nobody; who it is is not even asked, and the handler is given `NOBODY`.
# "reader": who is somebody; what they see is the board's matter.
# "administrator": only they; for others the place does not exist.
Needs = Literal["anyone", "reader", "administrator"]
Handler = Callable[[Request, Reader], Awaitable[Response]]

FORM_BYTES = 64 * 1024


class Place(NamedTuple):
    """One path, as Starlette writes it ("/jobs/{cluster}/{job}"), and who answers there.

    A place that changes something takes POST only, and the check asks for the token of its form.
    A machine's token or a signed request needs none, nor does what is no ``form``: it takes only
    what no page of another site can send unasked, as a body of JSON, or it changes nothing.

    GET takes HEAD, too. A request's body has at most ``body_bytes`` and comes within ``body_s``. A
    ``costly`` place is limited in how often and by how many at once it is used; one that
    ``streams`` answers for long, and only so many are answered at once.
    """

    path: str
    handler: Handler
    needs: Needs
    methods: tuple[str, ...] = ("GET",)
    body_bytes: int = FORM_BYTES
    body_s: float = 30.0
    costly: bool = False
    streams: bool = False
    form: bool = True
