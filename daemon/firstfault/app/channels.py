"""The ways out, as the configuration turns them on."""

from __future__ import annotations

from pathlib import Path

from firstfault.app import passes, rendering, slack_readers
from firstfault.app.credentials import bot_token, webhook
from firstfault.app.links import links_of
from firstfault.app.outlets import outlets_of
from firstfault.app.owners import owners_of
from firstfault.app.rules_file import rules_of
from firstfault.config import Config
from firstfault.deliver.files import Files
from firstfault.deliver.outcome import Channel
from firstfault.deliver.slack import Slack
from firstfault.store.database import Database

SLACK = "slack"
# What Slack's channels may be called, whether they are on or not.
SLACKS = (SLACK, slack_readers.OWNERS, slack_readers.ADMINS)


def channels_of(config: Config, database: Database) -> dict[str, Channel]:
    """The channels that the configuration turns on, by name. Raises `ConfigError`."""
    channels: dict[str, Channel] = {passes.REPORT: Files(Path(config.report.dir), rendering.page)}
    url = webhook(config)
    if url:
        payload = rendering.slack_payload(links_of(config))
        channels[SLACK] = Slack(url, config.slack.timeout_s, payload)
    channels.update(outlets_of(config, rules_of(config)))
    token = bot_token(config)
    if token:
        channels |= slack_readers.readers_of(config, database, token, owners_of(config))
    if config.log.report:
        channels[passes.PRINTED] = rendering.Printed()
    return channels
