"""Reading the configuration again while the daemon runs: what of it counts at once."""

from __future__ import annotations

from typing import Any

import msgspec

from firstfault.config import Config, keys

# What the running process is built on: listeners, the store, the folder that is watched. A name
# without a dot is a key of no table, or a whole table. docs/daemon.md lists them.
NEED_RESTART = (
    "allow_root",
    "explain",
    "intake",
    "metrics",
    "spool.dir",
    "spool.watch",
    "store",
    "web.enabled",
    "web.host",
    "web.port",
)


class Reloaded(msgspec.Struct, frozen=True):
    """``config`` is what counts from now on; the keys that differ from what counted before, and
    those whose new value counts after a restart only."""

    config: Config
    changed: tuple[str, ...]
    need_restart: tuple[str, ...]


def reloaded(running: Config, wanted: Config) -> Reloaded:
    """What comes of ``wanted`` in a daemon that was started with ``running``."""
    before, after = keys(running), keys(wanted)
    differ = [key for key in after if after[key] != before[key]]
    late = tuple(key for key in differ if needs_restart(key))
    values: dict[str, Any] = msgspec.to_builtins(wanted)
    for key in late:
        table, _, name = key.rpartition(".")
        (values[table] if table else values)[name] = before[key]
    return Reloaded(
        config=msgspec.convert(values, Config),
        changed=tuple(key for key in differ if key not in late),
        need_restart=late,
    )


def needs_restart(key: str) -> bool:
    """True for a key whose new value counts after a restart only."""
    return key in NEED_RESTART or key.partition(".")[0] in NEED_RESTART
