"""Deliveries: which messages were sent, which wait and which were given up."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from firstfault.model import jobs as j
from firstfault.model.board import Board, Reader
from firstfault.web.board.layout import answer
from firstfault.web.places import Place

STATES = {
    "": "All",
    j.DEAD: "Given up",
    j.PENDING: "Waiting",
    j.SENT: "Sent",
    j.SUPERSEDED: "Corrected by a later one",
    j.SHADOW: "Kept back",
}
_SAID = {
    "retried": "It is due again: the daemon sends it within seconds.",
    "gone": "Nothing was done: this message was not given up, is not known any more, or messages "
    "are kept back (shadow mode, or no channel is set up).",
}
_FIRST = {j.DEAD: 0, j.PENDING: 1}
SHOWN = 200


def places(board: Board) -> list[Place]:
    """/deliveries and another try for one that was given up; for administrators."""

    async def deliveries(request: Request, reader: Reader) -> Response:
        state = request.query_params.get("state", "")
        state = state if state in STATES else ""
        found = await run_in_threadpool(board.deliveries, reader, state or None)
        # Of those alike the newest stays first.
        ordered = sorted(found, key=lambda each: _FIRST.get(each.state, 2))
        return answer(
            "deliveries.html",
            request,
            reader,
            deliveries=ordered[:SHOWN],
            left_out=max(0, len(ordered) - SHOWN),
            state=state,
            states=STATES,
            dead=j.DEAD,
            done=_SAID.get(request.query_params.get("done", "")),
        )

    async def retry(request: Request, reader: Reader) -> Response:
        delivery = request.path_params["delivery"]
        done = await run_in_threadpool(board.retry, reader, delivery)
        asked = {"done": "retried" if done else "gone"}
        state = request.query_params.get("state", "")
        if state in STATES and state:
            asked["state"] = state
        return RedirectResponse(f"/deliveries?{urlencode(asked)}", 303)

    return [
        Place("/deliveries", deliveries, "administrator"),
        Place("/deliveries/{delivery}/retry", retry, "administrator", ("POST",)),
    ]
