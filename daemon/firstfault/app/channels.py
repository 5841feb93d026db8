"""The ways out, as the configuration turns them on."""

from __future__ import annotations

from pathlib import Path

from firstfault.app import passes, rendering
from firstfault.app.credentials import webhook
from firstfault.app.links import links_of
from firstfault.config import Config
from firstfault.deliver.files import Files
from firstfault.deliver.outcome import Channel
from firstfault.deliver.slack import Slack

SLACK = "slack"


def channels_of(config: Config) -> dict[str, Channel]:
    """The channels that the configuration turns on, by name. Raises `ConfigError`."""
    channels: dict[str, Channel] = {passes.REPORT: Files(Path(config.report.dir), rendering.page)}
    url = webhook(config)
    if url:
        payload = rendering.slack_payload(links_of(config))
        channels[SLACK] = Slack(url, config.slack.timeout_s, payload)
    if config.log.report:
        channels[passes.PRINTED] = rendering.Printed()
    return channels
