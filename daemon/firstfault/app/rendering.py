"""What goes out: the report's renderers, given what the store and the configuration know."""

from __future__ import annotations

import sys
from collections.abc import Callable

import msgspec

from firstfault.app.lifecycle import changes
from firstfault.app.links import Links
from firstfault.deliver.outcome import Sent
from firstfault.model.jobs import Delivery, StoredVerdict
from firstfault.report import html, slack, text
from firstfault.report.discretion import for_owner
from firstfault.report.wording import clean

# https://docs.slack.dev/reference/block-kit/blocks: blocks in a message, and text in a section.
SLACK_BLOCKS = 50
SLACK_TEXT = 3000


def page(stored: StoredVerdict) -> str:
    """The report as HTML, to be kept as a file."""
    return html.render(stored.verdict, generated_at=stored.created_at, revision=stored.revision)


def owners_page(stored: StoredVerdict) -> str:
    """The report as HTML, as the job's owner is shown it: with no process of another user."""
    return page(msgspec.structs.replace(stored, verdict=for_owner(stored.verdict)))


def slack_payload(links: Links) -> Callable[[Delivery], dict[str, object]]:
    """What makes a delivery's message for a channel, which many read; ``links`` may give it none
    to the report."""

    def payload(delivery: Delivery) -> dict[str, object]:
        message = dict(
            slack.render(
                delivery.current.verdict,
                report_url=links.page(delivery.current),
                delivery_id=delivery.delivery_id,
                revision=1 if delivery.previous is None else delivery.current.revision,
            )
        )
        if delivery.previous is not None:
            said = changes(delivery.previous, delivery.current.verdict)
            words = [clean(each) for each in said] or ["the details changed"]
            revised = f"Revised: {'; '.join(words)}"[:SLACK_TEXT]
            # plain_text: a host or rank out of a log cannot be markup.
            block = {
                "type": "section",
                "text": {"type": "plain_text", "text": revised, "emoji": False},
            }
            message["blocks"] = [block, *message.get("blocks", [])][:SLACK_BLOCKS]
            message["text"] = _inert(f"{revised}. ") + str(message.get("text", ""))
        return message

    return payload


class Printed:
    """The report as plain text on standard output, for the log."""

    def send(self, delivery: Delivery) -> Sent:
        """Prints once."""
        sys.stdout.write(text.render(delivery.current.verdict) + "\n")
        sys.stdout.flush()
        return Sent()


def _inert(said: str) -> str:
    # The fallback text is mrkdwn: https://docs.slack.dev/messaging/formatting-message-text
    return said.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
