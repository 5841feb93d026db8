"""Failures by the API: the list with its filters, one with all that is stored of it, its records."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, get_args
from urllib.parse import quote, urlencode

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from firstfault.model import verdict as v
from firstfault.model.board import Board, Failure, FailureFilter, FailurePage, Reader, Sort
from firstfault.report import causes as knowledge
from firstfault.web.api import spreadsheet, values
from firstfault.web.api.operations import JSON, PREFIX, Operation, tagged
from firstfault.web.api.parameters import (
    LARGEST_NUMBER,
    Asked,
    Parameter,
    choice,
    cursor,
    moment,
    number,
    segment,
    word,
)
from firstfault.web.problems import refused

MOST = 500
FIRST = 50
# Of an export: what is in memory at once.
STREAMED = 500

DOMAINS = ("user", "system", "either")
CONFIDENCES = (v.CONFIRMED, v.LIKELY, v.POSSIBLE, v.UNKNOWN)
LONGEST_TIME_H = 366 * 24

FILTERS = (
    moment("since", "Failures whose job ended then or later."),
    moment("until", "Failures whose job ended before."),
    word("cluster", "Of this cluster."),
    word("cause", 'Of this cause, or of a family of causes, with its dot: "gpu.".'),
    choice("domain", "By who can act: the job's owner, the administrators, either.", DOMAINS),
    choice("confidence", "By how sure the cause is.", CONFIDENCES),
    word("user", "Of this user's jobs."),
    word("account", "Of this account's jobs."),
    word("partition", "In this partition."),
    word("node", "Of jobs that ran on this node."),
    word("name", "Of jobs of this name."),
    word("fingerprint", "The same failure: its fingerprint."),
    word("text", "With these words in title, job name, user, host or cause."),
    choice(
        "sort",
        "The newest first, the oldest first, what cost most first, the largest jobs first.",
        get_args(Sort),
        "-ended",
    ),
)
PAGE = cursor("page", "What an answer's `next` or `previous` says of `page`; for the same filter.")
# Of a list that goes one way.
ONWARD = cursor("page", "What an answer's `next` says of `page`.")
LIMIT = number("limit", "So many of them.", 1, MOST, FIRST)
CLUSTER = segment("cluster", 'The job\'s cluster; "-" where it has none.')
JOB = segment("job", "The job's number.")
INCARNATION = number(
    "incarnation",
    "Which end of the job, where it was requeued or its number used again; the newest where none "
    "is given.",
    1,
    LARGEST_NUMBER,
)

_NO_FAILURE = "No verdict of this job is stored"


def span(now: Callable[[], dt.datetime], asked: Asked) -> tuple[dt.datetime, dt.datetime]:
    """The time that a request is about: from when, until when."""
    until: dt.datetime = asked["until"] or now()
    return until - dt.timedelta(hours=asked["hours"]), until


def span_parameters(hours: int) -> tuple[Parameter, ...]:
    """A time of some hours: so long by default, until now."""
    return (
        number("hours", "How long a time, in hours.", 1, LONGEST_TIME_H, hours),
        moment("until", "Until when; now where it is not given."),
    )


def operations(board: Board, now: Callable[[], dt.datetime]) -> list[Operation]:
    """What is answered of failures."""
    one = (CLUSTER, JOB, INCARNATION)
    record = (
        CLUSTER,
        JOB,
        number("incarnation", "Which end of the job.", 1, LARGEST_NUMBER, place="path"),
        segment("node", "The node that sent it."),
    )
    lost_page = {404: "There is no such page of this list"}
    return [
        Operation(
            "overview",
            "/overview",
            "The failures of a time, with as long a time before it to compare.",
            partial(_overview, board, now),
            parameters=(*span_parameters(24), word("cluster", "Of this cluster.")),
            answers=values.Overview,
        ),
        Operation(
            "failures",
            "/failures",
            "Failed jobs, by page; every filter that is given must hold.",
            partial(_failures, board),
            parameters=(*FILTERS, PAGE, LIMIT),
            answers=values.Failures,
            statuses=lost_page,
        ),
        Operation(
            "failures_csv",
            "/failures.csv",
            "All failed jobs that the filters leave, as CSV, one line each below a line of names.",
            direct=partial(_export, board),
            parameters=FILTERS,
            media="text/csv",
            streams=True,
        ),
        Operation(
            "ends",
            "/jobs/{job}",
            "Every failed end of jobs of this number, on any cluster.",
            lambda asked, _body: values.Ends(board.ends(asked.reader, asked["job"])),
            parameters=(JOB,),
            answers=values.Ends,
        ),
        Operation(
            "failure",
            "/failures/{cluster}/{job}",
            "One failure with all that is stored of it.",
            partial(_failure, board),
            parameters=one,
            answers=values.FailureDetail,
            statuses={404: _NO_FAILURE},
        ),
        Operation(
            "verdict",
            "/failures/{cluster}/{job}/verdict",
            "The verdict alone, as `firstfault explain --format json` prints one.",
            partial(_verdict, board),
            parameters=one,
            answers=v.Verdict,
            statuses={404: _NO_FAILURE},
        ),
        Operation(
            "evidence",
            "/failures/{cluster}/{job}/{incarnation}/evidence/{node}",
            "What a node sent of a failure (docs/evidence-record.md), masked.",
            partial(_evidence, board),
            needs="administrator",
            parameters=record,
            answers=dict[str, Any],
            statuses={404: "No record of this node is stored"},
        ),
        Operation(
            "causes",
            "/causes",
            "Every cause, with how often it was met in a time.",
            partial(_causes, board, now),
            parameters=span_parameters(30 * 24),
            answers=values.Causes,
        ),
    ]


def page_of(
    board: Board, reader: Reader, which: FailureFilter, page: str | None, limit: int
) -> FailurePage:
    """A page of failures. Raises `Refused` where there is no such page."""
    try:
        return board.failures(reader, which, page, limit)
    except ValueError as error:
        raise lost_page() from error


def lost_page() -> Exception:
    """The refusal of a page that no answer has named."""
    said = "There is no such page: `page` is for the filter, the order and the reader it was made "
    return refused(404, f"{said}for. Begin again without it.", "page", "query")


def address(asked: Asked, path: str, **changed: object) -> str:
    """The address of ``path`` with the request's own parameters and what is ``changed``."""
    query = dict(asked.request.query_params.multi_items())
    query |= {name: str(value) for name, value in changed.items()}
    root = asked.request.scope.get("root_path", "")
    return f"{root}{PREFIX}{path}" + (f"?{urlencode(query)}" if query else "")


def _filter(asked: Asked) -> FailureFilter:
    return FailureFilter(**{each.name: asked[each.name] for each in FILTERS})


def _failures(board: Board, asked: Asked, _body: None) -> values.Failures:
    found = page_of(board, asked.reader, _filter(asked), asked["page"], asked["limit"])
    return values.Failures(
        found.failures,
        next=None if found.next is None else address(asked, "/failures", page=found.next),
        previous=(
            None if found.previous is None else address(asked, "/failures", page=found.previous)
        ),
    )


def _failure(board: Board, asked: Asked, _body: None) -> values.FailureDetail | None:
    found = board.failure(asked.reader, _cluster(asked), asked["job"], asked["incarnation"])
    if found is None:
        return None
    failure = found.failure
    folder = (
        f"{asked.request.scope.get('root_path', '')}{PREFIX}/failures/"
        f"{quote(failure.cluster or '-', safe='')}/{quote(failure.job, safe='')}/"
        f"{failure.incarnation}/evidence/"
    )
    return values.detail(found, [folder + quote(node, safe="") for node, _, _ in found.evidence])


def _verdict(board: Board, asked: Asked, _body: None) -> Response | None:
    found = board.failure(asked.reader, _cluster(asked), asked["job"], asked["incarnation"])
    return None if found is None else tagged(asked.request, v.encode(found.stored.verdict), JSON)


def _evidence(board: Board, asked: Asked, _body: None) -> Response | None:
    found = board.evidence(
        asked.reader, _cluster(asked), asked["job"], asked["incarnation"], asked["node"]
    )
    return None if found is None else tagged(asked.request, found, JSON)


def _overview(
    board: Board, now: Callable[[], dt.datetime], asked: Asked, _body: None
) -> values.Overview:
    since, until = span(now, asked)
    return values.overview(board.overview(asked.reader, since, until, asked["cluster"]))


def _causes(
    board: Board, now: Callable[[], dt.datetime], asked: Asked, _body: None
) -> values.Causes:
    since, until = span(now, asked)
    counts = board.causes(asked.reader, since, until)
    known = [
        values.Cause(text.id, text.name, text.domain, counts.get(text.id, values.NO_COUNT))
        for text in knowledge.causes()
    ]
    return values.Causes(since, until, tuple(sorted(known, key=lambda each: -each.count.failures)))


async def _export(board: Board, asked: Asked) -> Response:
    which = _filter(asked)
    # Before the answer begins: what is wrong can still be told.
    first = await run_in_threadpool(page_of, board, asked.reader, which, None, STREAMED)
    headers = {"content-disposition": 'attachment; filename="failures.csv"'}
    lines = _lines(board, asked.reader, which, first)
    return StreamingResponse(lines, headers=headers, media_type=spreadsheet.MEDIA_TYPE)


async def _lines(
    board: Board, reader: Reader, which: FailureFilter, page: FailurePage
) -> AsyncIterator[bytes]:
    names = Failure.__struct_fields__
    yield spreadsheet.lines([names])
    while True:
        yield await run_in_threadpool(
            spreadsheet.lines, [msgspec.structs.astuple(failure) for failure in page.failures]
        )
        if page.next is None:
            return
        page = await run_in_threadpool(board.failures, reader, which, page.next, STREAMED)


def _cluster(asked: Asked) -> str | None:
    return None if asked["cluster"] == "-" else asked["cluster"]
