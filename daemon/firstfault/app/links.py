"""Links to one report that need no login: signed, and good for some days.

A link names the end of one job, or a kept report of logs that were sent; who has it reads that
report and nothing else.
"""

from __future__ import annotations

import hashlib
from typing import TypeVar
from urllib.parse import quote

import itsdangerous
import msgspec

from firstfault.app.credentials import link_key
from firstfault.config import Config
from firstfault.model.jobs import StoredVerdict

# Where the pages serve them; a proxy may let what is below it through without asking who it is.
SHARED = "/shared/"

_SALT = "firstfault.report/1"
_EXPLAINED_SALT = "firstfault.explained/1"
_DAY_S = 86400
_LONGEST_TOKEN = 1000

T = TypeVar("T")


class Target(msgspec.Struct, frozen=True, array_like=True):
    """The report that a link leads to."""

    cluster: str | None
    job: str
    incarnation: int


class Links:
    """``public_url`` is the pages' address for readers, "" where they cannot reach it; ``key``
    signs, "" where nothing does, and then the links lead to the pages themselves. A signed one is
    good for ``days``."""

    def __init__(self, public_url: str = "", key: str = "", days: int = 1) -> None:
        self._public_url = public_url.rstrip("/")
        self.days = days
        self._serializer = _serializer(key, _SALT)
        self._explained = _serializer(key, _EXPLAINED_SALT)

    @property
    def signs(self) -> bool:
        """True where a key signs links."""
        return self._serializer is not None

    def for_owner(self, stored: StoredVerdict) -> str | None:
        """The link for a job's owner alone: signed where a key is set; None where readers reach
        none. What several people read carries `page`: a signed link opens to whoever has it."""
        if not self._public_url:
            return None
        return self.signed(stored) or self._public_url + path(stored)

    def page(self, stored: StoredVerdict) -> str | None:
        """The link to a report among the pages, which ask who reads it; None where readers reach
        none."""
        return self._public_url + path(stored) if self._public_url else None

    def pages(self) -> str | None:
        """The link to the list of all failed jobs, None where readers reach none."""
        return f"{self._public_url}/" if self._public_url else None

    def signed(self, stored: StoredVerdict) -> str | None:
        """The signed link to a report, None where nothing signs."""
        if self._serializer is None:
            return None
        target = [stored.cluster, stored.job, stored.incarnation]
        return f"{self._public_url}{SHARED}{self._serializer.dumps(target)!s}"

    def explained_page(self, name: str) -> str:
        """Where the kept report of this id stands among the pages; a path where their address for
        readers is not known."""
        return f"{self._public_url}/explained/{name}"

    def signed_explained(self, name: str) -> str | None:
        """The signed link to the kept report of this id, None where nothing signs; a path as of
        `explained_page`."""
        if self._explained is None:
            return None
        return f"{self._public_url}{SHARED}{self._explained.dumps(name)!s}"

    def target(self, token: str) -> Target | None:
        """Where a signed link leads; None for one that is forged, cut, or too old."""
        return self._said(self._serializer, token, Target)

    def explained(self, token: str) -> str | None:
        """The id of the kept report that a signed link leads to; None as of `target`."""
        return self._said(self._explained, token, str)

    def _said(
        self, serializer: itsdangerous.URLSafeTimedSerializer | None, token: str, kind: type[T]
    ) -> T | None:
        if serializer is None or len(token) > _LONGEST_TOKEN:
            return None
        try:
            return msgspec.convert(serializer.loads(token, max_age=self.days * _DAY_S), kind)
        except (itsdangerous.BadData, msgspec.ValidationError):
            return None


def _serializer(key: str, salt: str) -> itsdangerous.URLSafeTimedSerializer | None:
    if not key:
        return None
    return itsdangerous.URLSafeTimedSerializer(
        key, salt=salt, signer_kwargs={"digest_method": hashlib.sha256}
    )


def links_of(config: Config) -> Links:
    """The links, as configured. Raises `ConfigError`."""
    return Links(config.web.public_url, link_key(config), config.web.link_days)


def path(stored: StoredVerdict) -> str:
    """Where the report stands among the pages; an absent cluster is "-"."""
    return f"/jobs/{quote(stored.cluster or '-', safe='')}/{quote(stored.job, safe='')}"
