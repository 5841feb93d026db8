"""What the API answers, where it is not a value of `firstfault.model.board` as it stands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Annotated

import msgspec

from firstfault.model import board as b
from firstfault.model import jobs as j
from firstfault.model.explained import Kept
from firstfault.model.slurm import JobFacts
from firstfault.model.verdict import Verdict

LONGEST_NOTE = 2000
NO_COUNT = b.Count()
_NOTE = r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]+$"


class Failures(msgspec.Struct, frozen=True):
    """Some failures. ``next`` and ``previous`` are the addresses of the pages after and before
    (with the same filter), null where there is none."""

    failures: tuple[b.Failure, ...]
    next: str | None
    previous: str | None


class Ends(msgspec.Struct, frozen=True):
    """Every failed end of jobs of one number, on any cluster, the newest first."""

    failures: tuple[b.Failure, ...]


class Revision(msgspec.Struct, frozen=True):
    """A verdict that was made of a failure, in short."""

    revision: int
    created_at: dt.datetime
    cause: str
    confidence: str
    title: str | None


class Record(msgspec.Struct, frozen=True):
    """What a node sent of a failure; ``href`` is the address of the record itself."""

    node: str
    ended_at: dt.datetime
    bytes: int
    href: str


class FailureDetail(msgspec.Struct, frozen=True):
    """One failure with all that is stored of it. ``facts`` is what Slurm says, null while it has
    not answered; ``history`` and ``same`` (other failures of this fingerprint) are the newest
    first."""

    failure: b.Failure
    revision: int
    created_at: dt.datetime
    verdict: Verdict
    facts: JobFacts | None
    history: tuple[Revision, ...]
    deliveries: tuple[j.DeliveryStatus, ...]
    same: tuple[b.Failure, ...]
    evidence: tuple[Record, ...]


class Node(msgspec.Struct, frozen=True):
    """A node in the failures of a time.

    ``initiated`` failures of which the system may be at fault began on it, of ``took_part`` failed
    jobs that ran on it; ``expected`` is how many would have, were all nodes alike. ``low`` and
    ``high`` bound the share (95 %). ``adjusted`` is the probability of so many by chance, corrected
    for looking at many nodes; ``suspect`` where that is small. ``causes`` counts failures.
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
    last_at: dt.datetime | None
    causes: dict[str, int]
    state: str | None
    reason: str | None


class Nodes(msgspec.Struct, frozen=True):
    """The nodes of failed jobs, the most suspicious first."""

    since: dt.datetime
    until: dt.datetime
    nodes: tuple[Node, ...]


class NodeDetail(msgspec.Struct, frozen=True):
    """One node: its standing, what verdicts said of it, and the failed jobs that ran on it."""

    standing: Node
    incidents: tuple[j.NodeIncident, ...]
    failures: tuple[b.Failure, ...]


class Incident(msgspec.Struct, frozen=True):
    """Failures of ``jobs`` jobs by the same node, file system or cause. ``names`` are the newest
    jobs', ``causes`` counts them; ``ended_at`` null: it goes on."""

    key: int
    cluster: str | None
    kind: str
    name: str
    opened_at: dt.datetime
    last_at: dt.datetime
    ended_at: dt.datetime | None
    acknowledged_by: str | None
    jobs: int
    names: tuple[str, ...]
    causes: dict[str, int]
    hosts: tuple[str, ...]


class Incidents(msgspec.Struct, frozen=True):
    """Incidents, the newest first."""

    incidents: tuple[Incident, ...]


class Silences(msgspec.Struct, frozen=True):
    """The silences in force."""

    silences: tuple[j.Silence, ...]


class Deliveries(msgspec.Struct, frozen=True):
    """Rows of the outbox, the newest first."""

    deliveries: tuple[j.DeliveryStatus, ...]


class Overview(msgspec.Struct, frozen=True):
    """The cluster at a glance. ``before`` counts a time as long before ``since``; ``slots`` are
    without gaps, each ``step_s`` long, the oldest first."""

    since: dt.datetime
    until: dt.datetime
    step_s: int
    total: b.Count
    before: b.Count
    domains: dict[str, b.Count]
    causes: tuple[b.CauseCount, ...]
    slots: tuple[b.Slot, ...]
    nodes: tuple[Node, ...]
    incidents: tuple[Incident, ...]
    newest: tuple[b.Failure, ...]


class Cause(msgspec.Struct, frozen=True):
    """A cause of the knowledge base, and what it made here."""

    id: str
    title: str
    domain: str
    count: b.Count


class Causes(msgspec.Struct, frozen=True):
    """Every cause, the one that made most failures first."""

    since: dt.datetime
    until: dt.datetime
    causes: tuple[Cause, ...]


class Fingerprints(msgspec.Struct, frozen=True):
    """Some fingerprints, those last seen first; ``next`` is the address of the page after."""

    fingerprints: tuple[b.Fingerprint, ...]
    next: str | None


class Explanation(msgspec.Struct, frozen=True):
    """The verdict on logs that were sent, what could not be read of them, and as what the report
    is ``kept``, null: it is not."""

    verdict: Verdict
    warnings: tuple[str, ...]
    kept: Kept | None


class KeptReports(msgspec.Struct, frozen=True):
    """Kept reports, the newest first; ``next`` is the address of the page after."""

    reports: tuple[Kept, ...]
    next: str | None


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a fingerprint; null: nothing any more."""

    note: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NOTE, pattern=_NOTE)] | None


class Until(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Until when it is silent."""

    until: Annotated[dt.datetime, msgspec.Meta(tz=True)]


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty object: that a program asks for the change, and no form of a foreign page."""


class Done(msgspec.Struct, frozen=True):
    """It was done; ``by`` is whose name stands there now."""

    done: bool
    by: str


def node(standing: b.NodeStanding) -> Node:
    """The node of a standing."""
    fields = msgspec.structs.asdict(standing)
    return Node(**fields | {"causes": dict(standing.causes)})


def incident(stored: j.Incident) -> Incident:
    """The incident as the API tells it."""
    return Incident(**msgspec.structs.asdict(stored) | {"causes": dict(stored.causes)})


def overview(found: b.Overview) -> Overview:
    """The overview as the API tells it."""
    fields = msgspec.structs.asdict(found)
    fields["nodes"] = tuple(map(node, found.nodes))
    fields["incidents"] = tuple(map(incident, found.incidents))
    return Overview(**fields)


def detail(found: b.FailureDetail, hrefs: Sequence[str]) -> FailureDetail:
    """The failure as the API tells it; ``hrefs`` are the addresses of its records."""
    return FailureDetail(
        failure=found.failure,
        revision=found.stored.revision,
        created_at=found.stored.created_at,
        verdict=found.stored.verdict,
        facts=found.facts,
        history=tuple(Revision(*each) for each in found.history),
        deliveries=found.deliveries,
        same=found.same,
        evidence=tuple(
            Record(*each, href) for each, href in zip(found.evidence, hrefs, strict=True)
        ),
    )
