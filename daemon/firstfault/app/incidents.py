"""Incidents: opened where several jobs fail by one thing, told to the administrators once."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from firstfault.app.gathering import message_id
from firstfault.app.journal import say
from firstfault.app.slack_readers import ADMINS
from firstfault.config import Config
from firstfault.model import jobs as j
from firstfault.slurm.facts import FactsError
from firstfault.slurm.reservations import Reservation, maintenance
from firstfault.store import common_causes, messages
from firstfault.store.database import Database
from firstfault.store.messages import Place

Clock = Callable[[], dt.datetime]
_OLD_EVERY = dt.timedelta(hours=1)
_DAY = dt.timedelta(days=1)


class Incidents:
    """Looks for them. ``tells``: the administrators have a channel."""

    def __init__(self, database: Database, config: Config, *, tells: bool) -> None:
        self._database = database
        self._least = config.incidents.jobs
        self._within = dt.timedelta(seconds=config.incidents.within_s)
        self._quiet = dt.timedelta(seconds=config.incidents.quiet_s)
        self._kept = config.store.keep_verdicts_days * _DAY
        self._admins = config.slack.admins if tells else ""
        self._seen = -1
        self._look_at: dt.datetime | None = None
        self._removed_at: dt.datetime | None = None

    def once(self, now: dt.datetime) -> int:
        """One look; returns how many incidents were opened, or joined by jobs."""
        newest = common_causes.newest_sign(self._database)
        due = self._look_at is None or now >= self._look_at
        changed: Sequence[common_causes.Changed] = ()
        if newest != self._seen or due:
            changed = common_causes.update(
                self._database, now, self._least, self._within, self._quiet
            )
            self._seen, self._look_at = newest, now + dt.timedelta(seconds=30)
        for one in changed:
            messages.want(self._database, one.jobs, now)
            self._say(one)
        if self._admins:
            untold = common_causes.untold(self._database, ADMINS)
            for key in {*untold, *(one.key for one in changed)}:
                self._tell(key, now)
        self._remove_old(now)
        return len(changed)

    def _tell(self, key: int, now: dt.datetime) -> None:
        for incident in common_causes.listed(self._database, 1, key=key):
            if not self._is_silenced(incident, now):
                place = Place(ADMINS, self._admins, f"incident/{key}")
                messages.tell_incident(self._database, place, key, message_id(), now)

    def _is_silenced(self, incident: j.Incident, now: dt.datetime) -> bool:
        def silenced(kind: str, name: str) -> bool:
            names = [(kind, name)]
            found = common_causes.silenced(self._database, incident.cluster, names, now)
            return found is not None

        everywhere = incident.hosts and all(silenced(j.NODE, host) for host in incident.hosts)
        return silenced(incident.kind, incident.name) or bool(everywhere)

    def _say(self, changed: common_causes.Changed) -> None:
        for incident in common_causes.listed(self._database, 1, key=changed.key):
            known = {
                "incident": incident.key,
                "cluster": incident.cluster,
                "kind": incident.kind,
                "name": incident.name,
                "jobs": incident.jobs,
            }
            if changed.opened:
                say(logging.WARNING, "incident", **known)
            else:
                say(logging.INFO, "incident-grows", **known)

    def _remove_old(self, now: dt.datetime) -> None:
        if self._removed_at is not None and now < self._removed_at + _OLD_EVERY:
            return
        self._removed_at = now
        common_causes.remove_old(self._database, now - self._kept)
        messages.remove_old(self._database, now - self._kept)


class Reservations:
    """Keeps the nodes of maintenance reservations from the administrators while these last."""

    def __init__(self, database: Database, config: Config, scontrol: Path) -> None:
        self._database = database
        self._clusters = config.slurm.clusters or ("",)
        self._timeout_s = config.slurm.timeout_s
        self._scontrol = scontrol

    def once(self, now: dt.datetime) -> int:
        """Asks Slurm; how many nodes are in maintenance now."""
        count = 0
        for cluster in self._clusters:
            try:
                found = maintenance(self._scontrol, self._timeout_s, cluster)
            except FactsError as error:
                # What was known stays until it ends by itself.
                say(logging.WARNING, "reservations-unknown", cluster=cluster or None, error=error)
                continue
            wanted = silences(found, cluster or None, now)
            common_causes.reserve(self._database, cluster or None, wanted)
            count += len(wanted)
        return count


def silences(
    found: Sequence[Reservation], cluster: str | None, now: dt.datetime
) -> list[j.Silence]:
    """What the reservations that are in force keep from the administrators."""
    return [
        j.Silence(
            cluster=cluster,
            kind=j.NODE,
            name=node,
            until=reservation.end_at,
            said_by=f"the maintenance reservation {reservation.name}",
            reservation=reservation.name,
        )
        for reservation in found
        if reservation.start_at <= now < reservation.end_at
        for node in dict.fromkeys(reservation.nodes)
    ]
