"""The list of failures: filtered by the address, by page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from firstfault.model.board import Board, FailureFilter, FailurePage, Names, Reader
from firstfault.report import causes as knowledge
from firstfault.report.filters import stamp
from firstfault.report.wording import clean
from firstfault.web.board import filtering
from firstfault.web.board.layout import answer, now
from firstfault.web.board.spans import SPANS, Choice, within
from firstfault.web.places import Place

LIMIT = 50
LOST = "This part of the list is not there any more: here is its beginning."


def places(board: Board, clock: Callable[[], dt.datetime] = now) -> list[Place]:
    """The place of the list."""
    return [Place(filtering.PATH, partial(_failures, board, clock), "reader")]


async def _failures(
    board: Board, clock: Callable[[], dt.datetime], request: Request, reader: Reader
) -> Response:
    asked = filtering.read(request.query_params.multi_items())
    if not asked.is_canonical and not asked.wrong:
        # Of the form: its empty fields are not worth an address.
        return RedirectResponse(filtering.address(asked.which, page=asked.page), 303)
    found, lost = FailurePage(()), None
    if not asked.wrong:
        try:
            found = await run_in_threadpool(board.failures, reader, asked.which, asked.page, LIMIT)
        except ValueError:
            lost = LOST
            found = await run_in_threadpool(board.failures, reader, asked.which, None, LIMIT)
    offered = {"cause": causes(), **_offered(await run_in_threadpool(board.names, reader))}
    which = asked.which
    is_first = lost is not None or asked.page is None or found.previous is None
    inputs = filtering.inputs(asked)
    return await run_in_threadpool(
        answer,
        "failures.html",
        request,
        reader,
        status=400 if asked.wrong or lost else 200,
        failures=found.failures,
        inputs=inputs,
        is_open=any(each.wrong for each in inputs if each.field.name != "text"),
        first_fields=FIRST_FIELDS,
        offered=offered,
        wrong=filtering.faults(asked),
        lost=lost,
        times=times(which, clock()),
        chips=filtering.chips(which),
        sort=which.sort,
        heads=filtering.heads(which),
        previous=_page_address(asked, found.previous),
        next=_page_address(asked, found.next),
        spreadsheet=_spreadsheet(asked),
        is_live=is_first and which.sort == filtering.NEWEST and not asked.wrong,
        query=filtering.query_of(which),
    )


# What stands before the fold of the form; on a phone the words alone do.
FIRST_FIELDS = ("text", "since", "until", "domain")


def times(which: FailureFilter, at: dt.datetime) -> list[Choice]:
    """The list of the last day, week and month, and of any time, with what else is filtered."""
    is_any = which.since is None and which.until is None
    found = [Choice("Any time", filtering.address(which, since=None, until=None), is_any)]
    for span in SPANS[:3]:
        since = within(span, at)[0]
        href = filtering.address(which, since=stamp(since), until=None)
        is_chosen = which.since == since and which.until is None
        found.append(Choice(span.label, href, is_chosen, "Last "))
    return found


def causes() -> tuple[str, ...]:
    """What the field of the cause offers: the families, then the causes."""
    known = [each.id for each in knowledge.causes()]
    families = sorted({f"{each.partition('.')[0]}." for each in known if "." in each})
    return (*families, *sorted(known))


def _offered(names: Names) -> dict[str, tuple[str, ...]]:
    known = {
        "cluster": names.clusters,
        "partition": names.partitions,
        "account": names.accounts,
        "user": names.users,
    }
    # What cannot be told from another by looking, nobody chooses by looking.
    shown = {
        field: tuple(name for name in of if clean(name) == name) for field, of in known.items()
    }
    return {field: found for field, found in shown.items() if found}


def _page_address(asked: filtering.Asked, page: str | None) -> str | None:
    return None if page is None else filtering.address(asked.which, page=page)


def _spreadsheet(asked: filtering.Asked) -> str:
    query = filtering.query_of(asked.which)
    return f"/api/v1/failures.csv?{query}" if query else "/api/v1/failures.csv"
