"""A real HTTP server in place of Slack's Web API, with the methods that a bot of ours uses.

    with SlackApi({"ada@example.org": "U1"}) as slack:
        Bot(slack.TOKEN, 5, slack.url).post("C1", {"text": "hello"}, "id")
    slack.messages[0].payload["text"]

It answers as the methods' pages say (https://docs.slack.dev/reference/methods), refuses blocks that
`tests.fakes.slack` refuses, and keeps what a channel holds. `plan` says what becomes of the next
calls of a method.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from tests.fakes.serving import Serving
from tests.fakes.slack import Answer, Invalid, check

# docs.slack.dev/reference/methods: what each takes.
_JSON = {"chat.postMessage", "chat.update", "conversations.open", "files.completeUploadExternal"}
_FORM = {"auth.test", "conversations.history", "files.getUploadURLExternal", "users.lookupByEmail"}
_METADATA_BYTES = 16_000
_PAGE = 100


class Posted(NamedTuple):
    """A message as the channel holds it. ``files`` are those in its thread, by name."""

    conversation: str
    ts: str
    payload: dict[str, Any]
    updates: int = 0
    files: Mapping[str, bytes] = {}


class SlackApi:
    """Listens on 127.0.0.1 while the context is entered; ``url`` is where the methods are.

    ``users`` are the workspace's, by mail address; the bot is in ``channels``. ``page`` is the
    most that one page of a history holds. ``answered`` is called with each method when its caller
    has the whole answer.
    """

    TOKEN = "xoxb-a-secret-of-the-tests"

    def __init__(
        self, users: Mapping[str, str], channels: Iterable[str] = ("C1",), page: int = _PAGE
    ) -> None:
        self.answered: Callable[[str], None] = lambda method: None
        self.calls: Counter[str] = Counter()
        self.refused: list[tuple[str, str]] = []
        self._users = users
        self._direct = {user: f"D{user[1:]}" for user in users.values()}
        self._conversations = {*channels}
        self._page = page
        self._messages: dict[tuple[str, str], Posted] = {}
        self._planned: list[tuple[str, Answer]] = []
        self._uploads: dict[str, tuple[str, int, bytes | None]] = {}
        self._last = 0
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self._serving: Serving | None = None

    @property
    def url(self) -> str:
        return f"{self._root}/api/"

    @property
    def messages(self) -> list[Posted]:
        """All messages of all conversations, the oldest first."""
        with self._changed:
            return [self._messages[key] for key in sorted(self._messages, key=lambda key: key[1])]

    def plan(self, method: str, answer: Answer, times: int = 1) -> None:
        """The next ``times`` calls of ``method`` are answered so; where the answer keeps, they
        are done all the same."""
        with self._changed:
            self._planned += [(method, answer)] * times

    def rate_limit(self, method: str, times: int = 1, retry_after_s: int = 1) -> None:
        """The next calls are answered 429 with Retry-After."""
        said = json.dumps({"ok": False, "error": "ratelimited"})
        self.plan(method, Answer(429, said, {"Retry-After": str(retry_after_s)}), times)

    def swallow(self, method: str, times: int = 1) -> None:
        """The next calls are done, and the connection is closed without an answer."""
        self.plan(method, Answer(None, keeps=True), times)

    def refuse(self, method: str, error: str, times: int = 1) -> None:
        """The next calls are answered with this error."""
        self.plan(method, Answer(200, json.dumps({"ok": False, "error": error})), times)

    def delete(self, message: Posted) -> None:
        """Somebody deletes a message."""
        with self._changed:
            del self._messages[message.conversation, message.ts]

    def wait(self, count: int, timeout_s: float = 10.0) -> list[Posted]:
        """The messages, once there are ``count`` of them. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._messages) >= count, timeout_s):
                raise TimeoutError(f"{len(self._messages)} of {count}; {self.refused}")
        return self.messages

    def __enter__(self) -> SlackApi:
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

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer to one call."""
        method = path.rpartition("/")[2]
        with self._changed:
            self.calls[method] += 1
            planned = next((i for i, (name, _) in enumerate(self._planned) if name == method), None)
            answer = None if planned is None else self._planned.pop(planned)[1]
            if answer is None or answer.keeps:
                said = self._said(path, method, headers, body)
                answer = answer or Answer(200, json.dumps(said))
            self._changed.notify_all()
        self._ended.wait(answer.after_s)
        return answer

    @property
    def _root(self) -> str:
        assert self._serving is not None, "SlackApi is used in a with statement"
        return f"http://127.0.0.1:{self._serving.port}"

    def _said(
        self, path: str, method: str, headers: Mapping[str, str], body: bytes
    ) -> dict[str, Any]:
        if path.startswith("/upload/"):
            name, length, _ = self._uploads[method]
            self._uploads[method] = (name, length, body)
            return {"ok": len(body) == length}
        try:
            if headers.get("Authorization") != f"Bearer {self.TOKEN}":
                raise Invalid("invalid_auth", "the token")
            return {"ok": True, **self._done(method, _arguments(method, headers, body))}
        except Invalid as error:
            self.refused.append((method, f"{error.answer}: {error}"))
            return {"ok": False, "error": error.answer}

    def _done(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        if method == "auth.test":
            return {"user": "firstfault", "team": "Tests"}
        if method == "users.lookupByEmail":
            if given.get("email") not in self._users:
                raise Invalid("users_not_found", str(given))
            return {"user": {"id": self._users[given["email"]], "deleted": False}}
        if method == "conversations.open":
            if given.get("users") not in self._direct:
                raise Invalid("user_not_found", str(given))
            conversation = self._direct[given["users"]]
            self._conversations.add(conversation)
            return {"channel": {"id": conversation}}
        if method == "files.getUploadURLExternal":
            file_id = f"F{len(self._uploads)}"
            self._uploads[file_id] = (given["filename"], int(given["length"]), None)
            return {"upload_url": f"{self._root}/upload/{file_id}", "file_id": file_id}
        conversation = given.get("channel") or given.get("channel_id")
        if conversation not in self._conversations:
            raise Invalid("channel_not_found", str(conversation))
        if method == "conversations.history":
            return self._history(conversation, given)
        if method == "files.completeUploadExternal":
            return self._shared(conversation, given)
        return self._written(method, conversation, given)

    def _written(self, method: str, conversation: str, given: dict[str, Any]) -> dict[str, Any]:
        ts = given.pop("ts", None)
        given.pop("channel")
        metadata = given.get("metadata", {})
        if set(metadata) != {"event_type", "event_payload"}:
            raise Invalid("invalid_metadata_schema", str(metadata))
        if len(json.dumps(metadata)) > _METADATA_BYTES:
            raise Invalid("metadata_too_large", "more than 16 kB")
        check(given)
        if method == "chat.postMessage":
            # A ts is the time in microseconds, and no two in a channel are alike.
            self._last = max(self._last + 1, time.time_ns() // 1000)
            ts = f"{self._last // 10**6}.{self._last % 10**6:06d}"
            self._messages[conversation, ts] = Posted(conversation, ts, given)
        else:
            before = self._messages.get((conversation, str(ts)))
            if before is None:
                raise Invalid("message_not_found", str(ts))
            self._messages[conversation, before.ts] = before._replace(
                payload=given, updates=before.updates + 1
            )
        return {"channel": conversation, "ts": ts}

    def _history(self, conversation: str, given: dict[str, Any]) -> dict[str, Any]:
        oldest, start = given.get("oldest", "0"), int(given.get("cursor") or 0)
        here = [m for (place, ts), m in self._messages.items() if place == conversation]
        here = sorted((m for m in here if m.ts > oldest), key=lambda m: m.ts, reverse=True)
        end = start + min(int(given.get("limit", 100)), self._page)
        keys = ("text", "blocks", "metadata") if given.get("include_all_metadata") else ("text",)
        messages = [
            {"ts": m.ts, "reply_count": len(m.files)}
            | {key: m.payload[key] for key in keys if key in m.payload}
            for m in here[start:end]
        ]
        cursor = str(end) if end < len(here) else ""
        return {"messages": messages, "response_metadata": {"next_cursor": cursor}}

    def _shared(self, conversation: str, given: dict[str, Any]) -> dict[str, Any]:
        message = self._messages.get((conversation, given["thread_ts"]))
        if message is None:
            raise Invalid("thread_not_found", str(given))
        files = dict(message.files)
        for file in given["files"]:
            name, _, content = self._uploads[file["id"]]
            if content is None:
                raise Invalid("file_not_found", "nothing was uploaded")
            files[name] = content
        self._messages[conversation, message.ts] = message._replace(files=files)
        return {"files": given["files"]}


def _arguments(method: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    kind = (headers.get("Content-Type") or "").split(";")[0]
    if kind == "application/json" and method in _JSON:
        try:
            return dict(json.loads(body))
        except ValueError as error:
            raise Invalid("invalid_json", repr(error)) from error
    if kind == "application/x-www-form-urlencoded" and method in _FORM:
        return dict(parse_qsl(body.decode()))
    raise Invalid("invalid_arg_name", f"{method} with {kind}")


def _handler(slack: SlackApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            if len(body) < length:
                self.close_connection = True  # its sender died in the middle
                return
            answer = slack.take(self.path, dict(self.headers.items()), body)
            if answer.status is None:
                self.close_connection = True
                return
            data = answer.text.encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            # The sender may have given up, or been killed.
            with suppress(OSError):
                self.end_headers()
                self.wfile.write(data)
            slack.answered(self.path.rpartition("/")[2])

        def log_message(self, *args: object) -> None:
            pass

    return Handler
