"""One failure: its report, how the verdict came to be, who was told, where else it was met."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import quote, urlencode

import markupsafe
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from firstfault.model import verdict as v
from firstfault.model.board import Board, Failure, FailureDetail, Reader
from firstfault.report import html
from firstfault.report import wording as w
from firstfault.report.filters import when
from firstfault.report.html import Link
from firstfault.report.sections import Fact
from firstfault.web.board import filtering
from firstfault.web.board.layout import answer
from firstfault.web.places import Place
from firstfault.web.refusals import Refusal, absent

PATH = "/jobs/{cluster}/{job}"
# Many nodes: the records of the first to fail come first; the API has all.
MOST_RECORDS = 64
MOST_OTHERS = 20


def places(board: Board) -> list[Place]:
    """The places of a failure: as JSON, as a page, and the records of its nodes."""
    return [
        Place(f"{PATH}.json", partial(_verdict, board), "reader"),
        Place(PATH, partial(_failure, board), "reader"),
        # A node's kernel log tells of other users' processes, too: docs/access.md.
        Place(
            f"{PATH}/evidence/{{incarnation:int}}/{{node}}",
            partial(_evidence, board),
            "administrator",
        ),
    ]


class Revision(NamedTuple):
    """A verdict of the history, and what it changed in the one before."""

    number: int
    made: str
    changes: tuple[str, ...]


class Record(NamedTuple):
    """What a node sent, and where it can be had."""

    node: str
    ended: str
    size: int
    href: str


async def _failure(board: Board, request: Request, reader: Reader) -> Response:
    cluster, job = _of(request)
    try:
        detail = await _detail(board, request, reader)
    except Refusal:
        ends = await run_in_threadpool(board.ends, reader, job)
        clusters = {each.cluster for each in ends}
        if cluster is not None or len(clusters) != 1 or None in clusters:
            raise
        # Who leaves the cluster out means the only one that there is.
        path = f"/jobs/{_quoted(str(clusters.pop()))}/{_quoted(job)}"
        return RedirectResponse(path, 303)
    ends = await run_in_threadpool(board.ends, reader, job)
    others = [
        each
        for each in ends
        if each.cluster == cluster and each.incarnation != detail.failure.incarnation
    ]
    return await run_in_threadpool(_page, detail, others, request, reader)


def _page(
    detail: FailureDetail, others: Sequence[Failure], request: Request, reader: Reader
) -> Response:
    failure, verdict = detail.failure, detail.stored.verdict
    records = _records(detail)
    return answer(
        "failure.html",
        request,
        reader,
        failure=failure,
        # Made by a template of ours that escapes all that is put into it.
        report=markupsafe.Markup(html.body(verdict, links=_links(detail))),  # noqa: S704
        revision=detail.stored.revision,
        made_at=detail.stored.created_at,
        history=history(detail),
        facts=facts(detail),
        others=others[:MOST_OTHERS],
        deliveries=detail.deliveries,
        same=detail.same,
        same_href=None
        if failure.fingerprint is None
        else f"{filtering.PATH}?{urlencode({'fingerprint': failure.fingerprint})}",
        records=records[:MOST_RECORDS],
        more_records=max(0, len(records) - MOST_RECORDS),
    )


async def _verdict(board: Board, request: Request, reader: Reader) -> Response:
    detail = await _detail(board, request, reader)
    return Response(v.encode(detail.stored.verdict), media_type="application/json")


async def _evidence(board: Board, request: Request, reader: Reader) -> Response:
    cluster, job = _of(request)
    incarnation, node = request.path_params["incarnation"], request.path_params["node"]
    if incarnation > 2**31 - 1:
        raise absent()
    found = await run_in_threadpool(board.evidence, reader, cluster, job, incarnation, node)
    if found is None:
        raise absent()
    name = re.sub(r"[^\w.-]", "_", f"firstfault-{job}-{node}", flags=re.ASCII)[:150]
    return Response(
        found,
        media_type="application/json",
        headers={"content-disposition": f'attachment; filename="{name}.json"'},
    )


async def _detail(board: Board, request: Request, reader: Reader) -> FailureDetail:
    text = request.query_params.get("incarnation", "")
    incarnation = int(text) if re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII) else None
    if text and incarnation is None:
        raise absent()
    cluster, job = _of(request)
    detail = await run_in_threadpool(board.failure, reader, cluster, job, incarnation)
    if detail is None:
        raise absent()
    return detail


def _of(request: Request) -> tuple[str | None, str]:
    cluster, job = request.path_params["cluster"], request.path_params["job"]
    if "\x00" in cluster + job or "\x00" in request.path_params.get("node", ""):
        raise absent()
    return (None if cluster == "-" else cluster), job


def _path(detail: FailureDetail) -> str:
    of = detail.failure
    return f"/jobs/{_quoted(of.cluster or '-')}/{_quoted(of.job)}"


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _links(detail: FailureDetail) -> list[Link]:
    failure = detail.failure
    which = urlencode({"incarnation": failure.incarnation})
    links = [
        Link("All failures", filtering.PATH),
        Link("This verdict as JSON", f"{_path(detail)}.json?{which}"),
        Link("What this cause means", f"/causes/{_quoted(failure.cause)}"),
    ]
    if failure.fingerprint is not None:
        href = f"/fingerprints/{_quoted(failure.fingerprint)}"
        links.append(Link("This fingerprint elsewhere", href))
    return links


def _records(detail: FailureDetail) -> list[Record]:
    base = f"{_path(detail)}/evidence/{detail.failure.incarnation}"
    first = detail.failure.host
    return [
        Record(node, when(ended_at), size, f"{base}/{_quoted(node)}")
        for node, ended_at, size in sorted(
            detail.evidence, key=lambda each: (each[0] != first, each[0])
        )
    ]


def history(detail: FailureDetail) -> list[Revision]:
    """The verdicts, the newest first, each with what it changed."""
    found = []
    rows = detail.history
    for row, before in zip(rows, (*rows[1:], None), strict=True):
        number, made_at, cause, confidence, title = row
        if before is None:
            changes = [f"{cause}, {confidence}"]
        else:
            changes = []
            if cause != before[2]:
                changes.append(f"cause: {cause}, was {before[2]}")
            if confidence != before[3]:
                changes.append(f"confidence: {confidence}, was {before[3]}")
            if title != before[4] and title:
                changes.append(f"now: {title}")
        cleaned = tuple(w.clean(each, 300) for each in changes) or ("only the details changed",)
        found.append(Revision(number, w.moment(made_at.replace(microsecond=0)), cleaned))
    return found


def facts(detail: FailureDetail) -> list[Fact]:
    """What Slurm says of the job, beside what the report says."""
    failure, slurm = detail.failure, detail.facts
    values: list[tuple[str, object]] = [
        ("State by Slurm", slurm.state if slurm else None),
        ("Account", failure.account),
        ("Partition", failure.partition),
        ("Nodes", None if slurm is None or not slurm.nodes else slurm.nodes),
        ("Started", None if failure.started_at is None else when(failure.started_at)),
        ("Ended", when(failure.ended_at)),
        ("Requeued before", slurm.restarts or None if slurm else None),
        ("Reason", slurm.reason if slurm and slurm.reason not in (None, "None") else None),
    ]
    return [Fact(label, w.clean(str(value), 300)) for label, value in values if value is not None]
