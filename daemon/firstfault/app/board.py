"""What the dashboard, the API and the commands are answered, from the store."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from firstfault import __version__
from firstfault.app.node_states import Known
from firstfault.intake import spool
from firstfault.model import board as b
from firstfault.model import jobs as j
from firstfault.model.texts import storable
from firstfault.report.discretion import for_owner
from firstfault.report.masking import masked, masked_text
from firstfault.store import (
    backlog,
    common_causes,
    deliveries,
    failure_list,
    fingerprint_list,
    incidents,
    listing,
    names,
    one_failure,
    overview,
    silent,
    standing,
)
from firstfault.store.database import Database
from firstfault.store.overview import Counts

SHOWN_INCIDENTS = 100
SHOWN_DELIVERIES = 500
SHOWN_NODES = 10
SHOWN_FAILURES = 10
OF_A_NODE = 50
OFFERED = 200
# Counting all jobs, or a year of all nodes, takes a moment: for this long an answer is as good as new.
KEPT_S = 30.0

T = TypeVar("T")
Clock = Callable[[], dt.datetime]
_FIRST = dt.datetime.min.replace(tzinfo=dt.UTC)
_KEYS = range(1 << 63)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


class StoredBoard:
    """See `firstfault.model.board.Board`.

    ``channels`` are those that send now (in shadow mode none), ``folder`` is the spool, where
    there is one. ``states`` gives what Slurm says of nodes now, where it is asked.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock = _now,
        channels: Callable[[], Collection[str]] = tuple,
        healthy: Callable[[], bool] = lambda: True,
        folder: Path | None = None,
        states: Callable[[], Known] = dict,
    ) -> None:
        self._database = database
        self._clock = clock
        self._channels = channels
        self._healthy = healthy
        self._folder = folder
        self._states = states
        self._started_at = clock()
        self._kept = _Kept(clock)

    def overview(
        self,
        reader: b.Reader,
        since: dt.datetime,
        until: dt.datetime,
        cluster: str | None = None,
    ) -> b.Overview:
        """See `Board`."""
        step = overview.step_s(since, until)
        counts = self._counts(reader, since, until, cluster)
        before = since - min(until - since, since - _FIRST)
        newest = b.FailureFilter(since=since, until=until, cluster=cluster)
        return b.Overview(
            since=since,
            until=until,
            step_s=step,
            total=counts.total,
            before=overview.total(self._database, reader, before, since, cluster),
            domains=counts.domains,
            causes=counts.causes,
            slots=counts.slots,
            nodes=self._sick(reader, since, until, cluster),
            incidents=self.incidents(reader, only_open=True),
            newest=self.failures(reader, newest, limit=SHOWN_FAILURES).failures,
        )

    def failures(
        self,
        reader: b.Reader,
        which: b.FailureFilter,
        page: str | None = None,
        limit: int = 50,
    ) -> b.FailurePage:
        """See `Board`."""
        return failure_list.page(self._database, reader, which, page, limit)

    def failure(
        self, reader: b.Reader, cluster: str | None, job: str, incarnation: int | None = None
    ) -> b.FailureDetail | None:
        """See `Board`."""
        found = one_failure.found(self._database, reader, cluster, job, incarnation)
        if found is None:
            return None
        fingerprint = found.failure.fingerprint
        same: tuple[b.Failure, ...] = ()
        if fingerprint is not None:
            same = failure_list.same_failures(
                self._database, reader, fingerprint, found.key, SHOWN_FAILURES
            )
        fields = {name: getattr(found, name) for name in found.__struct_fields__ if name != "key"}
        if not reader.administrator:
            stored = found.stored
            fields["stored"] = replace(stored, verdict=for_owner(stored.verdict))
        return b.FailureDetail(**fields, same=same)

    def ends(self, reader: b.Reader, job: str) -> tuple[b.Failure, ...]:
        """See `Board`."""
        return one_failure.ends(self._database, reader, job)

    def evidence(
        self, reader: b.Reader, cluster: str | None, job: str, incarnation: int, node: str
    ) -> bytes | None:
        """See `Board`. Raises `firstfault.store.database.StoreError` for a damaged record."""
        record = one_failure.record(self._database, reader, cluster, job, incarnation, node)
        if record is None:
            return None
        return masked_text(record.decode("utf-8", "replace")).encode()

    def nodes(
        self,
        reader: b.Reader,
        since: dt.datetime,
        until: dt.datetime,
        cluster: str | None = None,
    ) -> tuple[b.NodeStanding, ...]:
        """See `Board`."""
        if not reader.administrator:
            return ()
        return self._in_slurm(self._standings(since, until, cluster, None))

    def node(
        self,
        reader: b.Reader,
        cluster: str | None,
        node: str,
        since: dt.datetime,
        until: dt.datetime,
    ) -> b.NodeDetail | None:
        """See `Board`."""
        if not reader.administrator:
            return None
        # Probabilities are those of all nodes: of one alone they could not be told.
        me = (storable(cluster or "") or None, storable(node))
        every = self._standings(since, until, None, None)
        mine = next((one for one in every if (one.cluster, one.node) == me), None)
        if mine is None:
            return None
        mine = standing.told(self._database, since, until, mine)
        of_node = b.FailureFilter(since=since, until=until, cluster=cluster, node=node)
        said = incidents.newest(self._database, since, storable(node))
        return b.NodeDetail(
            standing=self._in_slurm([mine])[0],
            incidents=tuple(one for one in said if one.cluster == cluster and one.at < until),
            failures=self.failures(reader, of_node, limit=OF_A_NODE).failures,
        )

    def causes(
        self, reader: b.Reader, since: dt.datetime, until: dt.datetime
    ) -> dict[str, b.Count]:
        """See `Board`."""
        counts = self._counts(reader, since, until, None)
        return {each.cause: each.count for each in counts.causes}

    def fingerprints(
        self, reader: b.Reader, page: str | None = None, limit: int = 50
    ) -> b.FingerprintPage:
        """See `Board`."""
        return fingerprint_list.page(self._database, reader, page, limit, self._clock())

    def fingerprint(self, reader: b.Reader, fingerprint: str) -> b.Fingerprint | None:
        """See `Board`."""
        return fingerprint_list.one(self._database, reader, fingerprint, self._clock())

    def note(self, reader: b.Reader, fingerprint: str, note: str | None) -> bool:
        """See `Board`."""
        return reader.administrator and fingerprint_list.note(
            self._database, fingerprint, note, reader.name, self._clock()
        )

    def incidents(self, reader: b.Reader, only_open: bool = False) -> tuple[j.Incident, ...]:
        """See `Board`."""
        if not reader.administrator:
            return ()
        found = common_causes.listed(
            self._database, SHOWN_INCIDENTS, only_open=only_open, keep=self._kept.get
        )
        return masked(tuple(found))

    def silences(self, reader: b.Reader) -> tuple[j.Silence, ...]:
        """See `Board`."""
        if not reader.administrator:
            return ()
        return tuple(common_causes.silences_now(self._database, self._clock()))

    def acknowledge(self, reader: b.Reader, key: int) -> bool:
        """See `Board`."""
        return (
            reader.administrator
            and key in _KEYS
            and common_causes.acknowledge(self._database, key, reader.name, self._clock())
        )

    def close(self, reader: b.Reader, key: int) -> bool:
        """See `Board`."""
        return (
            reader.administrator
            and key in _KEYS
            and common_causes.end(self._database, key, self._clock())
        )

    def silence(self, reader: b.Reader, key: int, until: dt.datetime) -> bool:
        """See `Board`."""
        if not reader.administrator or key not in _KEYS:
            return False
        for one in common_causes.listed(self._database, 1, key=key):
            wanted = j.Silence(one.cluster, one.kind, one.name, until, reader.name)
            common_causes.silence(self._database, wanted, self._clock())
            return True
        return False

    def deliveries(
        self, reader: b.Reader, state: str | None = None
    ) -> tuple[j.DeliveryStatus, ...]:
        """See `Board`."""
        if not reader.administrator:
            return ()
        states = [] if state is None else [storable(state)]
        found = deliveries.listed(self._database, SHOWN_DELIVERIES, states)
        return masked(tuple(found))

    def retry(self, reader: b.Reader, delivery_id: str) -> bool:
        """See `Board`."""
        channels = tuple(self._channels())
        if not reader.administrator or not channels:
            return False
        return (
            deliveries.retry(self._database, self._clock(), channels, [storable(delivery_id)]) == 1
        )

    def health(self, reader: b.Reader) -> b.Health | None:
        """See `Board`."""
        if not reader.administrator:
            return None
        kept = self._kept
        record_at, answer_at = silent.last_times(self._database)
        return b.Health(
            working=self._healthy(),
            version=__version__,
            started_at=self._started_at,
            store=self._database.engine.url.render_as_string(hide_password=True),
            store_bytes=backlog.size(self._database),
            states=kept.get("states", lambda: listing.states(self._database)),
            deliveries=kept.get("sent", lambda: silent.delivery_states(self._database)),
            quarantined=self._quarantined(),
            last_record_at=record_at,
            last_answer_at=answer_at,
            silent=kept.get("silent", lambda: silent.silent_nodes(self._database, self._clock())),
            waiting_since=backlog.unjudged_since(self._database),
        )

    def names(self, reader: b.Reader) -> b.Names:
        """See `Board`."""
        return self._kept.get("names", self._names) if reader.administrator else b.Names()

    def newest_at(self, reader: b.Reader) -> tuple[int, dt.datetime | None]:
        """See `Board`."""
        return one_failure.newest_at(self._database, reader)

    def close_store(self) -> None:
        """Closes the store's connections."""
        self._database.close()

    def _counts(
        self, reader: b.Reader, since: dt.datetime, until: dt.datetime, cluster: str | None
    ) -> Counts:
        step = overview.step_s(since, until)

        def ask() -> Counts:
            return overview.counts(self._database, reader, since, until, cluster, step)

        if step < overview.DAY_S:
            return ask()
        # Of a long time: what came within half a minute makes no difference to see.
        scope, span = replace(reader, name=""), f"{since:%Y%m%d%H%M} {until:%Y%m%d%H%M}"
        return self._kept.get(f"counts {span} {cluster} {scope}", ask)

    def _names(self) -> b.Names:
        kinds = ("cluster", "partition", "account", "user")
        with self._database.reading() as connection:
            return b.Names(*(names.of_kind(connection, kind, OFFERED) for kind in kinds))

    def _sick(
        self,
        reader: b.Reader,
        since: dt.datetime,
        until: dt.datetime,
        cluster: str | None,
    ) -> tuple[b.NodeStanding, ...]:
        if not reader.administrator:
            return ()
        found = self._standings(since, until, cluster, SHOWN_NODES)
        return self._in_slurm(tuple(one for one in found if one.initiated))

    def _in_slurm(self, found: Sequence[b.NodeStanding]) -> tuple[b.NodeStanding, ...]:
        states = self._states()
        if not states:
            return tuple(found)
        return tuple(
            one if said is None else replace(one, state=said.state, reason=said.reason)
            for one in found
            for said in [states.get((one.cluster, one.node))]
        )

    def _standings(
        self, since: dt.datetime, until: dt.datetime, cluster: str | None, most: int | None
    ) -> tuple[b.NodeStanding, ...]:
        # Whole days are counted: within a minute the answer is the same.
        name = f"nodes {since:%Y%m%d} {until:%Y%m%d} {most} {cluster}"
        return self._kept.get(
            name, lambda: standing.standings(self._database, since, until, cluster, most=most)
        )

    def _quarantined(self) -> int:
        if self._folder is None:
            return 0
        try:
            found = (self._folder / spool.QUARANTINE).iterdir()
            return sum(not path.name.endswith(".reason") for path in found)
        except OSError:
            return 0


class _Kept:
    """Answers that are the same for all who may ask, for `KEPT_S`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: dict[str, _Answer] = {}

    def get(self, name: str, ask: Callable[[], T]) -> T:
        """The answer by this name, asked for where there is none of late; by one at a time."""
        now = self._clock()
        with self._lock:
            old = [key for key, kept in self._answers.items() if kept.at < now - _OLD]
            for key in old:
                del self._answers[key]
            kept = self._answers.setdefault(name, _Answer(now))
        # Who asks something else does not wait for this.
        with kept.lock:
            now = self._clock()
            if not kept.given or not now - dt.timedelta(seconds=KEPT_S) <= kept.at <= now:
                kept.value, kept.at, kept.given = ask(), now, True
            return kept.value  # type: ignore[return-value]  # of the same question


class _Answer:
    def __init__(self, at: dt.datetime) -> None:
        self.lock = threading.Lock()
        self.at = at
        self.given = False
        self.value: object = None


_OLD = dt.timedelta(minutes=1)
