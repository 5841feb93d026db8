"""What the dashboard, the API and the commands read of all failures: questions and answers.

Frozen values only. `firstfault.app.board` answers them from the store; pages and API ask them and
know nothing of it. Every question names the `Reader` who asks: what they may not see is not in the
answer, and counts in no figure of it.
"""

from __future__ import annotations

import datetime as dt
from typing import Literal, Protocol

import msgspec

from firstfault.model.jobs import DeliveryStatus, Incident, NodeIncident, Silence, StoredVerdict
from firstfault.model.slurm import JobFacts


class Reader(msgspec.Struct, frozen=True):
    """Who asks. ``name`` is for logs and notes ("alice", "token grafana").

    An administrator sees everything; anyone else the jobs of ``user`` (their own, None: none) and
    of the ``accounts`` that they coordinate.
    """

    name: str = ""
    user: str | None = None
    administrator: bool = False
    accounts: tuple[str, ...] = ()

    def sees(self, user: str | None, account: str | None) -> bool:
        """True where a job of this user and account is theirs to see."""
        if self.administrator:
            return True
        return (user is not None and user == self.user) or (
            account is not None and account in self.accounts
        )


NOBODY = Reader()

Sort = Literal["-ended", "ended", "-lost", "-nodes"]


class FailureFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which failures; None does not restrict. All that are given must hold.

    ``cause`` is a cause's id, or a family with its dot ("gpu."). ``text`` is looked for in title,
    job name, user, host and cause, by whole words, all of which must be there; "the" and its like
    are passed over. ``node`` is any node of the job.
    Times are of the job's end: ``since`` <= end < ``until``.
    """

    since: dt.datetime | None = None
    until: dt.datetime | None = None
    cluster: str | None = None
    cause: str | None = None
    domain: str | None = None
    confidence: str | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    node: str | None = None
    name: str | None = None
    fingerprint: str | None = None
    text: str | None = None
    sort: Sort = "-ended"


class Failure(msgspec.Struct, frozen=True):
    """A line of the list of failures: one incarnation of a job, by its newest verdict.
    ``state`` is the job's way through the daemon ("judged", "delivered", "revised").

    ``node_s`` and ``gpu_s`` are what was lost: the seconds that the job ran times its nodes, and
    its GPUs; None where Slurm has not told.
    """

    cluster: str | None
    job: str
    incarnation: int
    state: str
    ended_at: dt.datetime
    cause: str
    domain: str | None
    confidence: str
    title: str
    nodes: int
    name: str | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    rank: int | None = None
    host: str | None = None
    fingerprint: str | None = None
    started_at: dt.datetime | None = None
    node_s: float | None = None
    gpu_s: float | None = None


class FailurePage(msgspec.Struct, frozen=True):
    """Some failures. ``next`` and ``previous`` ask for the page after and before, None: there is
    none. They are opaque, and hold for the same filter only."""

    failures: tuple[Failure, ...]
    next: str | None = None
    previous: str | None = None


class Count(msgspec.Struct, frozen=True):
    """How many failures, and what they cost. ``node_s`` and ``gpu_s`` sum those that are known."""

    failures: int = 0
    node_s: float = 0.0
    gpu_s: float = 0.0


class CauseCount(msgspec.Struct, frozen=True):
    """What one cause made. ``domain`` is the one that most of its failures had."""

    cause: str
    domain: str
    count: Count


class Slot(msgspec.Struct, frozen=True):
    """The failures that ended in one step of time, by domain ("user", "system", "either")."""

    at: dt.datetime
    domains: dict[str, int]
    causes: dict[str, int]


class NodeStanding(msgspec.Struct, frozen=True):
    """A node in the failures of a time.

    ``initiated`` failures of which the system may be at fault began on it, of ``took_part`` failed
    jobs that ran on it. ``expected`` is how many would have, were all nodes alike (each such
    failure begins on one of its job's nodes at random). ``low`` and ``high`` bound the share
    initiated / took_part (95 %). ``adjusted`` is the probability of so many by chance, corrected
    for looking at many nodes; ``suspect`` is True where it is below the board's level, of three
    failures or more, and of two users where the cause only may be the system's. Whole days of UTC
    are counted, those in which the time begins and ends too. ``last_at`` and ``causes`` are of the
    failures that began on it, and told of the first hundred nodes. ``state`` is Slurm's present word for the node, None where nobody asked.
    """

    node: str
    cluster: str | None
    initiated: int
    took_part: int
    expected: float
    low: float
    high: float
    adjusted: float
    suspect: bool
    last_at: dt.datetime | None = None
    causes: tuple[tuple[str, int], ...] = ()
    state: str | None = None
    reason: str | None = None


class Overview(msgspec.Struct, frozen=True):
    """The cluster at a glance. ``slots`` are without gaps, each ``step_s`` long, the oldest
    first."""

    since: dt.datetime
    until: dt.datetime
    step_s: int
    total: Count
    before: Count
    domains: dict[str, Count]
    causes: tuple[CauseCount, ...]
    slots: tuple[Slot, ...]
    nodes: tuple[NodeStanding, ...]
    incidents: tuple[Incident, ...]
    newest: tuple[Failure, ...]


class Names(msgspec.Struct, frozen=True):
    """What failed jobs are called by, for a field to offer: some of each, by the alphabet."""

    clusters: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


class Fingerprint(msgspec.Struct, frozen=True):
    """The same failure again and again.

    ``fresh``: first seen within the last seven days. ``back``: seen within the last seven days,
    after thirty days or more without. ``note`` is what somebody knows of it, None: nobody said.
    """

    fingerprint: str
    cause: str
    title: str
    first_at: dt.datetime
    last_at: dt.datetime
    failures: int
    users: int
    fresh: bool = False
    back: bool = False
    note: str | None = None
    noted_by: str | None = None
    noted_at: dt.datetime | None = None


class FingerprintPage(msgspec.Struct, frozen=True):
    """Some fingerprints, the last seen first; ``next`` as in `FailurePage`."""

    fingerprints: tuple[Fingerprint, ...]
    next: str | None = None


class FailureDetail(msgspec.Struct, frozen=True):
    """One failure with all that is stored of it. ``stored`` is the newest verdict, ``history``
    all revisions, the newest first: (revision, made at, cause, confidence, title).
    ``evidence`` is (node, ended at, bytes), empty for those who may not see it."""

    failure: Failure
    stored: StoredVerdict
    facts: JobFacts | None
    history: tuple[tuple[int, dt.datetime, str, str, str | None], ...]
    deliveries: tuple[DeliveryStatus, ...]
    same: tuple[Failure, ...]
    evidence: tuple[tuple[str, dt.datetime, int], ...]


class NodeDetail(msgspec.Struct, frozen=True):
    """One node: its standing, what verdicts said of it, and the failed jobs that ran on it."""

    standing: NodeStanding
    incidents: tuple[NodeIncident, ...]
    failures: tuple[Failure, ...]


class SilentNode(msgspec.Struct, frozen=True):
    """A node that sends nothing though jobs ended on it: ``ended`` of them since its last record
    (None: it never sent one)."""

    node: str
    cluster: str | None
    last_at: dt.datetime | None
    ended: int


class Health(msgspec.Struct, frozen=True):
    """How firstfault itself does. ``working`` is what /healthz says; ``states`` counts jobs,
    ``deliveries`` the outbox, ``quarantined`` the records that could not be read.
    ``waiting_since`` is when the first of the jobs was seen that have no verdict yet."""

    working: bool
    version: str
    started_at: dt.datetime
    store: str
    store_bytes: int | None
    states: dict[str, int]
    deliveries: dict[str, int]
    quarantined: int
    last_record_at: dt.datetime | None
    last_answer_at: dt.datetime | None
    silent: tuple[SilentNode, ...]
    waiting_since: dt.datetime | None = None


class Board(Protocol):
    """Where pages, API and commands read. All methods may block; times are aware UTC.

    What a reader may not see is answered as what does not exist: None, or left out.
    """

    def overview(
        self, reader: Reader, since: dt.datetime, until: dt.datetime, cluster: str | None = None
    ) -> Overview:
        """The failures that ended in a time, with as long a time before it to compare."""

    def failures(
        self, reader: Reader, which: FailureFilter, page: str | None = None, limit: int = 50
    ) -> FailurePage:
        """A page of failures; ``page`` is `FailurePage.next` or ``previous``.

        Raises `ValueError` for a ``page`` that is none.
        """

    def failure(
        self, reader: Reader, cluster: str | None, job: str, incarnation: int | None = None
    ) -> FailureDetail | None:
        """One failure (the newest incarnation where none is named)."""

    def ends(self, reader: Reader, job: str) -> tuple[Failure, ...]:
        """Every failed end of jobs of this number, on any cluster, the newest first."""

    def evidence(
        self, reader: Reader, cluster: str | None, job: str, incarnation: int, node: str
    ) -> bytes | None:
        """A node's record of a failure, JSON, masked; for administrators: a node's kernel log
        tells of other users' processes, too."""

    def nodes(
        self, reader: Reader, since: dt.datetime, until: dt.datetime, cluster: str | None = None
    ) -> tuple[NodeStanding, ...]:
        """Nodes of failed jobs, the most suspicious first; for administrators (else empty)."""

    def node(
        self, reader: Reader, cluster: str | None, node: str, since: dt.datetime, until: dt.datetime
    ) -> NodeDetail | None:
        """One node; for administrators."""

    def causes(self, reader: Reader, since: dt.datetime, until: dt.datetime) -> dict[str, Count]:
        """How often each cause was met."""

    def fingerprints(
        self, reader: Reader, page: str | None = None, limit: int = 50
    ) -> FingerprintPage:
        """Fingerprints, those last seen first."""

    def fingerprint(self, reader: Reader, fingerprint: str) -> Fingerprint | None:
        """One fingerprint."""

    def note(self, reader: Reader, fingerprint: str, note: str | None) -> bool:
        """Marks a fingerprint as known (None: not any more); for administrators. False: absent."""

    def incidents(self, reader: Reader, only_open: bool = False) -> tuple[Incident, ...]:
        """The newest incidents; for administrators (else empty)."""

    def silences(self, reader: Reader) -> tuple[Silence, ...]:
        """The silences in force; for administrators (else empty)."""

    def acknowledge(self, reader: Reader, key: int) -> bool:
        """The reader takes care of an incident; for administrators. False: no such one is open."""

    def close(self, reader: Reader, key: int) -> bool:
        """Ends an incident; for administrators."""

    def silence(self, reader: Reader, key: int, until: dt.datetime) -> bool:
        """Silences what an incident is about; for administrators."""

    def deliveries(self, reader: Reader, state: str | None = None) -> tuple[DeliveryStatus, ...]:
        """The outbox, the newest first; for administrators (else empty)."""

    def retry(self, reader: Reader, delivery_id: str) -> bool:
        """Sends a dead letter again; for administrators. False: it is none."""

    def health(self, reader: Reader) -> Health | None:
        """How firstfault does; for administrators."""

    def names(self, reader: Reader) -> Names:
        """The names that there are; for administrators (else none)."""

    def newest_at(self, reader: Reader) -> tuple[int, dt.datetime | None]:
        """A number that changes with each new or revised verdict, and when the last was made."""
