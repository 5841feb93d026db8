"""Tokens of machines: ``Authorization: Bearer firstfault_...``.

A file holds their hashes, a line each::

    NAME sha256:HEX RIGHTS [until=YYYY-MM-DD]

RIGHTS is "administrator", or "user=NAME" and "account=NAME,NAME", or one of the two. A token is 256
random bits, so that a plain hash keeps it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

from starlette.requests import Request

from firstfault.model.board import Reader
from firstfault.web.access import Identity, asked, nobody
from firstfault.web.settings import NAME

PREFIX = "firstfault_"

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_TOKEN = re.compile(r"firstfault_[A-Za-z0-9_-]{43}")
_BEARER = re.compile(r"bearer +(firstfault_[!-~]{1,200})", re.IGNORECASE)
_NO_RIGHTS = "gives no rights: administrator, user=NAME or account=NAME,..."


class Token(NamedTuple):
    """A token: whose rights it has, and the day (UTC) after which it has none."""

    hash: str
    reader: Reader
    until: dt.date | None = None


class TokenError(ValueError):
    """A line that is none; the message says which and why, and quotes no hash."""


def new(name: str, rights: str, until: dt.date | None = None) -> tuple[str, str]:
    """A new token, and the line of the file that makes it count. Raises `TokenError`."""
    token = PREFIX + secrets.token_urlsafe(32)
    line = f"{name} sha256:{hashed(token)} {rights}" + (f" until={until}" if until else "")
    parse(line)
    return token, line


def hashed(token: str) -> str:
    """What the file holds of a token, hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def parse(text: str) -> tuple[Token, ...]:
    """The tokens in a file's ``text``. Raises `TokenError`."""
    found: dict[str, Token] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            token = _token(words)
        except TokenError as error:
            raise TokenError(f"line {number}: {error}") from None
        if token.reader.name in found:
            raise TokenError(f"line {number}: {words[0]!r} is named twice")
        found[token.reader.name] = token
    return tuple(found.values())


def _token(words: Sequence[str]) -> Token:
    if not _LABEL.fullmatch(words[0]):
        raise TokenError("must begin with a name: letters, digits, dots, dashes")
    if len(words) == 2 and _HASH.fullmatch(words[1]):
        raise TokenError(_NO_RIGHTS)
    if len(words) < 3 or not _HASH.fullmatch(words[1]):
        raise TokenError("must be NAME sha256:HEX RIGHTS (firstfault token new NAME prints one)")
    user: str | None = None
    accounts: tuple[str, ...] = ()
    administrator, until = False, None
    for word in words[2:]:
        key, _, value = word.partition("=")
        if word == "administrator":
            administrator = True
        elif key == "user" and NAME.fullmatch(value) and user is None:
            user = value
        elif key == "account" and value and all(map(NAME.fullmatch, value.split(","))):
            accounts += tuple(value.split(","))
        elif key == "until" and until is None:
            until = _day(value)
        else:
            raise TokenError(
                f"{word!r} is not known here: administrator, user=NAME, account=NAME,... or "
                f"until=YYYY-MM-DD"
            )
    if administrator and (user or accounts):
        raise TokenError("an administrator sees everything: name no user and no account")
    if not (administrator or user or accounts):
        raise TokenError(_NO_RIGHTS)
    reader = Reader(f"token {words[0]}", user, administrator, accounts)
    return Token(words[1].removeprefix("sha256:"), reader, until)


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise TokenError(f"until={text!r} is no day: until=YYYY-MM-DD") from None


class Tokens:
    """Readers by token. ``known`` gives those that count now, and may block (it reads a file);
    ``today`` the day in UTC."""

    def __init__(self, known: Callable[[], Sequence[Token]], today: Callable[[], dt.date]) -> None:
        self._known = known
        self._today = today

    async def identify(self, request: Request) -> Identity | None:
        """See `firstfault.web.access.Way`."""
        match = _BEARER.fullmatch(request.headers.get("authorization", ""))
        if match is None:
            return None  # a proxy may pass on what it was logged in to with
        given = hashed(match[1])
        found = None
        for token in await asked(self._known):
            if hmac.compare_digest(token.hash, given):
                found = token
        if found is None or not _TOKEN.fullmatch(match[1]):
            return nobody("the token is not known")
        if found.until is not None and found.until < self._today():
            return nobody("the token's time is over")
        return Identity(found.reader, ambient=False)
