"""The report in a glance, for a message that leads to it: what, where, why, what to do first.

Such a message may tell of several jobs that failed alike, and is changed as they become more.
"""

from __future__ import annotations

from firstfault.model import verdict as v
from firstfault.model.jobs import CAUSE, FILE_SYSTEM, Incident
from firstfault.report import slack_blocks as b
from firstfault.report import wording as w
from firstfault.report.advice import OWNER
from firstfault.report.outline import outline
from firstfault.report.sections import Limits, Outline
from firstfault.report.slack_blocks import Json

_LIMITS = Limits(items=1, quote=300, phrase=300)
_FALLBACK_LIMIT = 300
_OF_WHAT = {CAUSE: "the cause", FILE_SYSTEM: "the file system"}


def render(
    verdict: v.Verdict,
    *,
    report_url: str | None,
    message_id: str,
    revision: int = 1,
    jobs: tuple[str, ...] = (),
    count: int = 1,
    alike: bool = True,
    reader: str = OWNER,
) -> Json:
    """The JSON of a message about ``count`` jobs, of which ``verdict`` is one.

    ``jobs`` are the newest's numbers; ``alike`` False: they failed in different ways. ``reader``
    is whose first step it tells (of `firstfault.report.advice`). Raises
    ValueError for a ``report_url`` that is not http or https.
    """
    b.checked(report_url)
    said = outline(verdict, _LIMITS)
    blocks = [
        {"type": "header", "text": b.plain(w.cut(said.headline, b.HEADER_LIMIT))},
        b.rich([b.section(_where(said))]),
        b.rich([*_gathered(jobs, count, alike), *_why(said), *_first_step(said, reader)]),
    ]
    if report_url is not None:
        blocks.append(b.rich([b.section([b.link(report_url, "Open the full report")])]))
    small = ["firstfault", said.cause_id, f"delivery {w.clean(message_id, 100)}"]
    small += [f"revision {revision}"] if revision > 1 else []
    blocks.append({"type": "context", "elements": [b.plain(" · ".join(small))]})
    others = f" and {w.count(count - 1, 'more job')}" if count > 1 else ""
    words = w.cut(f"{said.job}{others}: {said.headline} ({said.where})", _FALLBACK_LIMIT)
    return _message(words, blocks)


def incident_line(
    incident: Incident, *, verdict: v.Verdict, report_url: str | None, count: int, message_id: str
) -> Json:
    """The one line that the owner of ``count`` jobs of an incident gets."""
    b.checked(report_url)
    jobs = outline(verdict, _LIMITS).job if count == 1 else f"{w.number(count)} of your jobs"
    words = (
        f"{jobs} failed as {others_of(incident, count)} did, by {named(incident)}: that looks like "
        f"the system, not like your code. For the administrators it is incident {incident.key}."
    )
    elements = [b.text(words)]
    if report_url is not None:
        elements += [b.text(" "), b.link(report_url, "Report")]
    small = f"firstfault · incident {incident.key} · delivery {w.clean(message_id, 100)}"
    context = {"type": "context", "elements": [b.plain(small)]}
    return _message(words, [b.rich([b.section(elements)]), context])


def incident(told: Incident, *, report_url: str | None, message_id: str) -> Json:
    """The administrators' message about an incident; ``report_url`` is where all failures are."""
    b.checked(report_url)
    state = "over" if told.ended_at is not None else "going on"
    head = f"{w.count(told.jobs, 'job')} failed by {named(told)}"
    lines = [f"{state}, {w.moment(told.opened_at)} to {w.moment(told.last_at)}"]
    if told.acknowledged_by is not None:
        lines.append(f"{w.clean(told.acknowledged_by, 60)} takes care of it")
    causes = ", ".join(f"{w.clean(cause, 60)} ({count})" for cause, count in told.causes)
    if causes:
        lines.append(f"Causes: {causes}")
    if told.hosts:
        lines.append(f"Hosts: {_some(told.hosts, len(told.hosts))}")
    lines.append(f"Jobs: {_some(told.names, told.jobs)}")
    command = f"firstfault incidents ack {told.key}"
    elements = [b.section([b.text("\n".join(lines))])]
    if told.ended_at is None and told.acknowledged_by is None:
        elements += [b.label("Take care of it"), b.preformatted(command)]
    blocks = [
        {"type": "header", "text": b.plain(w.cut(head, b.HEADER_LIMIT))},
        b.rich(elements),
    ]
    if report_url is not None:
        blocks.append(b.rich([b.section([b.link(report_url, "Open the failed jobs")])]))
    small = f"firstfault · incident {told.key} · delivery {w.clean(message_id, 100)}"
    blocks.append({"type": "context", "elements": [b.plain(small)]})
    return _message(f"Incident {told.key}, {state}: {head}", blocks)


def named(told: Incident) -> str:
    """What an incident is about: "node n3", "the cause gpu.ecc"."""
    return f"{_OF_WHAT.get(told.kind, 'node')} {w.clean(told.name, 100)}"


def others_of(told: Incident, mine: int) -> str:
    """How many jobs of an incident are not among so many."""
    return w.count(max(told.jobs - mine, 0), "other")


def _message(words: str, blocks: list[Json]) -> Json:
    return {
        "text": b.escaped(words),
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [block for block in blocks if block.get("elements") != []],
    }


def _where(said: Outline) -> list[Json]:
    words = [b.bold(w.cut(said.where, 300)), *(b.text(f" · {sure}") for sure in said.sureness)]
    owner = next((fact.value for fact in said.job_facts if fact.label == "Owner"), None)
    whose = f" of {owner}" if owner is not None else ""
    return [*words, b.text(f"\n{w.cut(said.job, 200)}{whose}")]


def _gathered(jobs: tuple[str, ...], count: int, alike: bool) -> list[Json]:
    if count < 2:
        return []
    how = "the same failure" if alike else "different failures, the first is shown"
    words = f"{w.count(count, 'job')}, {how}: {_some(jobs, count)}"
    return [b.section([b.bold(words)])]


def _some(names: tuple[str, ...], count: int) -> str:
    shown = [w.clean(name, 60) for name in names[:10]]
    more = [f"{w.number(count - len(shown))} more"] if count > len(shown) else []
    return ", ".join([*shown, *more])


def _why(said: Outline) -> list[Json]:
    if said.exception:
        facts = {fact.label: fact.value for fact in said.exception}
        words = ": ".join(facts[name] for name in ("Type", "Message") if name in facts)
        if words:
            return [b.preformatted(w.cut(words, 400))]
    if said.proof is not None:
        return [b.preformatted(said.proof.text)]
    return [b.section([b.text(f"Missing: {gap.what}. {gap.how}")]) for gap in said.missing.items]


# The reader's own; where there is nothing for them to do, the others'.
def _first_step(said: Outline, reader: str) -> list[Json]:
    mine = [part for part in said.advice if part.reader in ("", reader)]
    for part in mine or said.advice[:1]:
        who = "First" if mine else f"First, {part.reader}"
        steps = [b.section([b.bold(f"{who}: "), b.text(step)]) for step in part.do.items]
        return steps + [b.preformatted(command) for command in part.commands.items]
    return []
