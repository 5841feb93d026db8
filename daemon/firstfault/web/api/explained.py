"""Reports of logs that were sent, as far as their maker keeps them, by the API."""

from __future__ import annotations

from functools import partial

from firstfault.model.explained import Keeper
from firstfault.web.api import values
from firstfault.web.api.failures import LIMIT, ONWARD, address, lost_page
from firstfault.web.api.matters import done
from firstfault.web.api.operations import Operation
from firstfault.web.api.parameters import Asked, segment

_ID = segment("report", "A kept report's id.")
_NO_REPORT = {404: "No report of this id is kept"}


def operations(keeper: Keeper) -> list[Operation]:
    """What is answered of kept reports, and what forgets one."""
    return [
        Operation(
            "kept_reports",
            "/explained",
            "Your own kept reports of logs that were sent, the newest first.",
            partial(_listed, keeper),
            parameters=(ONWARD, LIMIT),
            answers=values.KeptReports,
            statuses={404: "There is no such page of this list"},
        ),
        Operation(
            "kept_report",
            "/explained/{report}",
            "One of them with its verdict: yours or, for administrators, anyone's.",
            partial(_report, keeper),
            parameters=(_ID,),
            answers=values.Explanation,
            statuses=_NO_REPORT,
        ),
        Operation(
            "forget_report",
            "/explained/{report}/forget",
            "Forgets one of them at once.",
            partial(_forget, keeper),
            method="POST",
            parameters=(_ID,),
            takes=values.Nothing,
            answers=values.Done,
            statuses=_NO_REPORT,
        ),
    ]


def _listed(keeper: Keeper, asked: Asked, _body: None) -> values.KeptReports:
    try:
        found = keeper.listed(asked.reader, asked["page"], asked["limit"])
    except ValueError as error:
        raise lost_page() from error
    following = None if found.next is None else address(asked, "/explained", page=found.next)
    return values.KeptReports(found.reports, following)


def _report(keeper: Keeper, asked: Asked, _body: None) -> values.Explanation | None:
    found = keeper.report(asked.reader, asked["report"])
    if found is None:
        return None
    return values.Explanation(found.explained.verdict, found.explained.warnings, found.kept)


def _forget(keeper: Keeper, asked: Asked, _body: values.Nothing) -> values.Done | None:
    return done(asked, keeper.forget(asked.reader, asked["report"]))
