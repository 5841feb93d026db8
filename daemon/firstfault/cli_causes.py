"""``firstfault causes``: the knowledge base, in the terminal."""

from __future__ import annotations

import difflib
import shutil

import click
import msgspec

from firstfault.report import causes as knowledge
from firstfault.report import handbook
from firstfault.report import wording as w

_LEAST, _MOST = 40, 100


@click.command()
@click.argument("cause_id", metavar="[ID]", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How to print it; markdown prints all causes, as in docs/causes.md.",
)
def causes(cause_id: str | None, form: str) -> None:
    """Explain a cause: what it means, how to confirm, fix and prevent it.

    Without ID, list all causes by who can act.
    """
    if form == "markdown":
        if cause_id is not None:
            raise click.UsageError("--format markdown prints all causes: leave the ID out")
        click.echo(handbook.document(), nl=False)
    elif cause_id is None:
        everything = [handbook.data(text) for text in knowledge.causes()]
        click.echo(_json(everything) if form == "json" else handbook.listing(), nl=False)
    else:
        click.echo(_one(cause_id, form), nl=False)


def unknown(cause_id: str) -> str:
    """The message for an id that does not exist, with near ones."""
    ids = [text.id for text in knowledge.causes()]
    wanted = w.clean(cause_id, 80)
    near = difflib.get_close_matches(wanted, ids, n=3, cutoff=0.5)
    near += [name for name in ids if wanted and wanted in name and name not in near][:5]
    hint = f"Near it: {', '.join(near)}." if near else "Run `firstfault causes` to see all."
    return f"there is no cause {wanted!r}. {hint}"


def _one(cause_id: str, form: str) -> str:
    try:
        text = knowledge.cause(cause_id)
    except KeyError:
        raise click.UsageError(unknown(cause_id)) from None
    if form == "json":
        return _json(handbook.data(text))
    return handbook.entry(text, min(max(shutil.get_terminal_size().columns, _LEAST), _MOST))


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n"
