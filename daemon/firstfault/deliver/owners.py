"""The mail address of a job's owner: from a mapping file, by a command, or by a template."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

USER = "{user}"

# Of POSIX and of directory services (alice, a.smith, ad\alice, alice@realm); never an option.
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,99}\$?")
# What every mail server takes (RFC 5321, 4.1.2, without quoted parts and address literals).
_ADDRESS = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
)
_LONGEST_ADDRESS = 254
# In the mapping file: this user wants no messages.
_NOBODY = "-"


class OwnerError(RuntimeError):
    """The owner could not be looked up now; the message says where and what to do."""


class Owners:
    """Looks for a user in the file ``mapping`` first, then asks ``command``, then fills in
    ``template``; each may be absent (None, None, "").

    ``mapping`` has a line ``user address`` for each user, "-" for one who wants no messages; it is
    read anew at each look. ``command`` is given the user and returns what the site's program
    printed, and raises `OwnerError`.
    """

    def __init__(
        self,
        template: str = "",
        mapping: Path | None = None,
        command: Callable[[str], str] | None = None,
    ) -> None:
        self._template = template
        self._mapping = mapping
        self._command = command

    def address(self, user: str | None) -> str | None:
        """The user's address, None where there is none or they want none.

        Raises `OwnerError` where it cannot be told now.
        """
        if user is None or not _USER.fullmatch(user):
            return None
        found = None if self._mapping is None else _mapped(self._mapping, user)
        if found == _NOBODY:
            return None
        if not found and self._command is not None:
            found = self._command(user).strip()
        if not found and self._template:
            found = self._template.replace(USER, user)
        return found if found and is_address(found) else None


def is_address(text: str) -> bool:
    """True for a plain mail address, ``name@host``."""
    return len(text) <= _LONGEST_ADDRESS and _ADDRESS.fullmatch(text) is not None


def _mapped(path: Path, user: str) -> str | None:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise OwnerError(f"owners.file {path} cannot be read: {said}") from error
    for line in lines:
        words = line.split()
        if len(words) == 2 and words[0] == user:
            return words[1]
    return None
