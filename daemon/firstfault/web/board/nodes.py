"""Nodes: on which failures begin more often than chance would have it, and one node."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from firstfault.model.board import Board, NodeDetail, NodeStanding, Reader
from firstfault.model.jobs import INITIATOR, NodeIncident
from firstfault.report import causes as knowledge
from firstfault.report import filters
from firstfault.web.board.layout import answer, now
from firstfault.web.places import Place
from firstfault.web.refusals import absent

PERIODS = {1: "a day", 7: "a week", 30: "30 days", 365: "a year"}
_PERIOD = 30
PAGE_ROWS = 100
NEWEST = 20
# A report's drain command is repeated for so long: a node may be mended.
DRAIN_FOR = dt.timedelta(days=7)
_DRAIN_TRIED = 3
_FEW = 3
_WIDTH = 160
# https://slurm.schedmd.com/sinfo.html#SECTION_NODE-STATE-CODES
_OUT = frozenset(("DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING"))


class Bar(NamedTuple):
    """The picture of a share of failures: places from 0 to `_WIDTH`, and all of it in words."""

    low: float
    high: float
    at: float
    expected: float
    words: str


class Row(NamedTuple):
    """A node as the page shows it."""

    standing: NodeStanding
    bar: Bar
    verdict: str
    tone: str


class Drain(NamedTuple):
    """The command that takes a node out of service, and the report that it stands in."""

    command: str
    incident: NodeIncident


def places(board: Board, clock: Callable[[], dt.datetime] = now) -> list[Place]:
    """/nodes and /nodes/{cluster}/{node}; for administrators."""

    async def nodes(request: Request, reader: Reader) -> Response:
        days, until = _days(request), clock()
        standings = await run_in_threadpool(
            board.nodes, reader, until - dt.timedelta(days=days), until
        )
        wanted = request.query_params.get("name", "").strip()[:253]
        # Most nodes of a large job were only there: they are shown where they are asked for.
        every = bool(wanted) or request.query_params.get("all") == "1"
        found = [
            each
            for each in standings
            if wanted.casefold() in each.node.casefold()
            and (every or each.initiated or each.suspect)
        ]
        start = _start(request, len(found))
        shown = found[start : start + PAGE_ROWS]
        scale = _scale(shown)
        asked = {"days": str(days), "name": wanted, "all": "1" if every and not wanted else ""}
        return answer(
            "nodes.html",
            request,
            reader,
            rows=[row(each, scale) for each in shown],
            scale=scale,
            suspects=[each for each in standings if each.suspect],
            count=len(standings),
            uninvolved=0 if every else len(standings) - len(found),
            found=len(found),
            days=days,
            periods=PERIODS,
            wanted=wanted,
            clusters=len({each.cluster for each in standings}) > 1,
            states=any(each.state for each in standings),
            previous=_address(asked, start - PAGE_ROWS) if start else None,
            next=_address(asked, start + PAGE_ROWS) if start + PAGE_ROWS < len(found) else None,
        )

    async def node(request: Request, reader: Reader) -> Response:
        days, until = _days(request), clock()
        cluster = request.path_params["cluster"]
        detail = await run_in_threadpool(
            board.node,
            reader,
            None if cluster == "-" else cluster,
            request.path_params["node"],
            until - dt.timedelta(days=days),
            until,
        )
        if detail is None:
            raise absent()
        return answer(
            "node.html",
            request,
            reader,
            detail=msgspec.structs.replace(detail, failures=detail.failures[:NEWEST]),
            more=len(detail.failures) > NEWEST,
            row=row(detail.standing),
            out=is_out(detail.standing.state),
            drain=await run_in_threadpool(_drain, board, reader, detail, until),
            look=_look(detail.standing.node),
            days=days,
            periods=PERIODS,
        )

    return [
        Place("/nodes", nodes, "administrator"),
        Place("/nodes/{cluster}/{node}", node, "administrator"),
    ]


def _scale(shown: Sequence[NodeStanding]) -> float:
    """The share at the right end of the pictures of a page: a quarter, a half or all."""
    most = max((each.high for each in shown), default=1.0)
    return next(end for end in (0.25, 0.5, 1.0) if most <= end or end == 1.0)


def row(each: NodeStanding, scale: float = 1.0) -> Row:
    """A node's standing, drawn and in words; the picture ends at the share ``scale``."""
    part = each.initiated / each.took_part if each.took_part else 0.0
    expected = min(1.0, each.expected / each.took_part) if each.took_part else 0.0
    verdict, tone = said(each)
    words = (
        f"{filters.share(part)} of its failed jobs began on it (95 % interval "
        f"{filters.share(each.low)} to {filters.share(each.high)}); by chance it would be "
        f"{filters.share(expected)}"
    )
    low, high, at, chance = (
        round(min(1.0, share / scale) * _WIDTH, 1)
        for share in (each.low, each.high, part, expected)
    )
    return Row(each, Bar(low, high, at, chance, words), verdict, tone)


def said(each: NodeStanding) -> tuple[str, str]:
    """What the numbers say of a node, and the tone ("bad", "soft") to say it in."""
    if each.suspect:
        if each.adjusted < 0.001:
            return "far more than chance", "bad"
        return "more than chance", "bad"
    if each.took_part < _FEW:
        return "too few to tell", "soft"
    if each.adjusted < 0.2:
        return "more than expected, too little to blame it", "plain"
    return "as chance would have it", "soft"


def is_out(state: str | None) -> bool:
    """True where Slurm gives the node no new jobs already; not where it only saves power."""
    return not _OUT.isdisjoint(re.split("[^A-Z_]+", (state or "").upper()))


# What the report itself offers: it does so only where cause and node are sure.
def _drain(board: Board, reader: Reader, detail: NodeDetail, until: dt.datetime) -> Drain | None:
    sure = [
        each
        for each in detail.incidents
        if each.role == INITIATOR
        and each.confidence == "confirmed"
        and until - each.at <= DRAIN_FOR
        and _calls_for_drain(each.cause)
    ]
    for each in sorted(sure, key=lambda each: each.at, reverse=True)[:_DRAIN_TRIED]:
        failure = board.failure(reader, each.cluster, each.job, each.incarnation)
        if failure is None or failure.failure.cause != each.cause:
            continue
        for command in failure.stored.verdict.remedy.commands:
            if command.startswith(f"scontrol update nodename={each.node} state=drain "):
                return Drain(command, each)
    return None


def _calls_for_drain(cause: str) -> bool:
    try:
        return knowledge.cause(cause).drain == "yes"
    except KeyError:
        return False


# A name out of a log is in a command only where it is surely a node's.
def _look(node: str) -> tuple[str, ...]:
    if not knowledge.SHAPES["node"].fullmatch(node):
        return ()
    return (f"scontrol show node {node}", f"ssh {node} dmesg -T --level=emerg,alert,crit,err")


def _days(request: Request) -> int:
    given = request.query_params.get("days", "")
    days = int(given) if given.isascii() and given.isdigit() and len(given) < 5 else _PERIOD
    return days if days in PERIODS else _PERIOD


def _start(request: Request, count: int) -> int:
    given = request.query_params.get("from", "")
    start = int(given) if given.isascii() and given.isdigit() and len(given) < 9 else 0
    return start - start % PAGE_ROWS if start < count else 0


def _address(asked: Mapping[str, str], start: int) -> str:
    every = {**asked, "from": str(start) if start > 0 else ""}
    return "/nodes?" + urlencode({name: value for name, value in every.items() if value})
