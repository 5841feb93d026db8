"""A real HTTP server in Slack's place: takes incoming-webhook posts and answers as Slack does.

    with SlackServer() as slack:
        requests.post(slack.url, json={"text": "hello"})
    slack.messages[0].payload["text"]

It refuses what Slack's documents say is refused (https://docs.slack.dev/reference/block-kit),
with Slack's own words: ``invalid_payload``, ``no_text``, ``invalid_blocks``. ``refused`` keeps
those, with the reason. `rate_limit`, `fail`, `close`, `swallow` and `hang` say what becomes of the
next posts. As a webhook's it takes a message as often as it is sent: nothing here tells doubles.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from tests.fakes.serving import Serving

_MESSAGE_BYTES = 1 << 20


class Message(NamedTuple):
    """A payload that was accepted. ``at`` is the wall clock, ``monotonic_s`` for durations."""

    payload: dict[str, Any]
    at: datetime
    monotonic_s: float


class Refused(NamedTuple):
    """A post that was answered with an error; ``body`` is what came, ``reason`` why it was."""

    status: int
    answer: str
    reason: str
    body: bytes
    monotonic_s: float


class Answer(NamedTuple):
    """What one post is answered. ``status`` None: nothing, the connection is closed.

    ``after_s`` is how long the answer takes, ``keeps`` whether the message is taken.
    """

    status: int | None
    text: str = ""
    headers: Mapping[str, str] = {}
    after_s: float = 0.0
    keeps: bool = False


class SlackServer:
    """Listens on 127.0.0.1 while the context is entered; ``url`` is the webhook.

    ``answered`` is called with each message when its sender has the whole answer.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.refused: list[Refused] = []
        self.answered: Callable[[Message], None] = lambda message: None
        self._planned: list[Answer] = []
        self._ended = threading.Event()
        self._arrived = threading.Condition()
        self._serving: Serving | None = None

    @property
    def url(self) -> str:
        assert self._serving is not None, "SlackServer is used in a with statement"
        return f"http://127.0.0.1:{self._serving.port}/services/T000/B000/XXXX"

    def rate_limit(self, times: int = 1, retry_after_s: int = 1) -> None:
        """The next ``times`` posts are answered 429 with Retry-After."""
        self._plan(times, Answer(429, "rate_limited", {"Retry-After": str(retry_after_s)}))

    def fail(self, times: int = 1, status: int = 500) -> None:
        """The next ``times`` posts are answered with ``status`` and nothing is kept."""
        self._plan(times, Answer(status, "rollup_error"))

    def close(self, times: int = 1) -> None:
        """The next ``times`` posts are read, nothing is kept and the connection is closed."""
        self._plan(times, Answer(None))

    def swallow(self, times: int = 1) -> None:
        """The next ``times`` messages are taken, and the connection is closed without an answer."""
        self._plan(times, Answer(None, keeps=True))

    def hang(self, times: int = 1, seconds: float = 3600.0) -> None:
        """The next ``times`` posts are answered (503) after ``seconds``, and nothing is kept."""
        self._plan(times, Answer(503, "timeout", after_s=seconds))

    def wait(self, count: int = 1, timeout_s: float = 10.0) -> list[Message]:
        """The messages, once there are ``count`` of them. Raises TimeoutError."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.messages) >= count, timeout_s):
                raise TimeoutError(
                    f"{len(self.messages)} of {count} messages after {timeout_s} s;"
                    f" refused: {[(r.answer, r.reason) for r in self.refused]}"
                )
            return list(self.messages)

    def __enter__(self) -> SlackServer:
        self._serving = Serving(_handler(self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._serving is not None
        self._ended.set()
        self._serving.stop()

    def take(self, content_type: str, body: bytes) -> tuple[Answer, Message | None]:
        """The answer to one post, and the message where it is kept."""
        with self._arrived:
            answer, payload, reason = self._decided(content_type, body)
            message = None
            if payload is not None:
                message = Message(payload, datetime.now(UTC), time.monotonic())
                self.messages.append(message)
            else:
                self.refused.append(
                    Refused(answer.status or 0, answer.text, reason, body, time.monotonic())
                )
            self._arrived.notify_all()
        self._ended.wait(answer.after_s)
        return answer, message

    def _plan(self, times: int, answer: Answer) -> None:
        with self._arrived:
            self._planned += [answer] * times

    def _decided(self, content_type: str, body: bytes) -> tuple[Answer, dict[str, Any] | None, str]:
        planned = self._planned.pop(0) if self._planned else None
        if planned is not None and not planned.keeps:
            return planned, None, "told to"
        try:
            payload = _decoded(content_type, body)
            check(payload)
        except Invalid as error:
            return Answer(400, error.answer), None, str(error)
        return planned or Answer(200, "ok"), payload, ""


def _handler(slack: SlackServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(min(length, _MESSAGE_BYTES + 1))
            if len(body) < length <= _MESSAGE_BYTES:
                self.close_connection = True  # its sender died in the middle
                return
            if not self.path.startswith("/services/"):
                self._send(Answer(404, "no_service"))
                return
            answer, message = slack.take(self.headers.get("Content-Type") or "", body)
            self._send(answer)
            if message is not None:
                slack.answered(message)

        def do_GET(self) -> None:
            self._send(Answer(405, "method_not_allowed"))

        def _send(self, answer: Answer) -> None:
            if answer.status is None:
                self.close_connection = True
                return
            data = answer.text.encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(data)))
            # The sender may have given up, or been killed.
            with suppress(OSError):
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    return Handler


class Invalid(Exception):
    """What Slack would refuse; ``answer`` is its word for it."""

    def __init__(self, answer: str, reason: str) -> None:
        super().__init__(reason)
        self.answer = answer


def _decoded(content_type: str, body: bytes) -> Any:
    kind = content_type.split(";")[0].strip().lower()
    try:
        text = body.decode("utf-8")
        if kind == "application/x-www-form-urlencoded":
            text = parse_qs(text)["payload"][0]
        elif kind != "application/json":
            raise Invalid("invalid_payload", f"content type {content_type!r}")
        if len(body) > _MESSAGE_BYTES:
            raise Invalid("invalid_payload", "larger than this server takes")
        return json.loads(text)
    except (ValueError, KeyError) as error:
        raise Invalid("invalid_payload", repr(error)) from error


_TOP = {
    "text", "blocks", "attachments", "mrkdwn", "thread_ts", "unfurl_links", "unfurl_media",
    "response_type", "replace_original", "delete_original", "metadata",
}  # fmt: skip


def check(payload: Any) -> None:
    """Raises `Invalid` for what the documents of Block Kit and webhooks do not allow."""
    if not isinstance(payload, dict):
        raise Invalid("invalid_payload", "not an object")
    unknown = set(payload) - _TOP
    if unknown:
        raise Invalid("invalid_payload", f"unknown keys {sorted(unknown)}")
    for key in ("mrkdwn", "unfurl_links", "unfurl_media"):
        if not isinstance(payload.get(key, True), bool):
            raise Invalid("invalid_payload", f"{key} is not a boolean")
    text = payload.get("text")
    blocks = payload.get("blocks")
    if text is not None and not isinstance(text, str):
        raise Invalid("invalid_payload", "text is not a string")
    if not text and not blocks and not payload.get("attachments"):
        raise Invalid("no_text", "neither text nor blocks")
    if text is not None and len(text) > 40000:
        raise Invalid("msg_too_long", f"text of {len(text)} characters")
    if blocks is not None:
        _blocks(blocks)


def _need(holds: object, reason: str) -> None:
    if not holds:
        raise Invalid("invalid_blocks", reason)


def _keys(value: Any, where: str, required: set[str], optional: set[str]) -> None:
    _need(isinstance(value, dict), f"{where}: not an object")
    keys = set(value)
    _need(required <= keys, f"{where}: misses {sorted(required - keys)}")
    _need(keys <= required | optional, f"{where}: unknown {sorted(keys - required - optional)}")


def _string(value: Any, where: str, most: int, least: int = 1) -> None:
    _need(isinstance(value, str), f"{where}: not a string")
    _need(
        least <= len(value) <= most, f"{where}: {len(value)} characters, {least} to {most} allowed"
    )


def _array(value: Any, where: str, most: int) -> list[Any]:
    _need(isinstance(value, list), f"{where}: not an array")
    _need(1 <= len(value) <= most, f"{where}: {len(value)} elements, 1 to {most} allowed")
    return list(value)


def _blocks(blocks: Any) -> None:
    _need(isinstance(blocks, list) and len(blocks) <= 50, "blocks: more than 50 or not an array")
    seen: set[str] = set()
    for k, block in enumerate(blocks):
        where = f"blocks[{k}]"
        kind = block.get("type") if isinstance(block, dict) else None
        checker = _BLOCKS.get(kind)
        _need(checker, f"{where}: type {kind!r}")
        assert checker is not None
        if "block_id" in block:
            _string(block["block_id"], f"{where}.block_id", 255)
            _need(block["block_id"] not in seen, f"{where}: block_id used twice")
            seen.add(block["block_id"])
        checker({key: value for key, value in block.items() if key != "block_id"}, where)


def _text_object(value: Any, where: str, most: int, kinds: set[str]) -> None:
    kind = value.get("type") if isinstance(value, dict) else None
    _need(kind in kinds, f"{where}: type {kind!r}, one of {sorted(kinds)} allowed")
    _keys(value, where, {"type", "text"}, {"emoji"} if kind == "plain_text" else {"verbatim"})
    _string(value["text"], f"{where}.text", most)
    for key in ("emoji", "verbatim"):
        _need(isinstance(value.get(key, True), bool), f"{where}.{key}: not a boolean")


_ANY_TEXT = {"plain_text", "mrkdwn"}


def _header(block: dict[str, Any], where: str) -> None:
    _keys(block, where, {"type", "text"}, {"level"})
    _text_object(block["text"], f"{where}.text", 150, {"plain_text"})


def _section(block: dict[str, Any], where: str) -> None:
    _keys(block, where, {"type"}, {"text", "fields", "accessory", "expand"})
    _need("text" in block or "fields" in block, f"{where}: neither text nor fields")
    if "text" in block:
        _text_object(block["text"], f"{where}.text", 3000, _ANY_TEXT)
    if "fields" in block:
        for k, field in enumerate(_array(block["fields"], f"{where}.fields", 10)):
            _text_object(field, f"{where}.fields[{k}]", 2000, _ANY_TEXT)
    if "accessory" in block:
        _button(block["accessory"], f"{where}.accessory")


def _context(block: dict[str, Any], where: str) -> None:
    _keys(block, where, {"type", "elements"}, set())
    for k, element in enumerate(_array(block["elements"], f"{where}.elements", 10)):
        _text_object(element, f"{where}.elements[{k}]", 3000, _ANY_TEXT)


def _divider(block: dict[str, Any], where: str) -> None:
    _keys(block, where, {"type"}, set())


def _actions(block: dict[str, Any], where: str) -> None:
    _keys(block, where, {"type", "elements"}, set())
    for k, element in enumerate(_array(block["elements"], f"{where}.elements", 25)):
        _button(element, f"{where}.elements[{k}]")


def _button(element: Any, where: str) -> None:
    optional = {"action_id", "url", "value", "style", "accessibility_label", "confirm"}
    _keys(element, where, {"type", "text"}, optional)
    _need(element["type"] == "button", f"{where}: only buttons are known here")
    _text_object(element["text"], f"{where}.text", 75, {"plain_text"})
    if "url" in element:
        _string(element["url"], f"{where}.url", 3000)
    if "style" in element:
        _need(element["style"] in ("primary", "danger"), f"{where}.style")


def _rich_text(block: dict[str, Any], where: str) -> None:
    _keys(block, where, {"type", "elements"}, set())
    for k, element in enumerate(_array(block["elements"], f"{where}.elements", 1000)):
        _rich_group(element, f"{where}.elements[{k}]")


def _rich_group(element: Any, where: str) -> None:
    kind = element.get("type") if isinstance(element, dict) else None
    if kind == "rich_text_list":
        _keys(element, where, {"type", "style", "elements"}, {"indent", "offset", "border"})
        _need(element["style"] in ("bullet", "ordered"), f"{where}.style: {element['style']!r}")
        for k, item in enumerate(_array(element["elements"], f"{where}.elements", 1000)):
            _need(
                isinstance(item, dict) and item.get("type") == "rich_text_section",
                f"{where}.elements[{k}]: a list holds sections",
            )
            _rich_group(item, f"{where}.elements[{k}]")
        return
    _need(
        kind in ("rich_text_section", "rich_text_preformatted", "rich_text_quote"),
        f"{where}: type {kind!r}",
    )
    _keys(
        element, where, {"type", "elements"}, set() if kind == "rich_text_section" else {"border"}
    )
    _need(element.get("border", 0) in (0, 1), f"{where}.border")
    inline = {"text", "link"} if kind == "rich_text_preformatted" else set(_INLINE)
    for k, item in enumerate(_array(element["elements"], f"{where}.elements", 1000)):
        _rich_inline(item, f"{where}.elements[{k}]", inline)


_INLINE: dict[str, tuple[set[str], set[str]]] = {
    "text": ({"text"}, {"style"}),
    "link": ({"url"}, {"text", "unsafe", "style"}),
    "emoji": ({"name"}, {"unicode", "style"}),
    "user": ({"user_id"}, {"style"}),
    "channel": ({"channel_id"}, {"style"}),
    "usergroup": ({"usergroup_id"}, {"style"}),
    "broadcast": ({"range"}, set()),
    "date": ({"timestamp", "format"}, {"url", "fallback"}),
    "color": ({"value"}, set()),
}


def _rich_inline(item: Any, where: str, kinds: set[str]) -> None:
    kind = item.get("type") if isinstance(item, dict) else None
    _need(kind in kinds, f"{where}: type {kind!r}")
    required, optional = _INLINE[str(kind)]
    _keys(item, where, {"type", *required}, optional)
    if kind == "text":
        _string(item["text"], f"{where}.text", 3000)
    if kind == "link":
        _string(item["url"], f"{where}.url", 3000)
        _need(item["url"].startswith(("http://", "https://", "mailto:")), f"{where}.url: its kind")
    style = item.get("style", {})
    _keys(style, f"{where}.style", set(), {"bold", "italic", "strike", "code"})
    _need(all(isinstance(on, bool) for on in style.values()), f"{where}.style: not booleans")


_BLOCKS: dict[Any, Callable[[dict[str, Any], str], None]] = {
    "header": _header,
    "section": _section,
    "context": _context,
    "divider": _divider,
    "actions": _actions,
    "rich_text": _rich_text,
}
