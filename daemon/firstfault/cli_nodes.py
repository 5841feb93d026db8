"""`firstfault nodes`: on which nodes failures begin, for administrators."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click
import msgspec

from firstfault.cli_reading import Moment, format_option, limit_option, opened, options
from firstfault.cli_table import Column, Row, lines
from firstfault.web.api import spreadsheet, values
from firstfault.web.api.failures import LONGEST_TIME_H
from firstfault.web.api.nodes import DEFAULT_H

_COLUMNS = (
    Column("NODE", 24),
    Column("BEGAN", is_number=True),
    Column("TOOK PART", is_number=True),
    Column("EXPECTED", is_number=True),
    Column("BY CHANCE", is_number=True),
    Column("SUSPECT"),
    Column("CAUSES"),
)
_STATE = Column("STATE", 12)


@click.command()
@click.option(
    "--hours",
    type=click.IntRange(1, LONGEST_TIME_H),
    default=DEFAULT_H,
    show_default=True,
    help="Of how long a time.",
)
@click.option("--until", type=Moment(), help="Until when: a time, a day, or 12h, 7d ago.")
@click.option("--cluster", help="Of this cluster.")
@click.option("--all", "every", is_flag=True, help="Also nodes on which no failure began.")
@limit_option
@format_option
@options
def nodes(
    hours: int,
    until: dt.datetime | None,
    cluster: str | None,
    every: bool,
    limit: int,
    form: str,
    config_file: Path | None,
    url: str | None,
    token_file: Path | None,
) -> None:
    """Show on which nodes failures begin, the most suspicious first.

    BEGAN counts failures that may be the system's and began on the node, of the failed jobs that it
    TOOK PART in; EXPECTED is how many would have, were all nodes alike. BY CHANCE is the
    probability of so many, corrected for looking at many nodes.

    \b
    Exit status: 0 also where there are none, 1 nobody could be asked or it was refused,
    2 bad usage.
    """
    with opened(config_file, url, token_file) as reading:
        found = reading.nodes(hours, until or dt.datetime.now(dt.UTC), cluster)
    chosen = tuple(each for each in found.nodes if every or each.initiated)
    shown = chosen[: limit or None]
    if form == "json":
        told = msgspec.structs.replace(found, nodes=shown)
        click.echo(msgspec.json.format(msgspec.json.encode(told), indent=1))
    elif form == "csv":
        rows = [values.Node.__struct_fields__, *map(msgspec.structs.astuple, shown)]
        click.echo(spreadsheet.lines(rows), nl=False)
    else:
        _print_table(shown, len(chosen), len(found.nodes))


def _print_table(shown: tuple[values.Node, ...], chosen: int, of: int) -> None:
    if shown:
        # Who asked Slurm of no node need not read of it.
        stated = any(each.state for each in shown)
        columns = (*_COLUMNS[:-1], _STATE, _COLUMNS[-1]) if stated else _COLUMNS
        for line in lines(columns, [_row(each, stated) for each in shown]):
            click.echo(line)
    if len(shown) < chosen:
        click.echo(f"The first {len(shown)} of {chosen}: --limit 0 lists all.", err=True)
    elif chosen < of:
        on = "any other of" if shown else "any of"
        click.echo(f"No failure began on {on} {of - chosen} nodes: --all lists them.", err=True)
    elif not shown:
        click.echo("No failed job is stored of this time.", err=True)


def _row(node: values.Node, stated: bool) -> Row:
    return Row(
        (
            node.node if node.cluster is None else f"{node.cluster}/{node.node}",
            str(node.initiated),
            str(node.took_part),
            f"{node.expected:.1f}",
            _chance(node.adjusted),
            "yes" if node.suspect else "-",
            *([node.state or "-"] if stated else []),
            ", ".join(f"{cause} {count}" for cause, count in node.causes.items()),
        ),
        "red" if node.suspect else None,
    )


def _chance(probability: float) -> str:
    return "<0.1 %" if probability < 0.001 else f"{100 * probability:.3g} %"
