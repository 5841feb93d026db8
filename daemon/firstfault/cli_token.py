"""`firstfault token`: makes tokens for machines that read the pages' API."""

from __future__ import annotations

import datetime as dt

import click

from firstfault.web import tokens


@click.group()
def token() -> None:
    """Make tokens for machines (docs/access.md)."""


@token.command()
@click.argument("name")
@click.option("--administrator", is_flag=True, help="It sees and does everything.")
@click.option("--user", metavar="NAME", help="It sees the jobs of this user.")
@click.option("--account", metavar="NAME", multiple=True, help="It sees this account's jobs, too.")
@click.option(
    "--until",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The last day (UTC) on which it is good.  [default: no end]",
)
def new(
    name: str,
    administrator: bool,
    user: str | None,
    account: tuple[str, ...],
    until: dt.datetime | None,
) -> None:
    """Print a new token, and the line that makes it count.

    The token is shown this once: the line, for the file that web.tokens_file names, holds only its
    hash. Taking the line out ends the token.
    """
    rights = ["administrator"] if administrator else []
    rights += [f"user={user}"] if user is not None else []
    rights += [f"account={','.join(account)}"] if account else []
    try:
        made, line = tokens.new(name, " ".join(rights), None if until is None else until.date())
    except tokens.TokenError as error:
        raise click.ClickException(str(error).removeprefix("line 1: ")) from error
    click.echo("The token, shown this once:", err=True)
    click.echo(made)
    click.echo("The line for the file that web.tokens_file names:", err=True)
    click.echo(line)
