"""Slack's Web API, as a bot with a token (https://docs.slack.dev/apis/web-api).

Every method answers 200 with ``{"ok": false, "error": "..."}`` for what it refuses, and 429 with
Retry-After to who asks too often. A message carries an id of ours in its metadata
(https://docs.slack.dev/messaging/message-metadata), by which it is found again after a crash. The
token is a secret: nothing here puts it into a message.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import requests

from firstfault.deliver.outcome import Failed
from firstfault.deliver.slack import retry_after_s

EVENT_TYPE = "firstfault"
_LARGEST_ANSWER = 16 * 1024 * 1024
_PAGE = 200
_MOST_PAGES = 20
# What may pass by itself (each method's page lists its errors, with these among the common ones).
_PASSING = frozenset(
    {"fatal_error", "internal_error", "ratelimited", "rate_limited", "request_timeout"}
    | {"service_unavailable", "team_added_to_org"}
)
_BLOCKS_REFUSED = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})
# Somebody has deleted the message, or the workspace lets nobody change one so old.
_FIXED = frozenset({"cant_update_message", "edit_window_closed", "message_not_found"})
_REMEDIES = {
    "channel_not_found": "Check the channel's ID, and invite the bot to it.",
    "invalid_auth": "Check slack.token_file.",
    "is_archived": "Name another channel in slack.admins.",
    "missing_scope": "Add the scopes that docs/slack.md lists, and install the app again.",
    "not_in_channel": "Invite the bot to the channel: /invite @firstfault.",
    "token_revoked": "Install the app again and put its new token into slack.token_file.",
}

Json = Mapping[str, Any]


class SlackError(RuntimeError):
    """A method that was not done; ``failed`` says why, and whether it may be tried again."""

    def __init__(self, failed: Failed, code: str = "") -> None:
        super().__init__(failed.reason)
        self.failed = failed
        self.code = code


class Found(NamedTuple):
    """A message that is posted: its ``ts`` is its name, ``replies`` are those in its thread."""

    ts: str
    replies: int


class Bot:
    """One bot in one workspace. Each method raises `SlackError`, and may be called by any thread."""

    def __init__(self, token: str, timeout_s: float, api_url: str = "https://slack.com/api/"):
        self._token = token
        self._timeout_s = timeout_s
        self._api_url = api_url
        self._session = requests.Session()

    def post(self, conversation: str, payload: Json, message_id: str) -> str:
        """Posts a message and returns its ``ts``. Needs chat:write."""
        said = self._say("chat.postMessage", conversation, payload, message_id)
        return str(said["ts"])

    def update(self, conversation: str, ts: str, payload: Json, message_id: str) -> bool:
        """Changes a message; False where it cannot be changed any more. Needs chat:write."""
        try:
            self._say("chat.update", conversation, {**payload, "ts": ts}, message_id)
        except SlackError as error:
            if error.code in _FIXED:
                return False
            raise
        return True

    def find(self, conversation: str, message_id: str, since: dt.datetime) -> Found | None:
        """The message with this id, if it was posted since then. Needs channels:history,
        groups:history or im:history, as the conversation is."""
        for message in self._history(conversation, since):
            metadata = message.get("metadata") or {}
            known = (metadata.get("event_payload") or {}).get("id")
            if metadata.get("event_type") == EVENT_TYPE and known == message_id:
                return Found(str(message["ts"]), int(message.get("reply_count") or 0))
        return None

    def user(self, address: str) -> str | None:
        """The id of the user with a mail address, None where nobody has it. Needs
        users:read.email."""
        try:
            said = self._call("users.lookupByEmail", form={"email": address})
        except SlackError as error:
            if error.code == "users_not_found":
                return None
            raise
        user = said.get("user") or {}
        return None if user.get("deleted") else str(user["id"])

    def direct(self, user: str) -> str:
        """The conversation with a user alone. Needs im:write."""
        return str(self._call("conversations.open", json={"users": user})["channel"]["id"])

    def attach(self, conversation: str, ts: str, name: str, content: bytes) -> None:
        """Puts a file into a message's thread. Needs files:write."""
        place = self._call(
            "files.getUploadURLExternal", form={"filename": name, "length": str(len(content))}
        )
        self._upload(str(place["upload_url"]), content)
        self._call(
            "files.completeUploadExternal",
            json={
                "files": [{"id": place["file_id"], "title": name}],
                "channel_id": conversation,
                "thread_ts": ts,
            },
        )

    def name(self) -> str:
        """The bot's own name in its workspace: the token works. Needs no scope."""
        said = self._call("auth.test", form={})
        return f"{said.get('user')} in {said.get('team')}"

    def _say(self, method: str, conversation: str, payload: Json, message_id: str) -> Json:
        metadata = {"event_type": EVENT_TYPE, "event_payload": {"id": message_id}}
        message = {**payload, "channel": conversation, "metadata": metadata}
        try:
            return self._call(method, json=message)
        except SlackError as error:
            if error.code not in _BLOCKS_REFUSED:
                raise
        # A limit that Slack has changed costs the message its looks, and not its reader the news.
        message.pop("blocks", None)
        return self._call(method, json=message)

    def _history(self, conversation: str, since: dt.datetime) -> Iterator[Json]:
        cursor = ""
        for _ in range(_MOST_PAGES):
            form = {"channel": conversation, "include_all_metadata": "true", "limit": str(_PAGE)}
            form |= {"oldest": f"{since.timestamp():.6f}", "cursor": cursor}
            said = self._call("conversations.history", form=form)
            yield from said.get("messages") or ()
            cursor = (said.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                return

    def _call(self, method: str, *, form: Json | None = None, json: Json | None = None) -> Json:
        try:
            with self._session.post(
                self._api_url + method,
                data=form if json is None else msgspec.json.encode(json),
                headers={
                    "Authorization": f"Bearer {self._token}",
                    "Content-Type": "application/x-www-form-urlencoded"
                    if json is None
                    else "application/json; charset=utf-8",
                },
                timeout=(self._timeout_s, self._timeout_s),
                allow_redirects=False,
                stream=True,
            ) as response:
                return _answer(method, response)
        except requests.RequestException as error:
            reason = f"Slack could not be reached for {method} ({type(error).__name__})"
            raise SlackError(Failed(reason)) from None

    def _upload(self, url: str, content: bytes) -> None:
        if urlsplit(url).scheme != urlsplit(self._api_url).scheme:
            raise SlackError(Failed("Slack named no usable place for the file", retry=False))
        try:
            with self._session.post(
                url,
                data=content,
                headers={"Content-Type": "application/octet-stream"},
                timeout=(self._timeout_s, self._timeout_s),
                allow_redirects=False,
                stream=True,
            ) as response:
                if response.status_code != 200:
                    raise SlackError(Failed(f"the file was answered {response.status_code}"))
        except requests.RequestException as error:
            raise SlackError(Failed(f"the file did not go ({type(error).__name__})")) from None


def _answer(method: str, response: requests.Response) -> Json:
    status = response.status_code
    if status == 429:
        after_s = retry_after_s(response.headers.get("Retry-After"), dt.datetime.now(dt.UTC))
        raise SlackError(Failed(f"Slack answered 429 to {method}", after_s=after_s), "ratelimited")
    if status != 200:
        again = status >= 500 or status == 408
        raise SlackError(Failed(f"Slack answered {status} to {method}", retry=again))
    body = b"".join(_capped(response))
    try:
        said = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        raise SlackError(Failed(f"Slack's answer to {method} is not JSON")) from None
    if said.get("ok") is True:
        return said
    code = str(said.get("error"))[:100]
    reason = f"Slack refused {method}: {code}. {_REMEDIES.get(code, '')}".rstrip(" ")
    raise SlackError(Failed(reason, retry=code in _PASSING), code)


def _capped(response: requests.Response) -> Iterator[bytes]:
    size = 0
    for chunk in response.iter_content(65536):
        size += len(chunk)
        if size > _LARGEST_ANSWER:
            return
        yield chunk
