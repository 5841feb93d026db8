"""What a user may see: their own jobs, those of the accounts they coordinate, or everything."""

from __future__ import annotations

import grp
import logging
import os
import pwd
import threading
import time
from collections.abc import Callable, Collection, Mapping

from firstfault.app.journal import say
from firstfault.model.board import Reader
from firstfault.slurm.facts import FactsError

# A directory service is asked again about a user's groups after so long.
GROUPS_S = 60.0
USERS_MAX = 10_000


class Coordinators:
    """The accounts that users coordinate, as last read. ``ask`` may block, and raises
    `FactsError`; until it was answered for the first time nobody coordinates any."""

    def __init__(self, ask: Callable[[], Mapping[str, tuple[str, ...]]]) -> None:
        self._ask = ask
        self._known: Mapping[str, tuple[str, ...]] = {}

    def of(self, user: str) -> tuple[str, ...]:
        """The accounts that ``user`` coordinates."""
        return self._known.get(user, ())

    def once(self) -> int:
        """Reads them. Where Slurm does not answer, those known so far count on."""
        try:
            self._known = self._ask()
        except FactsError as error:
            say(logging.WARNING, "coordinators-unknown", error=error)
        return 0


class Rights:
    """What a user with a proven name may see."""

    def __init__(
        self,
        admins: Collection[str] = (),
        admin_groups: Collection[str] = (),
        coordinators: Coordinators | None = None,
    ) -> None:
        self._admins = frozenset(admins)
        self._groups = frozenset(admin_groups)
        self._coordinators = coordinators
        self._lock = threading.Lock()
        self._members: dict[str, tuple[float, bool]] = {}

    def of(self, user: str) -> Reader:
        """What ``user`` may see; may block."""
        if user in self._admins or (self._groups and self._is_member(user)):
            return Reader(user, user, administrator=True)
        accounts = self._coordinators.of(user) if self._coordinators is not None else ()
        return Reader(user, user, accounts=accounts)

    def of_uid(self, uid: int) -> Reader | None:
        """What the user with ``uid`` on this host may see, root and the daemon's own user
        everything; None: there is no such user. May block."""
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            return None
        if uid in (0, os.geteuid()):
            return Reader(name, name, administrator=True)
        return self.of(name)

    def _is_member(self, user: str) -> bool:
        now = time.monotonic()
        with self._lock:
            asked_at, member = self._members.get(user, (-GROUPS_S, False))
        if now - asked_at < GROUPS_S:
            return member
        member = not self._groups.isdisjoint(groups_of(user))
        with self._lock:
            if len(self._members) >= USERS_MAX:
                self._members.clear()
            self._members[user] = (now, member)
        return member


def groups_of(user: str) -> set[str]:
    """The names of the groups that this host knows ``user`` to be in; none of a user whom it does
    not know."""
    try:
        primary = pwd.getpwnam(user).pw_gid
    except KeyError:
        return set()
    names = set()
    for gid in os.getgrouplist(user, primary):
        try:
            names.add(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return names
