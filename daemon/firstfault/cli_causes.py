"""``firstfault causes``: the knowledge base, in the terminal."""

from __future__ import annotations

import difflib
import shutil
import sys
import textwrap
from collections.abc import Sequence

import click

from firstfault.report import causes as knowledge
from firstfault.report import wording as w

_WIDEST = 100


@click.command()
@click.argument("cause_id", metavar="[ID]", required=False)
def causes(cause_id: str | None) -> None:
    """Explain a cause: what it means, how to confirm, fix and prevent it.

    Without ID, list all causes.
    """
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    if cause_id is None:
        click.echo(listing(width if sys.stdout.isatty() else None), nl=False)
        return
    try:
        text = knowledge.cause(cause_id)
    except KeyError:
        raise click.UsageError(unknown(cause_id)) from None
    click.echo(explanation(text, width), nl=False)


def listing(width: int | None) -> str:
    """One line a cause: its id and what it means, cut to ``width`` (None: whole)."""
    all_causes = knowledge.causes()
    column = max(len(text.id) for text in all_causes)
    rows = (f"{text.id:<{column}}  {text.means}" for text in all_causes)
    if width is not None:
        rows = (_cut(row, max(width, column + 20)) for row in rows)
    return "".join(row + "\n" for row in rows)


def explanation(text: knowledge.CauseText, width: int) -> str:
    """Everything that is known of a cause, wrapped to ``width``; commands stay whole."""
    parts = [
        text.id,
        *textwrap.wrap(text.means, width),
        f"Who can act: {w.WHO_ACTS[text.domain]}",
        *_list("How to confirm it", text.confirm, width),
        *_list("What to do", text.do, width),
        *_commands(text.commands),
        *_list("How to check that it helped", text.verify, width),
        *_list("How to keep it from coming back", text.prevent, width),
    ]
    return "\n".join(parts) + "\n"


def unknown(cause_id: str) -> str:
    """The message for an id that does not exist, with near ones."""
    ids = [text.id for text in knowledge.causes()]
    wanted = w.clean(cause_id, 80)
    near = difflib.get_close_matches(wanted, ids, n=3, cutoff=0.5)
    near += [name for name in ids if wanted and wanted in name and name not in near][:5]
    hint = f"Near it: {', '.join(near)}." if near else "Run `firstfault causes` to see all."
    return f"there is no cause {wanted!r}. {hint}"


def _list(title: str, phrases: Sequence[knowledge.Phrase], width: int) -> list[str]:
    if not phrases:
        return []
    lines = ["", title]
    for phrase in knowledge.generic(phrases):
        lines += textwrap.wrap(
            phrase,
            width,
            initial_indent="  - ",
            subsequent_indent="    ",
            break_on_hyphens=False,
            break_long_words=False,
        )
    return lines


def _commands(phrases: Sequence[knowledge.Phrase]) -> list[str]:
    if not phrases:
        return []
    return ["", "Commands", *(f"  {command}" for command in knowledge.generic(phrases))]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"
