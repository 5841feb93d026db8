"""Fingerprints: the same failure again and again, and what is known of it."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from firstfault.model.board import Board, FailureFilter, Reader
from firstfault.web.board.layout import answer
from firstfault.web.places import Place
from firstfault.web.refusals import Refusal, absent

NEWEST = 50
LONGEST_NOTE = 2000
_SAID = {
    "noted": "The note is kept.",
    "cleared": "The note is removed.",
}


def places(board: Board) -> list[Place]:
    """/fingerprints, /fingerprints/{fingerprint}, and the note that administrators may leave."""

    async def fingerprints(request: Request, reader: Reader) -> Response:
        asked = request.query_params.get("page")
        try:
            found = await run_in_threadpool(board.fingerprints, reader, asked)
        except ValueError:
            raise Refusal(
                400, "There is no such page of fingerprints: begin at the first."
            ) from None
        return answer(
            "fingerprints.html",
            request,
            reader,
            fingerprints=found.fingerprints,
            first=asked is None,
            next=None if found.next is None else f"/fingerprints?{urlencode({'page': found.next})}",
        )

    async def fingerprint(request: Request, reader: Reader) -> Response:
        name = request.path_params["fingerprint"]
        found = await run_in_threadpool(board.fingerprint, reader, name)
        if found is None:
            raise absent()
        newest = await run_in_threadpool(
            board.failures, reader, FailureFilter(fingerprint=name), None, NEWEST
        )
        return answer(
            "fingerprint.html",
            request,
            reader,
            each=found,
            failures=newest.failures,
            more=newest.next is not None,
            longest=LONGEST_NOTE,
            done=_SAID.get(request.query_params.get("done", "")),
        )

    async def note(request: Request, reader: Reader) -> Response:
        name = request.path_params["fingerprint"]
        text = _text(await request.form(), "note").strip()
        if len(text) > LONGEST_NOTE:
            raise Refusal(413, f"A note has at most {LONGEST_NOTE} characters. Nothing was kept.")
        if not await run_in_threadpool(board.note, reader, name, text or None):
            raise absent()
        done = "noted" if text else "cleared"
        return RedirectResponse(f"/fingerprints/{quote(name, safe='')}?done={done}", 303)

    return [
        Place("/fingerprints", fingerprints, "reader"),
        Place("/fingerprints/{fingerprint}", fingerprint, "reader"),
        Place("/fingerprints/{fingerprint}/note", note, "administrator", ("POST",)),
    ]


def _text(form: FormData, name: str) -> str:
    value = form.get(name)
    return value if isinstance(value, str) else ""
