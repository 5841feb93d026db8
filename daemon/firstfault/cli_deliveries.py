"""`firstfault deliveries`: the outbox, for administrators."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import sqlalchemy as sa

from firstfault import config as configuration
from firstfault.app.channels import channels_of
from firstfault.app.credentials import store_url
from firstfault.config import Config
from firstfault.model import jobs as j
from firstfault.store import deliveries as outbox
from firstfault.store.database import Database, StoreError, connect

_SHOWN = ("delivery", "job", "channel", "state", "attempts", "when", "error")

_config = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The configuration (default: /etc/firstfault/firstfault.toml, else built-in defaults).",
)
_ids = click.argument("ids", metavar="[ID]...", nargs=-1)


@click.group(invoke_without_command=True)
@_config
@click.option("--failed", is_flag=True, help="Only those that were given up.")
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="The newest so many."
)
@click.pass_context
def deliveries(context: click.Context, config_file: Path | None, failed: bool, limit: int) -> None:
    """Show what was sent, what waits and what was given up."""
    context.obj = config_file
    if context.invoked_subcommand is not None:
        return
    with _opened(config_file) as (_config, database):
        rows = outbox.listed(database, limit, [j.DEAD] if failed else [])
    for line in _table([_SHOWN, *(_cells(row) for row in rows)]):
        click.echo(line)


@deliveries.command()
@_ids
@click.option("--all", "every", is_flag=True, help="All that wait or were given up.")
@_config
@click.pass_obj
def retry(before: Path | None, ids: tuple[str, ...], every: bool, config_file: Path | None) -> None:
    """Send deliveries again that were given up, and at once those that wait."""
    _one_of(ids, every)
    with _opened(config_file or before) as (config, database):
        if config.shadow:
            raise click.ClickException("shadow = true: nothing is sent.")
        channels = tuple(channels_of(config, database))
        now = dt.datetime.now(dt.UTC)
        count = outbox.retry(database, now, channels, None if every else ids)
    _told(count, len(ids), f"due now, by the daemon, on {', '.join(channels)}")


@deliveries.command()
@_ids
@click.option("--all", "every", is_flag=True, help="All that were given up.")
@_config
@click.pass_obj
def dismiss(
    before: Path | None, ids: tuple[str, ...], every: bool, config_file: Path | None
) -> None:
    """Close deliveries that were given up: they are not shown as failed any more."""
    _one_of(ids, every)
    with _opened(config_file or before) as (_config, database):
        count = outbox.dismiss(database, None if every else ids)
    _told(count, len(ids), "closed")


def _one_of(ids: Sequence[str], every: bool) -> None:
    if bool(ids) == every:
        raise click.UsageError("Name deliveries by their ID, or give --all.")


def _told(count: int, named: int, what: str) -> None:
    click.echo(f"{count} {'delivery' if count == 1 else 'deliveries'} {what}.")
    if count < named:
        raise click.ClickException(
            f"{named - count} of the {named} are not known, or were sent, kept back by shadow mode, "
            f"or corrected by a later one: firstfault deliveries shows them."
        )


@contextmanager
def _opened(config_file: Path | None) -> Iterator[tuple[Config, Database]]:
    try:
        config = configuration.load(config_file)
        database = connect(store_url(config))
        try:
            yield config, database
        finally:
            database.close()
    except (StoreError, configuration.ConfigError) as error:
        raise click.ClickException(str(error)) from error
    except sa.exc.DBAPIError as error:
        raise click.ClickException(
            f"the store cannot be used: {error.orig}. Run this as the daemon's user: "
            f"runuser -u firstfault -- firstfault deliveries"
        ) from error


def _cells(row: j.DeliveryStatus) -> tuple[str, ...]:
    when = row.sent_at or row.next_at or row.created_at
    job = row.job if row.cluster is None else f"{row.cluster}/{row.job}"
    return (
        row.delivery_id,
        job,
        row.channel,
        row.state,
        str(row.attempts),
        f"{when:%Y-%m-%dT%H:%M:%SZ}",
        # A receiver's words: nothing in them acts in a terminal.
        "".join(character if character.isprintable() else "?" for character in row.error or ""),
    )


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
