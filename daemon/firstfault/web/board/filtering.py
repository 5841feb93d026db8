"""The filter of the list of failures, as it stands in the page's address and in its form."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, get_args
from urllib.parse import urlencode

import msgspec

from firstfault.model.board import FailureFilter, Sort
from firstfault.report.filters import stamp, when

PATH = "/failures"
# As the API has it: what is longer, nobody is called.
LONGEST = 256
LONGEST_PAGE = 2000
EARLIEST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LATEST = dt.datetime(2200, 1, 1, tzinfo=dt.UTC)
SORTS: tuple[Sort, ...] = get_args(Sort)
NEWEST: Sort = "-ended"

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:[Zz]|[+-]\d\d:\d\d)?)?", re.ASCII
)


class Field(NamedTuple):
    """One field of the form; ``label`` names it, ``says`` reads after it in a chip."""

    name: str
    label: str
    kind: str
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()


FIELDS = (
    Field("text", "Words", "search", "in title, job name, user, host or cause"),
    Field("since", "Ended from (UTC)", "datetime-local"),
    Field("until", "Ended before (UTC)", "datetime-local"),
    Field(
        "domain",
        "Who can act",
        "select",
        choices=(
            ("user", "the job's owner"),
            ("system", "the administrators"),
            ("either", "either of them"),
        ),
    ),
    Field("cause", "Cause", "text", "gpu.ecc, gpu."),
    Field(
        "confidence",
        "Confidence",
        "select",
        choices=tuple((each, each) for each in ("confirmed", "likely", "possible", "unknown")),
    ),
    Field("user", "User", "text"),
    Field("account", "Account", "text"),
    Field("cluster", "Cluster", "text"),
    Field("partition", "Partition", "text"),
    Field("node", "Node", "text", "one of the job's"),
    Field("name", "Job name", "text"),
    Field("fingerprint", "Fingerprint", "text", "the same failure"),
)
BY_NAME = {each.name: each for each in FIELDS}


class Asked(NamedTuple):
    """What an address asks. ``wrong`` says by field what is wrong with what was ``typed``; then
    ``which`` is without those. ``page`` is the board's word for a page of the list."""

    which: FailureFilter
    typed: Mapping[str, str]
    wrong: Mapping[str, str]
    page: str | None
    is_canonical: bool


def read(query: Iterable[tuple[str, str]]) -> Asked:
    """The filter that stands in the address. Parameters that it has no field for are left out."""
    typed: dict[str, str] = {}
    wrong: dict[str, str] = {}
    values: dict[str, object] = {}
    is_canonical = True
    for name, text in query:
        if name not in (*BY_NAME, "sort", "page"):
            continue
        said = text.strip()
        if not said:
            is_canonical = False
        elif name in typed:
            wrong[name] = "This was given more than once."
        else:
            typed[name] = said
            try:
                values[name] = _READERS.get(name, _word)(said)
            except ValueError as error:
                wrong[name] = str(error)
    page = values.pop("page", None)
    since, until = values.get("since"), values.get("until")
    if isinstance(since, dt.datetime) and isinstance(until, dt.datetime) and since >= until:
        wrong["until"] = "The end must lie after the start."
    for name in wrong:
        values.pop(name, None)
    which = msgspec.convert(values, FailureFilter)
    return Asked(which, typed, wrong, None if page is None else str(page), is_canonical)


def query_of(which: FailureFilter, **changes: str | None) -> str:
    """The filter as a query, "" where it restricts nothing; ``changes`` replace or leave out."""
    values: dict[str, str] = {}
    for name in (*BY_NAME, "sort"):
        value = getattr(which, name)
        if value is not None and not (name == "sort" and value == NEWEST):
            values[name] = stamp(value) if isinstance(value, dt.datetime) else value
    for name, text in changes.items():
        values.pop(name, None)
        if text is not None:
            values[name] = text
    return urlencode(values)


def address(which: FailureFilter, **changes: str | None) -> str:
    """Where the list with this filter is; ``changes`` as in `query_of`."""
    query = query_of(which, **changes)
    return f"{PATH}?{query}" if query else PATH


class Chip(NamedTuple):
    """A filter in force, and where the list is without it."""

    label: str
    value: str
    without: str


def chips(which: FailureFilter) -> list[Chip]:
    """The filters in force, in the form's order."""
    found = []
    for field in FIELDS:
        value = getattr(which, field.name)
        if value is None:
            continue
        shown = when(value) if isinstance(value, dt.datetime) else str(value)
        for choice, label in field.choices:
            shown = label if choice == value else shown
        found.append(Chip(field.label, shown, address(which, **{field.name: None})))
    return found


class Head(NamedTuple):
    """A heading of the list that sorts it: ``order`` is what it is sorted by now, for aria-sort."""

    href: str
    order: str | None


def heads(which: FailureFilter) -> dict[str, Head]:
    """The headings that sort: by the end of the job both ways, else what is most first."""
    now = which.sort
    ended = {"-ended": "descending", "ended": "ascending"}.get(now)
    return {
        "ended": Head(address(which, sort="ended" if now == "-ended" else None), ended),
        "lost": Head(address(which, sort="-lost"), "descending" if now == "-lost" else None),
        "nodes": Head(address(which, sort="-nodes"), "descending" if now == "-nodes" else None),
    }


class Input(NamedTuple):
    """A field as it is shown: what stands in it, of which kind it is, what is wrong with it."""

    field: Field
    value: str
    kind: str
    wrong: str | None


def inputs(asked: Asked) -> list[Input]:
    """The form's fields, filled with what was typed."""
    found = []
    for field in FIELDS:
        value, kind = asked.typed.get(field.name, ""), field.kind
        at = getattr(asked.which, field.name)
        if isinstance(at, dt.datetime):
            value = at.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M")
        elif kind == "datetime-local" and value:
            # What is no time would not be shown in a field for times.
            kind = "text"
        found.append(Input(field, value, kind, asked.wrong.get(field.name)))
    return found


class Fault(NamedTuple):
    """What is wrong with a part of the address; ``has_field`` False: the form has none for it."""

    name: str
    label: str
    said: str
    has_field: bool


def faults(asked: Asked) -> list[Fault]:
    """What is wrong, in the form's order."""
    labels = {each.name: each.label for each in FIELDS} | {"sort": "Order", "page": "Page"}
    return [
        Fault(name, label, asked.wrong[name], name in BY_NAME)
        for name, label in labels.items()
        if name in asked.wrong
    ]


def _word(text: str) -> str:
    if len(text) > LONGEST:
        raise ValueError(f"At most {LONGEST} characters are looked for.")
    if _CONTROL.search(text):
        raise ValueError("There is a control character in it.")
    return text


def _page(text: str) -> str:
    if len(text) > LONGEST_PAGE or _CONTROL.search(text):
        raise ValueError("This is no page of the list.")
    return text


def _moment(text: str) -> dt.datetime:
    said = "A time is written 2026-11-30 or 2026-11-30T16:00, in UTC."
    if not _MOMENT.fullmatch(text):
        raise ValueError(said)
    try:
        at = dt.datetime.fromisoformat(text.upper().replace(" ", "T"))
        at = at.replace(tzinfo=dt.UTC) if at.tzinfo is None else at.astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"There is no such time. {said}") from error
    if not EARLIEST <= at <= LATEST:
        raise ValueError("No job ended then.")
    return at


def _chosen(allowed: tuple[str, ...]) -> Callable[[str], str]:
    def chosen(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"It is one of {', '.join(allowed)}.")
        return text

    return chosen


_READERS: Mapping[str, Callable[[str], object]] = {
    "since": _moment,
    "until": _moment,
    "sort": _chosen(SORTS),
    "page": _page,
    **{
        field.name: _chosen(tuple(choice for choice, _ in field.choices))
        for field in FIELDS
        if field.choices
    },
}
