"""The report as a Slack message (Block Kit JSON for an incoming webhook).

Whatever comes from the job stands in ``plain_text`` objects or in ``rich_text`` elements, whose
text Slack does not parse: ``*bold*`` and ``<!channel>`` are seen as written and mention nobody.
Sizes follow https://docs.slack.dev/reference/block-kit/blocks : 50 blocks, a header of 150
characters, fields of 2000 (10 of them), 10 elements in a context.
"""

from __future__ import annotations

from firstfault.model import verdict as v
from firstfault.report import slack_blocks as b
from firstfault.report import wording as w
from firstfault.report.outline import outline
from firstfault.report.sections import Fact, Limits, Listing, Outline
from firstfault.report.slack_blocks import Json

LIMITS = Limits(items=3, quote=800, phrase=300)
_FALLBACK_LIMIT = 1000


def render(
    verdict: v.Verdict, *, report_url: str | None, delivery_id: str, revision: int = 1
) -> Json:
    """The JSON to post for ``verdict``.

    ``report_url`` is where the full report is read (http or https; None: no link); the
    ``delivery_id`` stands in small at the end, so that a message that came twice is seen to be one.
    Raises ValueError for a ``report_url`` of another kind.
    """
    b.checked(report_url)
    said = outline(verdict, LIMITS)
    blocks: list[Json] = [
        {"type": "header", "text": b.plain(w.cut(said.headline, b.HEADER_LIMIT))},
        b.rich(_answer(said, revision)),
        *_fields(said),
        b.rich(_proof(said) + _advice(said) + _doubts(said)),
    ]
    if report_url is not None:
        blocks.append(b.rich([b.section([b.link(report_url, "Open the full report")])]))
    blocks.append({"type": "context", "elements": [b.plain(_small(said, delivery_id, revision))]})
    return {
        "text": b.escaped(_fallback(said)),
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [block for block in blocks if block.get("elements") != []],
    }


def _answer(said: Outline, revision: int) -> list[Json]:
    words = [b.bold(w.cut(said.where, 400)), *(b.text(f" · {sure}") for sure in said.sureness)]
    if revision > 1:
        words.append(b.text(f" · revision {revision} of this report"))
    if said.also is not None:
        words.append(b.text(f"\nFailed the same way, not later: {w.cut(said.also, 400)}"))
    if said.plain is not None:
        words.append(b.text(f"\n{said.plain}"))
    return [b.section(words)]


def _fields(said: Outline) -> list[Json]:
    # The step, the pid and the rest are for who opens the report; a message is glanced at.
    where = [f for f in said.where_facts if f.label in ("Rank", "Host", "When")]
    job = [f for f in said.job_facts if f.label not in ("Array task", "Ranks")]
    facts = [*where, *job, Fact("Who can act", said.who_acts)][:10]
    return [
        {
            "type": "section",
            "fields": [b.plain(w.cut(f"{fact.label}: {fact.value}", 2000)) for fact in facts],
        }
    ]


def _proof(said: Outline) -> list[Json]:
    elements: list[Json] = []
    if said.exception:
        lines = "\n".join(f"{fact.label}: {fact.value}" for fact in said.exception)
        elements += [b.label("Exception"), b.preformatted(lines)]
    if said.proof is not None:
        elements += [b.label(said.proof_title, said.proof.place), b.preformatted(said.proof.text)]
    return elements


def _advice(said: Outline) -> list[Json]:
    elements: list[Json] = []
    for part in said.advice:
        if part.do.items:
            elements += [b.label("What to do", part.reader), b.bullets(part.do)]
        if part.commands.items:
            elements.append(b.preformatted("\n".join(part.commands.items)))
        if part.commands.left_out:
            more = w.count(part.commands.left_out, "more command")
            elements.append(b.section([b.text(f"and {more}, see the report")]))
    return elements


def _doubts(said: Outline) -> list[Json]:
    elements: list[Json] = []
    if said.missing.items:
        texts = tuple(gap.sentence for gap in said.missing.items)
        missing = Listing(texts, said.missing.left_out)
        elements += [b.label("Missing evidence"), b.bullets(missing)]
    if said.alternatives.items:
        texts = tuple(f"{a.cause} ({a.confidence}): {a.against}" for a in said.alternatives.items)
        elements += [
            b.label("Other readings"),
            b.bullets(Listing(texts, said.alternatives.left_out)),
        ]
    if said.effects_sentence is not None:
        elements.append(b.section([b.text(said.effects_sentence + ".")]))
    return elements


def _small(said: Outline, delivery_id: str, revision: int) -> str:
    parts = [f"firstfault · {said.cause_id} · delivery {w.clean(delivery_id, 100)}"]
    if revision > 1:
        parts.append(f"revision {revision}")
    if said.fingerprint is not None:
        parts.append(f"fingerprint {said.fingerprint}")
    return " · ".join(parts)


def _fallback(said: Outline) -> str:
    return w.cut(f"{said.job}: {said.headline} ({said.where})", _FALLBACK_LIMIT)
