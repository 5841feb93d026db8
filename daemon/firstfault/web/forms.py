"""Tokens of forms: what is changed was asked for by one of our own pages, shown to the same reader.

No cookie is set: the token is bound to who reads, and good for a day.
"""

from __future__ import annotations

import hashlib
import secrets

import itsdangerous

from firstfault.model.board import Reader

FIELD = "form_token"
DAY_S = 86400
_SALT = "firstfault.form/1"
_LONGEST = 2000
_OWN = secrets.token_hex(32)


class Forms:
    """Signs with ``key``; where that is "", with one of this process's own, which ends with it."""

    def __init__(self, key: str = "") -> None:
        self._serializer = itsdangerous.URLSafeTimedSerializer(
            key or _OWN,
            salt=_SALT,
            signer_kwargs={"digest_method": hashlib.sha256},
        )

    def token(self, reader: Reader) -> str:
        """The token for the forms of a page that ``reader`` is shown."""
        return str(self._serializer.dumps(_whose(reader)))

    def accepts(self, token: str, reader: Reader) -> bool:
        """True for a token that ``reader`` was given within the last day."""
        if len(token) > _LONGEST:
            return False
        try:
            whose = self._serializer.loads(token, max_age=DAY_S)
        except itsdangerous.BadData:
            return False
        return bool(whose == _whose(reader))


def _whose(reader: Reader) -> str:
    # Bound to rights too: who is an administrator no more, or only now, loads the page again.
    said = f"{reader.name}\n{reader.user or ''}\n{reader.administrator}"
    return hashlib.sha256(said.encode("utf-8", "surrogateescape")).hexdigest()[:32]
