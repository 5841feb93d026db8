"""The one check: every request to every place goes through it, before a handler sees it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from tempfile import SpooledTemporaryFile
from typing import IO, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from firstfault.model.board import NOBODY, Reader
from firstfault.web import forms, refusals
from firstfault.web.access import Access, Identity, Open
from firstfault.web.forms import Forms
from firstfault.web.hosts import LOOPBACK, Hosts
from firstfault.web.limits import USUAL, Pace, Rate, Slots
from firstfault.web.places import FORM_BYTES, Place
from firstfault.web.refusals import Refusal, absent

LOGGER = logging.getLogger("firstfault")

IN_MEMORY_BYTES = 1024 * 1024
CHUNK_BYTES = 64 * 1024
NOTED_S = 60.0
_URL_ENCODED = "application/x-www-form-urlencoded"
_EMPTY = hashlib.sha256().hexdigest()
_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Visit(NamedTuple):
    """What a page may say of who reads it: the token of its forms, and the foot's note; and
    whether who it is was told ``ambient``ly (see `Identity`)."""

    form_token: str
    note: str
    ambient: bool = True


def visit(request: Request) -> Visit:
    """What the check knows of the request that a handler was given."""
    found = request.state.visit
    assert isinstance(found, Visit)
    return found


class Entrance(NamedTuple):
    """What counts at the moment: who tells who reads, under which names the pages are asked for,
    what signs their forms, and the address (``public_url``, "" for none) that asks for a login. By
    default everyone on loopback is an administrator."""

    access: Access = Open()
    hosts: Hosts = Hosts(LOOPBACK)
    forms: Forms = Forms()
    public_url: str = ""


class Guard:
    """What requests are checked by; ``entrance`` gives what counts now."""

    def __init__(
        self,
        entrance: Callable[[], Entrance],
        pace: Pace = USUAL,
    ) -> None:
        self._entrance = entrance
        self._costly = Slots(pace.at_once, 1, wait_s=5.0)
        self._streams = Slots(200, 20)
        self._noted = Rate(1, NOTED_S)
        self._each = Rate(pace.per_minute, 60.0)
        self._all = Rate(pace.all_per_minute, 60.0)

    async def check(self, request: Request, places: Sequence[Place]) -> tuple[Place, Identity]:
        """The place that the request may use, and who uses it. Raises `Refusal`."""
        entrance = self._entrance()
        if not entrance.hosts.allows(request.headers):
            raise Refusal(
                421,
                "The pages do not answer to this name. If it is theirs, an administrator adds it "
                "to web.allowed_hosts.",
            )
        identity = Identity(NOBODY)
        if any(place.needs != "anyone" for place in places) or not places:
            identity = await entrance.access.identify(request)
        reader = identity.reader
        visible = [place for place in places if _may(place, reader)]
        if not visible:
            if reader == NOBODY:
                self._note(identity, request)
                raise Refusal(
                    401,
                    _unknown(identity, entrance.public_url),
                    {"www-authenticate": 'Bearer realm="firstfault"'},
                )
            raise absent()
        method = "GET" if request.method == "HEAD" else request.method
        place = next((place for place in visible if method in place.methods), None)
        if place is None:
            allowed = sorted({name for place in visible for name in place.methods})
            allow = ", ".join([*allowed, *(["HEAD"] if "GET" in allowed else [])])
            raise Refusal(405, f"Here is answered to {allow}.", {"allow": allow})
        request.state.visit = Visit(
            entrance.forms.token(reader), entrance.access.note, identity.ambient
        )
        return place, identity

    def _note(self, identity: Identity, request: Request) -> None:
        # What a proxy or a command got wrong is mended by who reads the log; nobody fills it.
        if identity.why and not self._noted.take(re.sub(r"[0-9]+", "", identity.why)[:60]):
            peer = request.client.host if request.client else ""
            values = {"reason": identity.why, "peer": peer, "path": request.scope["path"][:200]}
            LOGGER.warning("access-refused", extra={"values": values})

    async def check_change(self, request: Request, place: Place, identity: Identity) -> None:
        """Lets a change pass that one of our own pages asked for, or a program. Raises
        `Refusal`."""
        if not identity.ambient:
            return
        if not self._entrance().hosts.are_origin(request.headers):
            raise Refusal(403, "A page of another site asked for this. Nothing was done.")
        if not place.form:
            return
        given = (await request.form(max_part_size=place.body_bytes)).getlist(forms.FIELD)
        token = given[0] if len(given) == 1 and isinstance(given[0], str) else ""
        if not self._entrance().forms.accepts(token, identity.reader):
            raise Refusal(
                403, "This page was open for too long. Nothing was done: load it again, and repeat."
            )

    @asynccontextmanager
    async def room(self, place: Place, reader: Reader, request: Request) -> AsyncIterator[None]:
        """Holds what a costly place takes. Raises `Refusal`."""
        if not place.costly:
            yield
            return
        who = _who(reader, request)
        wait_s = self._each.take(who) or self._all.take("")
        if wait_s:
            raise Refusal(
                429,
                "This was asked for too often. Try again in a minute.",
                {"retry-after": str(int(wait_s) + 1)},
                closes=True,
            )
        async with self._costly.taken(who):
            yield

    @asynccontextmanager
    async def streaming(
        self, place: Place, reader: Reader, request: Request
    ) -> AsyncIterator[None]:
        """Holds one of the places for answers that last. Raises `Refusal`."""
        if not place.streams:
            yield
            return
        async with self._streams.taken(_who(reader, request)):
            yield


class Guarded:
    """The ASGI application of one path: its places behind the check."""

    def __init__(self, places: Sequence[Place], guard: Guard) -> None:
        self._places = tuple(places)
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        began = False

        async def sent(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        request = Request(scope, receive, sent)
        try:
            await self._serve(request, sent)
        except ClientDisconnect:
            return
        except Refusal as refusal:
            said = refusal
        except HTTPException as error:
            said = Refusal(error.status_code, error.detail, dict(error.headers or {}))
        except Exception:  # boundary: one request must not end the others
            mark = secrets.token_hex(4)
            LOGGER.exception("page-error", extra={"values": {"mark": mark}})
            said = Refusal(500, f"The daemon's log says why, at mark={mark}.")
        else:
            return
        if not began:
            await refusals.answer(request, said)(scope, receive, send)

    async def _serve(self, request: Request, send: Send) -> None:
        guard = self._guard
        place, identity = await guard.check(request, self._places)
        async with guard.streaming(place, identity.reader, request):
            # What is costly is the making of an answer: who takes it slowly holds up nobody.
            async with guard.room(place, identity.reader, request):
                response = await self._response(request, place, identity, send)
            await response(request.scope, request.receive, send)

    async def _response(
        self, request: Request, place: Place, identity: Identity, send: Send
    ) -> Response:
        if request.method not in _CHANGING:
            _check_signed(identity, _EMPTY)
            if place.streams and request.method == "HEAD":  # the answer itself has no end
                return Response()
            return await place.handler(request, identity.reader)
        async with _body(request, place) as (body, digest):
            _check_signed(identity, digest)
            whole = Request(request.scope, _replay(body, request.receive), send)
            try:
                await self._guard.check_change(whole, place, identity)
                return await place.handler(whole, identity.reader)
            finally:
                await whole.close()  # the files of its form


def _may(place: Place, reader: Reader) -> bool:
    if place.needs == "anyone":
        return True
    return reader.administrator if place.needs == "administrator" else reader != NOBODY


def _unknown(identity: Identity, public_url: str) -> str:
    why = f" ({identity.why})" if identity.why else ""
    by = public_url or "the address that asks for a login"
    return f"firstfault does not know who you are{why}. Come by {by}."


def _who(reader: Reader, request: Request) -> str:
    if reader != NOBODY and reader.user is not None:
        return f"user {reader.user}"
    return f"{reader.name} {request.client.host if request.client else ''}"


def _check_signed(identity: Identity, digest: str) -> None:
    if identity.digest is not None and not hmac.compare_digest(digest, identity.digest):
        raise Refusal(401, "The body is not the one that was signed.")


@asynccontextmanager
async def _body(request: Request, place: Place) -> AsyncIterator[tuple[IO[bytes], str]]:
    """The whole body, in a file where it is large, and its SHA-256 (hex). Raises `Refusal`."""
    most = place.body_bytes
    if place.form and request.headers.get("content-type", "").lower().startswith(_URL_ENCODED):
        most = min(most, FORM_BYTES)  # taking it apart holds up all others
    too_large = Refusal(413, f"At most {_size(most)} are read here.", closes=True)
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise too_large
    digest, size = hashlib.sha256(), 0
    with SpooledTemporaryFile(max_size=IN_MEMORY_BYTES) as kept:
        try:
            async with asyncio.timeout(place.body_s):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > most:
                        raise too_large
                    digest.update(chunk)
                    kept.write(chunk)
        except TimeoutError:
            raise Refusal(
                408, f"The request took more than {place.body_s:g} s.", closes=True
            ) from None
        kept.seek(0)
        yield kept, digest.hexdigest()


def _size(count: int) -> str:
    if count >> 20:
        return f"{count >> 20} MiB"
    return f"{count >> 10} KiB" if count >> 10 else f"{count} bytes"


def _replay(body: IO[bytes], receive: Receive) -> Receive:
    """Gives the body that was read, and then what comes after it."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        chunk = body.read(CHUNK_BYTES)
        given = len(chunk) < CHUNK_BYTES
        return {"type": "http.request", "body": chunk, "more_body": not given}

    return replay
