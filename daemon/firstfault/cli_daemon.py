"""The daemon's commands: `serve`, `job` and `check`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from firstfault import config as configuration
from firstfault.app import checks, journal, service
from firstfault.app.links import links_of
from firstfault.app.rendering import page
from firstfault.app.workers import StartError
from firstfault.cli_reading import opened, options
from firstfault.cli_table import is_colored
from firstfault.model import verdict as v
from firstfault.model.jobs import StoredVerdict
from firstfault.report import text
from firstfault.store.database import StoreError

_config = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The configuration (default: /etc/firstfault/firstfault.toml, else built-in defaults).",
)


@click.command()
@_config
@click.option(
    "--once-idle",
    is_flag=True,
    hidden=True,
    help="End when the spool is empty and everything is judged and delivered.",
)
def serve(config_file: Path | None, once_idle: bool) -> None:
    """Run the daemon: take in evidence, judge, report."""
    config = _load(config_file)
    journal.start(config.log.level, config.log.format)
    os.umask(0o027)
    try:
        ended = service.run(config, lambda: configuration.load(config_file), once_idle=once_idle)
    except (StartError, StoreError, configuration.ConfigError) as error:
        raise click.ClickException(str(error)) from error
    if not ended:
        sys.stdout.flush()
        os._exit(0)  # what hangs would keep the interpreter from ending, or crash it


@click.command()
@click.argument("job_id", metavar="JOBID")
@click.option("--cluster", help="The cluster, where several have a job of this number; - for none.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
    help="How the report is printed.",
)
@click.option("--link", is_flag=True, help="Print a signed link to the report instead.")
@options
def job(
    job_id: str,
    cluster: str | None,
    form: str,
    link: bool,
    config_file: Path | None,
    url: str | None,
    token_file: Path | None,
) -> None:
    """Show the stored report of a job.

    The daemon is asked where one is named (--url or FIRSTFAULT_URL), or where the store cannot be
    read on this machine.

    \b
    Exit status: 0 shown, 1 there is none, or nobody could be asked, 2 bad usage.
    """
    with opened(config_file, url, token_file) as reading:
        found = reading.ended(job_id, cluster)
    if len(found.clusters) > 1:
        raise click.ClickException(
            f"job {job_id} is known on {', '.join(found.clusters)}: choose with --cluster."
        )
    if found.newest is None:
        raise click.ClickException(
            f"no verdict of job {job_id!r} is stored: it is not judged yet, its nodes sent no "
            f"evidence, it has been removed, or it is not yours to see."
        )
    if found.ends > 1:
        click.echo(f"The job ended {found.ends} times; this is the last end.", err=True)
    if link:
        click.echo(_link(_load(config_file), found.newest))
    elif form == "json":
        click.echo(v.encode(found.newest.verdict).decode(), nl=False)
    elif form == "html":
        click.echo(page(found.newest), nl=False)
    else:
        color = is_colored()
        width = min(shutil.get_terminal_size().columns, 120) if sys.stdout.isatty() else 80
        shown = text.render(found.newest.verdict, width=width, color=color)
        click.echo(shown, nl=False, color=color)


def _link(config: configuration.Config, stored: StoredVerdict) -> str:
    link = links_of(config).signed(stored) if config.web.public_url else None
    if link is None:
        raise click.ClickException(
            "signed links need web.public_url, the pages' address as readers reach it, and "
            "web.secret_file, a file with a key of the daemon's own: openssl rand -hex 32"
        )
    return link


@click.command()
@_config
def check(config_file: Path | None) -> None:
    """Tell whether this host is set up: each point, each failure with its remedy."""
    failed = False
    try:
        config = configuration.load(config_file)
    except configuration.ConfigError as error:
        click.echo(f"FAIL  config: {error}")
        raise click.exceptions.Exit(1) from error
    where = config_file or configuration.SYSTEM_FILE
    said = str(where) if config_file or where.exists() else f"defaults ({where} is not there)"
    click.echo(f"ok    config: {said}")
    for point in checks.points(config):
        mark = "off " if point.fine is None else "ok  " if point.fine else "FAIL"
        click.echo(f"{mark}  {point.name}: {point.said}")
        failed = failed or point.fine is False
    if failed:
        raise click.exceptions.Exit(1)


def serve_main() -> None:
    """The entry point of `firstfaultd`: the same as `firstfault serve`."""
    serve(prog_name="firstfaultd")


def _load(path: Path | None) -> configuration.Config:
    try:
        return configuration.load(path)
    except configuration.ConfigError as error:
        raise click.ClickException(str(error)) from error
