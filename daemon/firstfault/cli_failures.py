"""`firstfault failures`: the failed jobs, in the terminal."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import msgspec

from firstfault.app.reading import Reading
from firstfault.cli_reading import Moment, format_option, limit_option, opened, options
from firstfault.cli_table import Column, Row, lines
from firstfault.model.board import Failure, FailureFilter, Sort
from firstfault.web.api import spreadsheet
from firstfault.web.api.failures import CONFIDENCES, DOMAINS, MOST

_COLUMNS = (
    Column("ENDED"),
    Column("JOB", 20),
    Column("USER", 10),
    Column("NODES", is_number=True),
    Column("CAUSE", 26),
    Column("SURE", 9),
    Column("RANK, HOST"),
)
_THIS_YEAR = dt.timedelta(days=330)
_COLORS = {"system": "red", "either": "yellow"}


@click.command()
@click.option("--since", type=Moment(), help="Ended then or later: a time, a day, or 12h, 7d.")
@click.option("--until", type=Moment(), help="Ended before.")
@click.option("--cluster", help="Of this cluster.")
@click.option("--cause", help='Of this cause, or of a family, with its dot: "gpu.".')
@click.option("--domain", type=click.Choice(DOMAINS), help="By who can act.")
@click.option("--confidence", type=click.Choice(CONFIDENCES), help="By how sure the cause is.")
@click.option("--user", help="Of this user's jobs.")
@click.option("--account", help="Of this account's jobs.")
@click.option("--partition", help="In this partition.")
@click.option("--node", help="Of jobs that ran on this node.")
@click.option("--name", help="Of jobs of this name.")
@click.option("--fingerprint", help="The same failure.")
@click.option("--text", help="With these words in title, job name, user, host or cause.")
@click.option(
    "--sort",
    type=click.Choice(get_args(Sort)),
    default="-ended",
    show_default=True,
    help="Newest, oldest, dearest or largest first.",
)
@limit_option
@format_option
@options
def failures(
    limit: int,
    form: str,
    config_file: Path | None,
    url: str | None,
    token_file: Path | None,
    **given: str | dt.datetime | None,
) -> None:
    """List the failed jobs that you may see, the newest first; times are in UTC.

    The daemon is asked where one is named (--url or FIRSTFAULT_URL), or where the store cannot be
    read on this machine. `firstfault job JOBID` shows one.

    \b
    Exit status: 0 also where none is found, 1 nobody could be asked or it was refused,
    2 bad usage.
    """
    which = msgspec.convert(given, FailureFilter)
    with opened(config_file, url, token_file) as found:
        chosen = _asked(_chosen(found, which, limit))
        if form == "json":
            _print_json(chosen)
        elif form == "csv":
            click.echo(spreadsheet.lines([Failure.__struct_fields__]), nl=False)
            for each in chosen:
                click.echo(spreadsheet.lines([msgspec.structs.astuple(each)]), nl=False)
        else:
            _print_table(list(chosen), limit)


def _chosen(reading: Reading, which: FailureFilter, limit: int) -> Iterator[Failure]:
    left, page = limit or None, None
    while True:
        found = reading.failures(which, page, min(left or MOST, MOST))
        yield from found.failures[:left]
        left = None if left is None else left - len(found.failures)
        page = found.next
        if page is None or (left is not None and left <= 0):
            return


# The first is asked for before anything is printed: where nobody answers, nothing is.
def _asked(chosen: Iterator[Failure]) -> Iterator[Failure]:
    first = list(itertools.islice(chosen, 1))
    return itertools.chain(first, chosen)


def _print_json(chosen: Iterator[Failure]) -> None:
    # One a line, as they come: a million of them are no list in memory.
    click.echo('{"failures": [', nl=False)
    for number, each in enumerate(chosen):
        click.echo((b",\n " if number else b"\n ") + msgspec.json.encode(each), nl=False)
    click.echo("\n]}")


def _print_table(chosen: list[Failure], limit: int) -> None:
    if not chosen:
        click.echo("No failure is stored that fits, or none that you may see.", err=True)
        return
    now = dt.datetime.now(dt.UTC)
    for line in lines(_COLUMNS, [_row(each, now) for each in chosen]):
        click.echo(line)
    if limit and len(chosen) == limit:
        click.echo(f"The first {limit}: --limit 0 lists all.", err=True)


def _row(failure: Failure, now: dt.datetime) -> Row:
    return Row(
        (
            _ended(failure.ended_at, now),
            failure.job if failure.cluster is None else f"{failure.cluster}/{failure.job}",
            failure.user or "-",
            str(failure.nodes),
            failure.cause,
            failure.confidence,
            _first(failure),
        ),
        _COLORS.get(failure.domain or ""),
    )


def _ended(at: dt.datetime, now: dt.datetime) -> str:
    return f"{at:%m-%d %H:%M}" if dt.timedelta(0) <= now - at < _THIS_YEAR else f"{at:%Y-%m-%d}"


def _first(failure: Failure) -> str:
    if failure.rank is None:
        return failure.host or "-"
    return f"{failure.rank} on {failure.host}" if failure.host else str(failure.rank)
