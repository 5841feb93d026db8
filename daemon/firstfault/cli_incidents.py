"""`firstfault incidents`: what several jobs failed by, for administrators."""

from __future__ import annotations

import datetime as dt
import getpass
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import sqlalchemy as sa

from firstfault import config as configuration
from firstfault.app.credentials import store_url
from firstfault.model import jobs as j
from firstfault.report import wording as w
from firstfault.store import common_causes
from firstfault.store.database import Database, StoreError, connect

_SECONDS = {"m": 60, "h": 3600, "d": 86400}
_SHOWN_SILENCES = 20

_config = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The configuration (default: /etc/firstfault/firstfault.toml, else built-in defaults).",
)
_id = click.argument("key", metavar="ID", type=click.IntRange(1))


@click.group(invoke_without_command=True)
@_config
@click.option("--open", "only_open", is_flag=True, help="Only those that go on.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@click.pass_context
def incidents(
    context: click.Context, config_file: Path | None, only_open: bool, limit: int
) -> None:
    """Show what several jobs failed by at about the same time."""
    context.obj = config_file
    if context.invoked_subcommand is not None:
        return
    now = dt.datetime.now(dt.UTC)
    with _opened(config_file) as database:
        found = common_causes.listed(database, limit, only_open=only_open)
        silences = common_causes.silences_now(database, now)
    if not found:
        click.echo("No incident goes on." if only_open else "There were no incidents.")
    for incident in found:
        _show(incident)
    for silence in silences[:_SHOWN_SILENCES]:
        until = f"{silence.until:%Y-%m-%dT%H:%MZ}"
        click.echo(
            f"silent until {until}: {silence.kind} {w.clean(silence.name, 100)}"
            f" (by {w.clean(silence.said_by, 100)})"
        )
    if len(silences) > _SHOWN_SILENCES:
        click.echo(f"and {len(silences) - _SHOWN_SILENCES} more silences")


@incidents.command()
@_id
@click.option("--by", default=None, help="Who takes care of it (default: you).")
@_config
@click.pass_obj
def ack(before: Path | None, key: int, by: str | None, config_file: Path | None) -> None:
    """Say that you take care of an incident; its message says so too."""
    who = by or getpass.getuser()
    with _opened(config_file or before) as database:
        done = common_causes.acknowledge(database, key, who, dt.datetime.now(dt.UTC))
    _told(done, key, f"{who} takes care of incident {key}.")


@incidents.command()
@_id
@_config
@click.pass_obj
def end(before: Path | None, key: int, config_file: Path | None) -> None:
    """Say that an incident is over; further failures open another."""
    with _opened(config_file or before) as database:
        done = common_causes.end(database, key, dt.datetime.now(dt.UTC))
    _told(done, key, f"Incident {key} is over.")


@incidents.command()
@click.argument("key", metavar="[ID]", type=click.IntRange(1), required=False)
@click.option("--node", help="A node, as its jobs name it.")
@click.option("--cause", help="A cause (firstfault causes lists them).")
@click.option("--file-system", help="A file server or file system.")
@click.option("--cluster", default=None, help="Of this cluster alone (default: of every).")
@click.option("--for", "duration", default="4h", show_default=True, help="30m, 4h, 2d; 0 ends it.")
@_config
@click.pass_obj
def silence(
    before: Path | None,
    key: int | None,
    node: str | None,
    cause: str | None,
    file_system: str | None,
    cluster: str | None,
    duration: str,
    config_file: Path | None,
) -> None:
    """Tell the administrators nothing of an incident's subject, a node or a cause for a while."""
    named = [(j.NODE, node), (j.CAUSE, cause), (j.FILE_SYSTEM, file_system)]
    given = [(kind, name) for kind, name in named if name]
    if len(given) + (key is not None) != 1:
        raise click.UsageError("Give an incident's ID, or one of --node, --cause, --file-system.")
    now = dt.datetime.now(dt.UTC)
    until = now + _time(duration)
    with _opened(config_file or before) as database:
        if key is not None:
            for incident in common_causes.listed(database, 1, key=key):
                given, cluster = [(incident.kind, incident.name)], incident.cluster
        if not given:
            raise click.ClickException(_unknown(key))
        kind, name = given[0]
        wanted = j.Silence(cluster, kind, name, until, getpass.getuser())
        common_causes.silence(database, wanted, now)
    click.echo(f"{kind} {w.clean(name, 100)}: silent until {until:%Y-%m-%dT%H:%MZ}.")


def _show(incident: j.Incident) -> None:
    state = "over" if incident.ended_at is not None else "open"
    who = "" if incident.acknowledged_by is None else f", {incident.acknowledged_by}'s"
    cluster = "" if incident.cluster is None else f" of {w.clean(incident.cluster, 60)}"
    times = f"{incident.opened_at:%Y-%m-%dT%H:%MZ} to {incident.last_at:%Y-%m-%dT%H:%MZ}"
    click.echo(
        f"{incident.key}  {state}{w.clean(who, 60)}  {incident.kind}"
        f" {w.clean(incident.name, 100)}{cluster}  {w.count(incident.jobs, 'job')}  {times}"
    )
    causes = ", ".join(f"{w.clean(cause, 60)} ({count})" for cause, count in incident.causes)
    more = ", ..." if incident.jobs > len(incident.names) else ""
    click.echo(f"    {causes}; jobs {', '.join(w.clean(n, 60) for n in incident.names)}{more}")


def _told(done: bool, key: int, said: str) -> None:
    if not done:
        raise click.ClickException(_unknown(key))
    click.echo(said)


def _unknown(key: int | None) -> str:
    return f"no incident {key} goes on: firstfault incidents shows them."


def _time(text: str) -> dt.timedelta:
    found = re.fullmatch(r"(\d{1,4})([mhd]?)", text)
    if found is None or (found[1] != "0" and not found[2]):
        raise click.UsageError(f"--for {text}: give minutes, hours or days, as 30m, 4h or 2d.")
    return dt.timedelta(seconds=int(found[1]) * _SECONDS.get(found[2], 0))


@contextmanager
def _opened(config_file: Path | None) -> Iterator[Database]:
    try:
        database = connect(store_url(configuration.load(config_file)))
        try:
            yield database
        finally:
            database.close()
    except (StoreError, configuration.ConfigError) as error:
        raise click.ClickException(str(error)) from error
    except sa.exc.DBAPIError as error:
        raise click.ClickException(
            f"the store cannot be used: {error.orig}. Run this as the daemon's user: "
            f"runuser -u firstfault -- firstfault incidents"
        ) from error
