"""Health: whether firstfault itself works, and what to do where it does not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from firstfault.model import jobs as j
from firstfault.model.board import Board, Health, Reader
from firstfault.report import filters
from firstfault.report import wording as w
from firstfault.report.causes import SHAPES
from firstfault.web.board.layout import answer, now
from firstfault.web.places import Place
from firstfault.web.refusals import absent

GOOD, BAD, PLAIN = "good", "bad", "plain"
SILENT_SHOWN = 200
# Without a record or an answer for so long, something may be wrong.
_LONG = dt.timedelta(days=2)
_SLURM_LONG = dt.timedelta(hours=1)
_WAITED_LONG = dt.timedelta(minutes=30)
_WAITING = (j.SEEN, j.COLLECTING, j.SETTLED)


class Point(NamedTuple):
    """One thing that can be well or not: ``remedy`` and ``commands`` where it is not."""

    name: str
    value: str
    tone: str
    remedy: str = ""
    commands: tuple[str, ...] = ()
    at: dt.datetime | None = None


def places(board: Board, clock: Callable[[], dt.datetime] = now) -> list[Place]:
    """/health; for administrators. (/healthz is for machines, and is answered to all.)"""

    async def health(request: Request, reader: Reader) -> Response:
        found = await run_in_threadpool(board.health, reader)
        if found is None:
            raise absent()
        at = clock()
        every = points(found, at)
        return answer(
            "health.html",
            request,
            reader,
            health=found,
            points=every,
            wrong=[each for each in every if each.tone == BAD],
            silent=found.silent[:SILENT_SHOWN],
            left_out=max(0, len(found.silent) - SILENT_SHOWN),
            look=next((_look(each.node) for each in found.silent if _look(each.node)), ()),
            uptime=_for(at - found.started_at),
        )

    return [Place("/health", health, "administrator")]


def points(health: Health, at: dt.datetime) -> list[Point]:
    """What is well and what is not, the worst first."""
    every = [
        _working(health),
        _records(health, at),
        _slurm(health, at),
        _queue(health, at),
        _outbox(health),
        _quarantine(health),
        *_size(health),
    ]
    return sorted(every, key=lambda each: each.tone != BAD)


def _working(health: Health) -> Point:
    if health.working:
        return Point("Work", "going on", GOOD)
    return Point(
        "Work",
        "stands still",
        BAD,
        "A worker ended, or does not come back from what it does. The log says which "
        "(worker-stuck, worker-error); a restart loses nothing.",
        ("journalctl -u firstfault --since -1h", "systemctl restart firstfault"),
    )


def _records(health: Health, at: dt.datetime) -> Point:
    last = health.last_record_at
    if last is None:
        return Point(
            "Last record of a node",
            "none yet",
            BAD,
            "No node has sent anything. Is the Epilog set in slurm.conf, and does the collector "
            "run on the nodes?",
            ("scontrol show config | grep -i epilog", "firstfault check"),
        )
    if at - last > _LONG:
        return Point(
            "Last record of a node",
            f"{_for(at - last)} ago",
            BAD,
            "Either no job failed for that long, or the records do not arrive: look at the spool "
            "and at a node's collector.",
            ("firstfault check",),
            last,
        )
    return Point("Last record of a node", f"{_for(at - last)} ago", GOOD, at=last)


def _slurm(health: Health, at: dt.datetime) -> Point:
    last = health.last_answer_at
    if last is None:
        return Point(
            "Last answer of Slurm",
            "none yet",
            PLAIN,
            "Slurm is asked when a job has failed, unless slurm.source is none. Reports are made "
            "without it, and say less. Why it does not answer tells:",
            ("firstfault check",),
        )
    waiting = sum(health.states.get(state, 0) for state in _WAITING)
    if waiting and at - last > _SLURM_LONG:
        return Point(
            "Last answer of Slurm",
            f"{_for(at - last)} ago",
            BAD,
            "Jobs wait, and Slurm's accounting does not answer. Is slurmdbd up?",
            ("sacctmgr ping", "firstfault check"),
            last,
        )
    return Point("Last answer of Slurm", f"{_for(at - last)} ago", GOOD, at=last)


def _queue(health: Health, at: dt.datetime) -> Point:
    name = "Jobs that wait for their verdict"
    waiting = w.number(sum(health.states.get(state, 0) for state in _WAITING))
    since = health.waiting_since
    if since is None or at - since <= _WAITED_LONG:
        return Point(name, waiting, PLAIN)
    return Point(
        name,
        f"{waiting}, the first for {_for(at - since)}",
        BAD,
        "A verdict takes seconds once a job's nodes have reported, or have been waited for. "
        "Either there is more than the machine can do, or something fails each time: the log "
        "says so (worker-error, worker-stuck).",
        ("journalctl -u firstfault --since -1h",),
        since,
    )


def _outbox(health: Health) -> Point:
    dead, waiting = (health.deliveries.get(state, 0) for state in (j.DEAD, j.PENDING))
    value = f"{w.number(waiting)} waiting, {w.number(dead)} given up"
    if not dead:
        return Point("Messages", value, GOOD)
    return Point(
        "Messages",
        value,
        BAD,
        "Their receivers did not take them. The page of deliveries says why, and tries again.",
    )


def _quarantine(health: Health) -> Point:
    if not health.quarantined:
        return Point("Records that could not be read", "none", GOOD)
    return Point(
        "Records that could not be read",
        w.number(health.quarantined),
        BAD,
        "They are kept in the spool's folder quarantine, each with the reason beside it: a "
        "collector of another version, or a file that is no record.",
        ("firstfault check",),
    )


def _size(health: Health) -> Iterator[Point]:
    if health.store_bytes is not None:
        yield Point("Size of the store", filters.size(health.store_bytes), PLAIN)


# Commands go through a shell on another host: only for what is surely a node's name.
def _look(node: str) -> tuple[str, ...]:
    if not SHAPES["node"].fullmatch(node):
        return ()
    return (
        f"ssh {node} systemctl status firstfault-collector.path firstfault-collector.service",
        f"ssh {node} journalctl -u firstfault-collector --since -1d",
        f"scontrol show node {node}",
    )


def _for(length: dt.timedelta) -> str:
    seconds = max(0.0, length.total_seconds())
    for size, one in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return w.count(int(seconds // size), one)
    return w.count(int(seconds), "second")
