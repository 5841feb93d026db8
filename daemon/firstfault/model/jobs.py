"""A job as the daemon keeps it: what the store gives and the pages, posts and judge are given."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import msgspec

from firstfault.model.slurm import JobFacts
from firstfault.model.verdict import Verdict

# A job's way through the daemon; docs/daemon.md draws it.
SEEN = "seen"
COLLECTING = "collecting"
SETTLED = "settled"
JUDGED = "judged"
DELIVERED = "delivered"
REVISED = "revised"

# What may follow a state, beside staying in it. A job begins as seen.
TRANSITIONS: Mapping[str, frozenset[str]] = {
    SEEN: frozenset({COLLECTING, SETTLED, JUDGED}),
    COLLECTING: frozenset({SETTLED, JUDGED}),
    SETTLED: frozenset({JUDGED}),
    JUDGED: frozenset({DELIVERED, REVISED}),
    DELIVERED: frozenset({JUDGED}),
    REVISED: frozenset({JUDGED}),
}

# Jobs in these wait for nothing, unless they are due all the same.
CLOSED = frozenset({JUDGED, DELIVERED, REVISED})


class StateError(ValueError):
    """A state that cannot follow the one that a job is in."""


def moved(before: str, after: str) -> str:
    """``after``, where a job that is in the state ``before`` may be in it next.

    Raises `StateError`.
    """
    if after != before and after not in TRANSITIONS[before]:
        raise StateError(f"a job that is {before} cannot become {after}")
    return after


# A delivery's way.
PENDING = "pending"
SENT = "sent"
DEAD = "dead"
SUPERSEDED = "superseded"
SHADOW = "shadow"


class Incoming(msgspec.Struct, frozen=True):
    """A valid record on its way into the store.

    ``body`` is its JSON as it came, gzip as a rule, and ``size`` its bytes without compression.
    ``nodes`` is the job's node list, expanded; ``run`` is what tells this incarnation of the
    job from another (SLUID, else start time), None where the node did not know. Of a heterogeneous
    job ``job`` is the leader's id, ``component`` the component's own, and ``nodes`` are its nodes.
    """

    record_id: str
    cluster: str | None
    job: str
    node: str
    ended_at: dt.datetime
    nodes: tuple[str, ...]
    node_list: str | None
    run: str | None
    suspicious: bool
    body: bytes
    size: int
    component: str | None = None


class JobStatus(msgspec.Struct, frozen=True):
    """Where one incarnation of a job stands; ``key`` is the store's own number for it.

    Revisions count changes: of the evidence, of Slurm's facts, and of the verdict (0: none
    yet). ``facts_closed`` is True when Slurm will not be asked any more, whether it answered
    or not. ``suspicious`` is True when a node saw anything but a clean end. ``posted`` is the
    last verdict revision for which deliveries were made. ``components`` counts those of a
    heterogeneous job that have reported, 0 for any other; how many it has is not told to nodes.
    ``emptied_at`` is when its evidence was given up by age or size: the verdict stands then.
    """

    key: int
    cluster: str | None
    job: str
    incarnation: int
    state: str
    nodes_expected: int
    nodes_reported: int
    first_ended_at: dt.datetime
    last_ended_at: dt.datetime
    first_seen_at: dt.datetime
    settled_at: dt.datetime | None
    evidence_revision: int
    facts_revision: int
    judged_evidence: int
    judged_facts: int
    tried_at: dt.datetime | None
    facts: JobFacts | None
    facts_asked: int
    facts_closed: bool
    suspicious: bool
    verdict_revision: int
    posted: int
    components: int = 0
    emptied_at: dt.datetime | None = None


class StoredVerdict(msgspec.Struct, frozen=True):
    """One revision of a job's verdict."""

    cluster: str | None
    job: str
    incarnation: int
    revision: int
    created_at: dt.datetime
    verdict: Verdict


class Delivery(msgspec.Struct, frozen=True):
    """One message to be sent: this revision of the verdict, by this channel.

    ``previous`` is the verdict that the same channel sent last for this job, None if none;
    ``job_key`` is the store's number for the job.
    """

    key: int
    delivery_id: str
    channel: str
    attempts: int
    current: StoredVerdict
    previous: Verdict | None = None
    job_key: int = 0


class DeliveryStatus(msgspec.Struct, frozen=True):
    """A row of the outbox, for people. ``next_at`` is None where it is not tried again."""

    delivery_id: str
    cluster: str | None
    job: str
    revision: int
    channel: str
    state: str
    attempts: int
    created_at: dt.datetime
    next_at: dt.datetime | None
    sent_at: dt.datetime | None
    error: str | None


# What a node was in a failure.
INITIATOR = "initiator"
TOOK_PART = "took-part"


class NodeIncident(msgspec.Struct, frozen=True):
    """A failure whose cause may lie in the system, seen from a node that its verdict names.

    ``role`` is "initiator" for the host of the first failure, "took-part" for hosts that failed
    alike or may have been first. ``domain`` is "system" or "either".
    """

    node: str
    cluster: str | None
    job: str
    incarnation: int
    at: dt.datetime
    role: str
    cause: str
    domain: str
    confidence: str


# What several jobs may have in common, the narrowest first.
FILE_SYSTEM = "file-system"
NODE = "node"
CAUSE = "cause"
KINDS = (FILE_SYSTEM, NODE, CAUSE)


class Incident(msgspec.Struct, frozen=True):
    """Failures of several jobs (``jobs`` of them) by the same node, file system or cause.

    ``names`` are the newest jobs', ``causes`` are counted; ``ended_at`` None: it goes on.
    """

    key: int
    cluster: str | None
    kind: str
    name: str
    opened_at: dt.datetime
    last_at: dt.datetime
    ended_at: dt.datetime | None
    acknowledged_by: str | None
    jobs: int
    names: tuple[str, ...] = ()
    causes: tuple[tuple[str, int], ...] = ()
    hosts: tuple[str, ...] = ()


class Silence(msgspec.Struct, frozen=True):
    """The administrators hear nothing of what this names. ``reservation`` "": somebody said so."""

    cluster: str | None
    kind: str
    name: str
    until: dt.datetime
    said_by: str
    reservation: str = ""
