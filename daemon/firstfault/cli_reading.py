"""What the commands that read stored failures share: options, and their errors in one line."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import sqlalchemy as sa

from firstfault.app.reading import TOKEN, TOKEN_FILE, URL, Reading, reading
from firstfault.app.remote import RemoteError
from firstfault.config import ConfigError
from firstfault.report.wording import visible
from firstfault.store.database import StoreError
from firstfault.store.listing import ReadError
from firstfault.web.api.parameters import moment

F = TypeVar("F", bound=Callable[..., Any])

_AGO = re.compile(r"([0-9]{1,6})([mhdw])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MOMENT = moment("", "")


class Moment(click.ParamType[dt.datetime]):
    """A time, a day, or how long ago: 2026-11-30T16:00:00Z, 2026-11-30, 90m, 12h, 7d, 2w."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dt.datetime:
        """The time, aware. Fails as click wants it."""
        if isinstance(value, dt.datetime):
            return value
        ago = _AGO.fullmatch(value)
        try:
            if ago is not None:
                return dt.datetime.now(dt.UTC) - dt.timedelta(**{_UNITS[ago[2]]: int(ago[1])})
            found: dt.datetime = _MOMENT.read(value)
        except (ValueError, OverflowError):
            self.fail(
                f"{visible(value)!r} is no time: give one as 2026-11-30T16:00:00Z, a day as "
                f"2026-11-30, or how long ago as 90m, 12h, 7d.",
                param,
                ctx,
            )
        return found


limit_option = click.option(
    "--limit", type=click.IntRange(0), default=20, show_default=True, help="So many; 0: all."
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
    help="How they are printed.",
)


def options(command: F) -> F:
    """Adds the options that say who is asked."""
    for option in (
        click.option(
            "--token-file",
            type=click.Path(path_type=Path, dir_okay=False),
            help=f"A token to be known by (else {TOKEN_FILE}, {TOKEN}, else MUNGE).",
        ),
        click.option("--url", metavar="URL", help=f"The daemon's pages (else {URL})."),
        click.option(
            "--config",
            "config_file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="The configuration of a store on this machine.",
        ),
    ):
        command = option(command)
    return command


@contextmanager
def opened(config_file: Path | None, url: str | None, token_file: Path | None) -> Iterator[Reading]:
    """Who is asked; what goes wrong is one line and status 1."""
    try:
        with reading(config_file, url, token_file) as found:
            yield found
    except (RemoteError, StoreError, ReadError, ConfigError) as error:
        raise click.ClickException(visible(str(error))) from error
    except sa.exc.DBAPIError as error:
        raise click.ClickException(
            f"the store cannot be used: {visible(str(error.orig))}. Ask the daemon instead: --url, "
            f"or run this as the daemon's user: runuser -u firstfault -- firstfault ..."
        ) from error
    except BrokenPipeError:
        raise  # who read has seen enough: click ends quietly
    except OSError as error:
        raise click.ClickException(
            f"{visible(str(error))}. Ask the daemon instead: --url"
        ) from error
