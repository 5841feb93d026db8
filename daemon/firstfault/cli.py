"""The command line: ``firstfault COMMAND``.

Each command is imported when it is called: explaining a log needs no database and no web server.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import click

from firstfault import __version__

_COMMANDS = {
    "causes": ("firstfault.cli_causes", "causes"),
    "check": ("firstfault.cli_daemon", "check"),
    "deliveries": ("firstfault.cli_deliveries", "deliveries"),
    "demo": ("firstfault.demo", "demo"),
    "explain": ("firstfault.cli_explain", "explain"),
    "failures": ("firstfault.cli_failures", "failures"),
    "incidents": ("firstfault.cli_incidents", "incidents"),
    "job": ("firstfault.cli_daemon", "job"),
    "nodes": ("firstfault.cli_nodes", "nodes"),
    "rules": ("firstfault.cli_rules", "rules"),
    "serve": ("firstfault.cli_daemon", "serve"),
    "token": ("firstfault.cli_token", "token"),
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name]
        try:
            found = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "firstfault":
                raise
            raise click.ClickException(
                f"{cmd_name} needs the package {error.name}: pip install 'firstfault[daemon]'"
            ) from error
        assert isinstance(found, click.Command)
        return found


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="firstfault")
def main() -> None:
    """Tells which rank of a failed training job failed first, on which host, and why."""


def serve_main(arguments: Sequence[str] | None = None) -> None:
    """``firstfaultd``: the same as ``firstfault serve``."""
    command = main.get_command(click.Context(main), "serve")
    assert command is not None
    command.main(args=arguments, prog_name="firstfaultd")


if __name__ == "__main__":
    main()
