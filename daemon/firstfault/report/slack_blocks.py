"""Pieces of Slack's messages (https://docs.slack.dev/reference/block-kit), with nothing in them
that Slack would take for markup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from firstfault.report import wording as w
from firstfault.report.sections import Listing

HEADER_LIMIT = 150
TEXT_LIMIT = 3000
_URL = re.compile(r"https?://[\x21-\x7e]{1,2000}")

Json = dict[str, Any]


def checked(url: str | None) -> str | None:
    """``url``, which must be http or https. Raises ValueError for another."""
    if url is not None and not _URL.fullmatch(url):
        raise ValueError(f"report_url must be an http or https URL, not {url!r}")
    return url


def escaped(words: str) -> str:
    """Text for a place where Slack parses mrkdwn: nothing in it is markup."""
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plain(words: str) -> Json:
    """A plain_text object."""
    return {"type": "plain_text", "text": words or " ", "emoji": False}


def text(words: str) -> Json:
    """A piece of rich text, at most `TEXT_LIMIT` long."""
    return {"type": "text", "text": w.cut(words, TEXT_LIMIT) or " "}


def bold(words: str) -> Json:
    """The same in bold."""
    return {**text(words), "style": {"bold": True}}


def link(url: str, words: str) -> Json:
    """A link in rich text; ``url`` is ours."""
    return {"type": "link", "url": url, "text": words}


def rich(elements: list[Json]) -> Json:
    """A block of rich text."""
    return {"type": "rich_text", "elements": elements}


def section(elements: list[Json]) -> Json:
    """A paragraph of rich text."""
    return {"type": "rich_text_section", "elements": elements}


def label(name: str, more: str = "") -> Json:
    """A paragraph that says what follows."""
    return section([bold(name), *([text(f" · {more}")] if more else [])])


def preformatted(words: str) -> Json:
    """Lines as they were written, with a frame."""
    return {"type": "rich_text_preformatted", "elements": [text(words)]}


def bullets(listing: Listing[str]) -> Json:
    """A list; what it leaves out is counted."""
    texts: Sequence[str] = listing.items
    if listing.left_out:
        texts = [*texts, f"and {w.number(listing.left_out)} more in the report"]
    return {
        "type": "rich_text_list",
        "style": "bullet",
        "elements": [section([text(item)]) for item in texts],
    }
