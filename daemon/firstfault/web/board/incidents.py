"""Incidents: what several jobs failed by, who takes care of it, and what nobody is to hear of."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from firstfault.model.board import Board, Reader
from firstfault.model.jobs import FILE_SYSTEM, NODE, Incident, Silence
from firstfault.readers.nodelist import fold
from firstfault.web.board.layout import answer, now
from firstfault.web.places import Place
from firstfault.web.refusals import Refusal, absent

DURATIONS = {1: "1 hour", 8: "8 hours", 24: "1 day", 168: "7 days"}
_DIGITS = 18
_SAID = {
    "acknowledged": "You take care of incident {key}.",
    "closed": "Incident {key} is over. Further failures open another.",
    "silent": "The administrators hear no more of what incident {key} is about, until the time "
    "that stands beside it.",
    "heard": "What incident {key} is about is not silent any more.",
    "gone": "Nothing was done: no incident {key} goes on.",
}
_KINDS = {NODE: "Node", FILE_SYSTEM: "File system"}


class Row(NamedTuple):
    """An incident and the silence about it, if there is one."""

    incident: Incident
    kind: str
    silence: Silence | None


class Maintenance(NamedTuple):
    """A reservation for maintenance, its nodes folded as Slurm prints them, and how many they are."""

    reservation: str
    cluster: str | None
    until: dt.datetime
    nodes: str
    size: int


def places(board: Board, clock: Callable[[], dt.datetime] = now) -> list[Place]:
    """/incidents and what can be done about one; for administrators."""

    async def incidents(request: Request, reader: Reader) -> Response:
        found = await run_in_threadpool(board.incidents, reader)
        silences = await run_in_threadpool(board.silences, reader)
        rows = [_row(each, silences) for each in found]
        about = {id(row.silence) for row in rows if row.incident.ended_at is None}
        return answer(
            "incidents.html",
            request,
            reader,
            going_on=[row for row in rows if row.incident.ended_at is None],
            over=[row for row in rows if row.incident.ended_at is not None],
            maintenance=_maintenance(silences),
            silences=[each for each in silences if not each.reservation and id(each) not in about],
            durations=DURATIONS,
            done=_done(request),
        )

    async def acknowledge(request: Request, reader: Reader) -> Response:
        key = _key(request)
        done = await run_in_threadpool(board.acknowledge, reader, key)
        return _back("acknowledged" if done else "gone", key)

    async def close(request: Request, reader: Reader) -> Response:
        key = _key(request)
        return _back("closed" if await run_in_threadpool(board.close, reader, key) else "gone", key)

    async def silence(request: Request, reader: Reader) -> Response:
        key = _key(request)
        hours = (await request.form()).get("hours")
        allowed = {str(each) for each in (0, *DURATIONS)}
        if not isinstance(hours, str) or hours not in allowed:
            raise Refusal(400, "For how long? Choose one of the times on the page of incidents.")
        until = clock() + dt.timedelta(hours=int(hours))
        done = await run_in_threadpool(board.silence, reader, key, until)
        return _back(("silent" if int(hours) else "heard") if done else "gone", key)

    return [
        Place("/incidents", incidents, "administrator"),
        Place("/incidents/{key}/acknowledge", acknowledge, "administrator", ("POST",)),
        Place("/incidents/{key}/close", close, "administrator", ("POST",)),
        Place("/incidents/{key}/silence", silence, "administrator", ("POST",)),
    ]


def _row(incident: Incident, silences: tuple[Silence, ...]) -> Row:
    about = (
        each
        for each in silences
        if (each.kind, each.name) == (incident.kind, incident.name)
        and each.cluster in (None, incident.cluster)
    )
    return Row(incident, _KINDS.get(incident.kind, "Cause"), next(about, None))


def _maintenance(silences: tuple[Silence, ...]) -> list[Maintenance]:
    nodes: dict[tuple[str, str | None, dt.datetime], list[str]] = {}
    for each in silences:
        if each.reservation:
            nodes.setdefault((each.reservation, each.cluster, each.until), []).append(each.name)
    return [Maintenance(*key, fold(those), len(those)) for key, those in nodes.items()]


# A number that any store can hold; a longer one is no incident's.
def _key(request: Request) -> int:
    key = request.path_params["key"]
    if not (key.isascii() and key.isdigit() and len(key) <= _DIGITS):
        raise absent()
    return int(key)


def _back(done: str, key: int) -> Response:
    return RedirectResponse("/incidents?" + urlencode({"done": done, "incident": key}), 303)


# Only words of ours, and a number: an address that somebody made up says nothing of its own.
def _done(request: Request) -> str | None:
    said = _SAID.get(request.query_params.get("done", ""))
    key = request.query_params.get("incident", "")
    if said is None or not (key.isascii() and key.isdigit() and len(key) <= _DIGITS):
        return None
    return said.format(key=key)
