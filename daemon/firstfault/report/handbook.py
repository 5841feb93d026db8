"""The knowledge base to read: in a terminal, as a document and as data. No case fills it in.

Names in capitals (JOB, HOST) stand for a case's own values; a report on a case holds those.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from firstfault.report import causes as knowledge
from firstfault.report import wording as w
from firstfault.report.causes import CauseText
from firstfault.report.text import command_rows

_DOMAINS = ("user", "system", "either")
_CONFIRM = "How to confirm it on a job"
_OWNER = "What the job's owner does, cheapest first"
_ADMINS = "What the administrators do"
_VERIFY = "How to check that it helped"
_PREVENT = "How to keep it from coming back"
_WRONG = "What would prove this reading wrong"
_SEE = "See also"
_CAPITALS = "Names in capitals (JOB, HOST) stand for a job's own values: its report holds them."


def listing() -> str:
    """All causes in one line each, grouped by who can act, in at most 80 columns."""
    column = max(len(text.id) for text in knowledge.causes())
    groups = []
    for domain in _DOMAINS:
        rows = [
            f"  {text.id:<{column}}  {text.name}"
            for text in knowledge.causes()
            if text.domain == domain
        ]
        groups.append("\n".join((f"For {w.WHO_ACTS[domain]}", *rows)))
    return "\n\n".join(groups) + "\n"


def entry(text: CauseText, width: int) -> str:
    """Everything that is known of a cause, wrapped to ``width``; commands can be pasted whole."""
    drain, drain_commands = knowledge.drain(text)
    rows = [
        f"{text.id}: {text.name}",
        *_wrapped(f"Who can act: {w.WHO_ACTS[text.domain]}", width),
        "",
        *_wrapped(text.explains, width),
        "",
        *_wrapped(f"In one sentence: {text.everyone}", width),
        *_list(_CONFIRM, knowledge.general(text.confirm), width),
        *_commands(knowledge.commands_in_general(text.commands), width),
        *_list(_OWNER, knowledge.general(text.do), width, numbered=True),
        *_list(_ADMINS, _administrators(text, drain), width),
        *_commands(drain_commands, width),
        *_list(_VERIFY, knowledge.general(text.verify), width),
        *_list(_PREVENT, knowledge.general(text.prevent), width),
        *_list(_WRONG, text.wrong, width),
    ]
    if text.see:
        rows += ["", _SEE]
        rows += [row for see in text.see for row in (f"  {see.title}", f"    {see.url}")]
    rows += ["", *_wrapped(_CAPITALS, width)]
    return "\n".join(rows) + "\n"


def data(text: CauseText) -> dict[str, Any]:
    """The same as plain values, for JSON; the names are a promise to programs that read it."""
    drain, drain_commands = knowledge.drain(text)
    return {
        "id": text.id,
        "domain": text.domain,
        "name": text.name,
        "means": text.means,
        "explains": text.explains,
        "everyone": text.everyone,
        "confirm": list(knowledge.general(text.confirm)),
        "commands": list(knowledge.commands_in_general(text.commands)),
        "owner": list(knowledge.general(text.do)),
        "administrators": {
            "drain": text.drain,
            "why": drain,
            "commands": list(drain_commands),
            "steps": list(knowledge.general(text.admins)),
        },
        "verify": list(knowledge.general(text.verify)),
        "prevent": list(knowledge.general(text.prevent)),
        "wrong": list(text.wrong),
        "references": [{"title": see.title, "url": see.url} for see in text.see],
    }


def document() -> str:
    """The whole knowledge base in Markdown: docs/causes.md."""
    blocks = [_HEAD + _CAPITALS]
    for domain in _DOMAINS:
        texts = [text for text in knowledge.causes() if text.domain == domain]
        rows = [f"| [`{t.id}`](#{_anchor(t)}) | {t.domain} | {t.means} |" for t in texts]
        blocks += [f"## For {w.WHO_ACTS[domain]}", "\n".join((_COLUMNS, *rows))]
    blocks += [block for text in knowledge.causes() for block in _section(text)]
    return "\n\n".join(blocks) + "\n"


_HEAD = """\
<!-- Made by: firstfault causes --format markdown > docs/causes.md -->
# The causes

What firstfault can name. An id is for ever: it may be retired, never reused or renamed. Where two \
fit, the narrower one is the cause. A symptom is never a cause: `ChildFailedError`, SIGTERM from an \
agent or from srun, "Connection closed by peer", a watchdog's time-out that another rank's earlier \
failure explains.

Who can act first: `user`, the job's owner (code or settings); `system`, the cluster's \
administrators; `either`, as each verdict says. `firstfault causes ID` shows one of them in the \
terminal. """
_COLUMNS = "| id | who | what it means |\n|---|---|---|"


def _anchor(text: CauseText) -> str:
    # As GitHub makes it of the heading.
    return text.id.replace(".", "")


def _section(text: CauseText) -> Iterator[str]:
    drain, drain_commands = knowledge.drain(text)
    yield f"## {text.id}"
    yield f"**{text.name}.** {text.explains}"
    yield f"In one sentence: {text.everyone}"
    yield _items(_CONFIRM, knowledge.general(text.confirm))
    yield from _block(knowledge.commands_in_general(text.commands))
    if text.do:
        yield _items(_OWNER, knowledge.general(text.do), numbered=True)
    yield _items(_ADMINS, _administrators(text, drain))
    yield from _block(drain_commands)
    for title, phrases in (
        (_VERIFY, knowledge.general(text.verify)),
        (_PREVENT, knowledge.general(text.prevent)),
        (_WRONG, text.wrong),
        (_SEE, tuple(f"[{see.title}]({see.url})" for see in text.see)),
    ):
        if phrases:
            yield _items(title, phrases)


def _administrators(text: CauseText, drain: str) -> tuple[str, ...]:
    said = (f"Drain the node? {drain}", *knowledge.general(text.admins))
    return (*said, "If the node has to go:") if text.drain == "look" else said


def _items(title: str, phrases: Sequence[str], *, numbered: bool = False) -> str:
    rows = (f"{f'{k}.' if numbered else '*'} {each}" for k, each in enumerate(phrases, 1))
    return "\n".join((f"{title}:", "", *rows))


def _block(commands: Sequence[str]) -> Iterable[str]:
    if commands:
        yield "\n".join(("```sh", *commands, "```"))


def _list(
    title: str, phrases: Sequence[str], width: int, *, numbered: bool = False
) -> Iterator[str]:
    if not phrases:
        return
    yield ""
    yield title
    for k, phrase in enumerate(phrases, 1):
        yield from _wrapped(phrase, width, f"  {k}. " if numbered else "  - ")


def _commands(commands: Sequence[str], width: int) -> Iterator[str]:
    if commands:
        yield ""
    for command in commands:
        yield from command_rows(command, width)


def _wrapped(text: str, width: int, lead: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_on_hyphens=False,
        break_long_words=False,
    )
