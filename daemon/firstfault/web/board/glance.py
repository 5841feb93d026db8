"""The overview in words: the sentence that stands first, and the figures below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from firstfault.model.board import Count, NodeStanding, Overview, Reader
from firstfault.report.filters import hours, segment, when
from firstfault.report.wording import clean, count, listed, number
from firstfault.web.board.chart import DOMAINS, WORDS

MOST_NAMES = 3
_SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Sentence(NamedTuple):
    """What is said, and the page that tells more of it."""

    text: str
    href: str | None = None


def sentences(overview: Overview, reader: Reader, span: str) -> list[Sentence]:
    """What the overview says first; ``span`` is how long its time is: "24 hours"."""
    total = overview.total
    said = [Sentence(_failures(overview, reader, span))]
    if total.node_s or total.gpu_s:
        parts = []
        if total.node_s:
            parts.append(f"{hours(total.node_s)} node-hours")
        if total.gpu_s:
            parts.append(f"{hours(total.gpu_s)} GPU-hours")
        said.append(Sentence(f"{' and '.join(parts)} lost."))
    if reader.administrator:
        said += _sick(overview)
    return said


def _failures(overview: Overview, reader: Reader, span: str) -> str:
    total = overview.total.failures
    if reader.administrator:
        what = f"{number(total)} failed {'job' if total == 1 else 'jobs'}"
    else:
        whose = "job that you may see" if reader.accounts else "job of yours"
        what = f"{number(total)} failed {count(total, whose, _many(whose)).split(' ', 1)[1]}"
    since = when(overview.since)
    before = f"{number(overview.before.failures)} in the {span} before"
    if not total:
        return f"No {what.split(' ', 1)[1]} since {since} UTC ({before})."
    split = [
        f"{number(made.failures)} {WORDS[domain]}"
        for domain in DOMAINS
        if (made := overview.domains.get(domain)) is not None and made.failures
    ]
    return f"Since {since} UTC: {what} ({before}){': ' if split else ''}{', '.join(split)}."


def _many(whose: str) -> str:
    return whose.replace("job", "jobs", 1)


def _sick(overview: Overview) -> list[Sentence]:
    said = []
    going_on = len(overview.incidents)
    if going_on:
        size = _SMALL[going_on] if going_on < len(_SMALL) else number(going_on)
        verb = " is" if going_on == 1 else "s are"
        said.append(Sentence(f"{size.capitalize()} incident{verb} open.", "/incidents"))
    sick = [node for node in overview.nodes if node.suspect]
    several = len({node.cluster for node in sick}) > 1
    suspects = [f"{node.node} of {node.cluster or '-'}" if several else node.node for node in sick]
    if suspects:
        names = listed(suspects, MOST_NAMES, lambda name: clean(name, 60))
        verb = "looks" if len(suspects) == 1 else "look"
        said.append(Sentence(f"{names} {verb} sick.", _page_of(sick)))
    elif overview.total.failures:
        said.append(Sentence("No node began more failures than chance would have it."))
    return said


def _page_of(nodes: Sequence[NodeStanding]) -> str:
    if len(nodes) > 1:
        return "/nodes"
    return f"/nodes/{segment(nodes[0].cluster or '-')}/{segment(nodes[0].node)}"


class Tile(NamedTuple):
    """The failures of one domain, and where they are listed. ``share`` is of all failures."""

    domain: str
    label: str
    total: Count
    share: float
    href: str


LABELS = {
    "system": "By the system",
    "either": "By user or system",
    "user": "By the users",
}


def tiles(overview: Overview, href: str) -> list[Tile]:
    """The domains, the system's first; ``href`` lists the failures of the time."""
    total = overview.total.failures
    return [
        Tile(
            domain,
            LABELS[domain],
            made := overview.domains.get(domain, Count()),
            made.failures / total if total else 0.0,
            f"{href}&domain={domain}",
        )
        for domain in DOMAINS
    ]


class Bar(NamedTuple):
    """A cause in the table of the top causes; ``width`` is its bar's, in percent."""

    cause: str
    domain: str
    total: Count
    width: float
    href: str


def bars(overview: Overview, href: str, most: int = 10) -> tuple[Sequence[Bar], int]:
    """The top causes, and how many more there are."""
    shown = overview.causes[:most]
    largest = max((each.count.failures for each in shown), default=1) or 1
    found = [
        Bar(
            each.cause,
            each.domain,
            each.count,
            round(100 * each.count.failures / largest, 2),
            f"{href}&cause={each.cause}",
        )
        for each in shown
    ]
    return found, len(overview.causes) - len(shown)
