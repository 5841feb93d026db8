"""`firstfault rules`: what the rules would have sent of the last stored failures, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import click
import msgspec
import sqlalchemy as sa

from firstfault import config as configuration
from firstfault.app import ends as which_ends
from firstfault.app.channels import channels_of
from firstfault.app.credentials import store_url
from firstfault.app.routing import OWN, decision
from firstfault.app.rules import Decision, Rules, idle_patterns
from firstfault.app.rules_file import rules_of
from firstfault.config import Config
from firstfault.deliver.settings import Delivery
from firstfault.model import verdict as v
from firstfault.model.jobs import JobStatus
from firstfault.store import listing
from firstfault.store.database import Database, StoreError, connect


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The configuration (default: /etc/firstfault/firstfault.toml, else built-in defaults).",
)
@click.option(
    "--rules",
    "rules_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True, resolve_path=True),
    help="Try this file of rules instead of the configured one.",
)
@click.option(
    "--last", type=click.IntRange(1), default=20, show_default=True, help="So many failures."
)
def rules(config_file: Path | None, rules_file: Path | None, last: int) -> None:
    """Show who would have been told of the last failures, and by which rule. Nothing is sent."""
    try:
        config = configuration.load(config_file)
        if rules_file is not None:
            delivery = Delivery(rules=str(rules_file))
            config = msgspec.structs.replace(config, delivery=delivery)
        database = connect(store_url(config))
        try:
            for line in _told(config, database, last):
                click.echo(line)
        finally:
            database.close()
    except (StoreError, configuration.ConfigError) as error:
        raise click.ClickException(str(error)) from error
    except sa.exc.DBAPIError as error:
        raise click.ClickException(
            f"the store cannot be used: {error.orig}. Run this as the daemon's user: "
            f"runuser -u firstfault -- firstfault rules"
        ) from error


def _told(config: Config, database: Database, last: int) -> Iterator[str]:
    own = rules_of(config)
    channels = [name for name in channels_of(config, database) if name not in OWN]
    yield f"Channels that are on: {', '.join(channels) or 'none'}"
    yield from _warnings(own, channels)
    counts: Counter[str] = Counter()
    found = listing.judged(database, last)
    for job, verdict in found:
        decided = _decided(config, database, own, channels, job, verdict)
        yield ""
        yield _harmless(_heading(job, verdict, decided))
        yield from (_harmless(f"    {why}") for why in decided.why)
        counts.update(list(decided.channels) or ["nobody"])
    summed = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    yield ""
    yield f"{len(found)} failures: {summed or 'none is stored'}"


def _decided(
    config: Config,
    database: Database,
    own: Rules,
    channels: Collection[str],
    job: JobStatus,
    verdict: v.Verdict,
) -> Decision:
    if not which_ends.is_reported(config.ends, verdict, job.facts, facts_closed=True):
        return Decision({}, ("[ends]: an end like this is not reported",))
    now = job.settled_at or job.last_ended_at
    # What Slurm has not told by now is not waited for here.
    job = msgspec.structs.replace(job, facts_closed=True)
    return decision(database, own, channels, job, verdict, now)


def _warnings(own: Rules, channels: Collection[str]) -> Iterator[str]:
    for name, pattern in idle_patterns(own, channels):
        yield f"Warning: rule {name!r} sends to {pattern!r}, and no channel that is on fits it."


def _heading(job: JobStatus, verdict: v.Verdict, decided: Decision) -> str:
    whose = verdict.job.user or "-"
    name = job.job if job.cluster is None else f"{job.cluster}/{job.job}"
    cause = f"{verdict.cause.id} ({verdict.cause.confidence})"
    to = ", ".join(decided.channels) or "nobody"
    return f"{job.last_ended_at:%Y-%m-%dT%H:%M:%SZ}  {name}  {whose}  {cause}  -> {to}"


def _harmless(text: str) -> str:
    # A user's and a rule's words: nothing in them acts in a terminal.
    return "".join(character if character.isprintable() else "?" for character in text)
