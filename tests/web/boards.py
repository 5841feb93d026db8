"""A board of a few hundred varied failures, for whoever shows them.

``board(folder)`` is what the pages are given in the daemon; its answers are the same in each run.
The failures are those of `ENDS`, the newest a little before `NOW`.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec

from firstfault.app.board import StoredBoard
from firstfault.model import board as b
from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.model.slurm import JobFacts
from firstfault.store.database import open_store
from firstfault.store.failures import words_of
from tests.report import verdicts
from tests.store.fill import failed

NOW = dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC)
HOSTILE = "<script>alert(1)</script> *b* <!channel> \"'=1+1;--\x1b[31m\u202e"

ADMINISTRATOR = b.Reader("root", administrator=True)
# Her jobs are in the account "vision"; bob coordinates that account.
ALICE = b.Reader("alice", user="alice")
BOB = b.Reader("bob", user="bob", accounts=("vision",))
STRANGER = b.Reader("mallory", user="mallory")

_USERS = (
    ("alice", "vision"),
    ("bob", "vision"),
    ("carol", "language"),
    ("dave", "language"),
    ("erin", "weather"),
)
_CAUSES = (
    ("memory.cgroup-oom", "user", "Rank {r} on {h} was killed: the job's memory limit was full"),
    ("python.exception", "user", "Rank {r} on {h} raised ValueError: shapes do not match"),
    ("memory.gpu-oom", "user", "Rank {r} on {h} ran out of GPU memory"),
    ("gpu.ecc", "system", "A GPU of {h} reported an uncorrectable memory error"),
    ("gpu.bus-lost", "system", "A GPU of {h} fell off the bus"),
    ("collective.network", "either", "Rank {r} on {h} lost the network"),
    ("storage.quota", "user", "Rank {r} on {h} found its quota full"),
    ("slurm.time-limit", "user", "The job reached its time limit"),
    ("process.segfault", "either", "Rank {r} on {h} crashed in libc.so.6"),
    ("unknown", "either", "What failed first is not known"),
)
_CONFIDENCES = (v.CONFIRMED, v.CONFIRMED, v.LIKELY, v.POSSIBLE)


class End(NamedTuple):
    """A job that failed: what Slurm says of it, the nodes it ran on, and its verdict."""

    facts: JobFacts
    nodes: tuple[str, ...]
    verdict: v.Verdict
    at: dt.datetime


def _made(number: int, of: random.Random) -> End:
    user, account = of.choices(_USERS, (5, 1, 3, 2, 1))[0]
    cause, domain, title = of.choices(_CAUSES, (9, 8, 5, 2, 2, 3, 1, 4, 2, 2))[0]
    cluster = "main" if number % 5 else "small"
    size = of.choice((1, 2, 4, 4, 8, 16))
    first = of.randrange(1, 41 - size)
    nodes = tuple(f"n{index:02d}" for index in range(first, first + size))
    # n07 is the sick one.
    host = "n07" if domain == "system" and "n07" in nodes else of.choice(nodes)
    rank = nodes.index(host) * 8 + of.randrange(8)
    at = NOW - dt.timedelta(seconds=of.expovariate(1 / (9 * 86400)) + number % 7)
    known = cause not in ("unknown", "slurm.time-limit")
    ran = dt.timedelta(seconds=of.randrange(60, 3 * 86400))
    facts = JobFacts(
        id=str(1000 + number),
        cluster=cluster,
        name=HOSTILE if number == 3 else of.choice(("train-7b", "finetune", "sweep_lr", "eval")),
        user=user,
        account=account,
        partition=of.choice(("gpu", "gpu", "long")),
        state="FAILED",
        nodes=",".join(nodes),
        started_at=at - ran,
        ended_at=at,
        gpus=8 * size,
    )
    verdict = v.Verdict(
        job=v.Job(cluster, facts.id, None, facts.name, user, "FAILED", size, size * 8),
        cause=v.Cause(
            cause,
            HOSTILE if number == 3 else title.format(r=rank, h=host),
            domain,
            of.choice(_CONFIDENCES) if cause != "unknown" else v.UNKNOWN,
        ),
        initiator=v.Initiator(rank=rank, host=host, latest=at, confidence=v.LIKELY)
        if known
        else v.Initiator(),
        fingerprint=None if cause == "unknown" else f"1:{cause}:{of.randrange(4):04x}",
    )
    return End(facts, nodes, verdict, at)


def _of_example(number: int, verdict: v.Verdict) -> End:
    """The example verdicts of the reports, as jobs 1 and on of alice."""
    at = NOW - dt.timedelta(minutes=5 * number)
    nodes = ("n1", "n2", "n3", "n4")
    job = msgspec.structs.replace(verdict.job, cluster="main", id=str(number))
    facts = JobFacts(
        id=str(number),
        cluster="main",
        name=job.name,
        user="alice",
        account="vision",
        partition="gpu",
        state=job.state or "FAILED",
        nodes="n[1-4]",
        started_at=at - dt.timedelta(hours=5),
        ended_at=at,
        gpus=32,
    )
    verdict = msgspec.structs.replace(
        verdict, job=job, fingerprint=verdict.fingerprint or f"1:example:{number}"
    )
    return End(facts, nodes, verdict, at)


def ends(count: int = 400) -> list[End]:
    """The example verdicts of the reports, and ``count`` that are made up; the same each time."""
    of = random.Random(7)
    shown = [
        _of_example(number, verdict)
        for number, verdict in enumerate(verdicts.EXAMPLES.values(), 1)
        if verdict.cause.id != "none"
    ]
    return shown + [_made(number, of) for number in range(count)]


ENDS = ends()


def board(folder: Path) -> b.Board:
    """A board over all of `ENDS`; ``folder`` is for what it keeps."""
    return Remembered(ENDS)


def stored(url: str) -> StoredBoard:
    """The board over a store at ``url``, which is filled with all of `ENDS`."""
    database = open_store(url)
    failed(database, [(end.facts, len(end.nodes), end.verdict) for end in ENDS])
    return StoredBoard(database, clock=lambda: NOW)


def _failure(end: End) -> b.Failure:
    facts, cause, first = end.facts, end.verdict.cause, end.verdict.initiator
    assert facts.started_at is not None
    node_s = float(round((end.at - facts.started_at).total_seconds()) * len(end.nodes))
    return b.Failure(
        cluster=facts.cluster,
        job=facts.id,
        incarnation=1,
        state=j.DELIVERED,
        ended_at=end.at,
        cause=cause.id,
        domain=cause.domain,
        confidence=cause.confidence,
        title=cause.title,
        nodes=len(end.nodes),
        name=facts.name,
        user=facts.user,
        account=facts.account,
        partition=facts.partition,
        rank=first.rank,
        host=first.host,
        fingerprint=end.verdict.fingerprint,
        started_at=facts.started_at,
        node_s=node_s,
        gpu_s=node_s * 8,
    )


def _sum(found: list[b.Failure]) -> b.Count:
    return b.Count(
        len(found), sum(one.node_s or 0 for one in found), sum(one.gpu_s or 0 for one in found)
    )


class Remembered:
    """The board of a list: every question is asked of all of it."""

    def __init__(self, known: list[End]) -> None:
        self._ends = sorted(known, key=lambda end: end.at, reverse=True)
        self._notes: dict[str, tuple[str, str, dt.datetime]] = {}

    def _seen(self, reader: b.Reader) -> list[tuple[End, b.Failure]]:
        return [
            (end, _failure(end))
            for end in self._ends
            if reader.sees(end.facts.user, end.facts.account)
        ]

    def _within(
        self, reader: b.Reader, since: dt.datetime, until: dt.datetime, cluster: str | None = None
    ) -> list[tuple[End, b.Failure]]:
        return [
            (end, one)
            for end, one in self._seen(reader)
            if since <= one.ended_at < until and cluster in (None, one.cluster)
        ]

    def overview(
        self, reader: b.Reader, since: dt.datetime, until: dt.datetime, cluster: str | None = None
    ) -> b.Overview:
        found = [one for _, one in self._within(reader, since, until, cluster)]
        before = [one for _, one in self._within(reader, since - (until - since), since, cluster)]
        step_s = 3600 if until - since <= dt.timedelta(days=3) else 86400
        slots, at = [], since
        while at < until:
            end = at + dt.timedelta(seconds=step_s)
            inside = [one for one in found if at <= one.ended_at < end]
            slots.append(
                b.Slot(
                    at,
                    dict(Counter(one.domain or "either" for one in inside)),
                    dict(Counter(one.cause for one in inside)),
                )
            )
            at = end
        by_domain: dict[str, list[b.Failure]] = {}
        by_cause: dict[str, list[b.Failure]] = {}
        for one in found:
            by_domain.setdefault(one.domain or "either", []).append(one)
            by_cause.setdefault(one.cause, []).append(one)
        causes = [
            b.CauseCount(
                cause, Counter(o.domain or "" for o in those).most_common(1)[0][0], _sum(those)
            )
            for cause, those in by_cause.items()
        ]
        return b.Overview(
            since,
            until,
            step_s,
            _sum(found),
            _sum(before),
            {domain: _sum(those) for domain, those in by_domain.items()},
            tuple(sorted(causes, key=lambda each: -each.count.failures)),
            tuple(slots),
            tuple(each for each in self.nodes(reader, since, until, cluster) if each.suspect),
            self.incidents(reader, only_open=True),
            tuple(found[:10]),
        )

    def failures(
        self,
        reader: b.Reader,
        which: b.FailureFilter,
        page: str | None = None,
        limit: int = 50,
    ) -> b.FailurePage:
        found = [one for end, one in self._seen(reader) if _meets(end, one, which)]
        if which.sort == "ended":
            found.reverse()
        elif which.sort == "-lost":
            found.sort(key=lambda one: -(one.node_s or 0))
        elif which.sort == "-nodes":
            found.sort(key=lambda one: -one.nodes)
        start = 0
        if page is not None:
            if not page.isdigit():
                raise ValueError("not a page of failures")
            start = int(page)
        end = start + limit
        return b.FailurePage(
            tuple(found[start:end]),
            str(end) if end < len(found) else None,
            str(max(0, start - limit)) if start else None,
        )

    def failure(
        self, reader: b.Reader, cluster: str | None, job: str, incarnation: int | None = None
    ) -> b.FailureDetail | None:
        for end, one in self._seen(reader):
            if (one.cluster, one.job) == (cluster, job) and incarnation in (None, 1):
                cause = end.verdict.cause
                made_at = end.at + dt.timedelta(seconds=4)
                delivery = j.DeliveryStatus(
                    f"d{job}", cluster, job, 1, "slack", j.SENT, 1, made_at, None, made_at, None
                )
                same = [
                    other
                    for _, other in self._seen(reader)
                    if other.fingerprint == one.fingerprint and other.job != job
                ]
                evidence = tuple((node, end.at, 4000) for node in end.nodes)
                return b.FailureDetail(
                    one,
                    j.StoredVerdict(cluster, job, 1, 1, made_at, end.verdict),
                    end.facts,
                    ((1, made_at, cause.id, cause.confidence, cause.title),),
                    (delivery,) if reader.administrator else (),
                    tuple(same[:10]),
                    evidence if reader.administrator else (),
                )
        return None

    def ends(self, reader: b.Reader, job: str) -> tuple[b.Failure, ...]:
        return tuple(one for _, one in self._seen(reader) if one.job == job)

    def evidence(
        self, reader: b.Reader, cluster: str | None, job: str, incarnation: int, node: str
    ) -> bytes | None:
        detail = self.failure(reader, cluster, job, incarnation)
        if detail is None or node not in {each[0] for each in detail.evidence}:
            return None
        return b'{"schema": "firstfault.evidence/1"}'

    def nodes(
        self, reader: b.Reader, since: dt.datetime, until: dt.datetime, cluster: str | None = None
    ) -> tuple[b.NodeStanding, ...]:
        if not reader.administrator:
            return ()
        standings: dict[tuple[str | None, str], list[tuple[End, b.Failure]]] = {}
        for end, one in self._within(reader, since, until, cluster):
            for node in end.nodes:
                standings.setdefault((one.cluster, node), []).append((end, one))
        made = []
        for (of, node), those in standings.items():
            began = [one for _, one in those if one.host == node and one.domain != "user"]
            share = len(began) / len(those)
            made.append(
                b.NodeStanding(
                    node,
                    of,
                    len(began),
                    len(those),
                    sum(1 / one.nodes for _, one in those if one.domain != "user"),
                    max(0.0, share - 0.1),
                    min(1.0, share + 0.1),
                    0.0001 if node == "n07" else 1.0,
                    node == "n07",
                    those[0][1].ended_at,
                    tuple(Counter(one.cause for one in began).most_common(5)),
                )
            )
        return tuple(sorted(made, key=lambda each: (each.adjusted, -each.initiated, each.node)))

    def node(
        self,
        reader: b.Reader,
        cluster: str | None,
        node: str,
        since: dt.datetime,
        until: dt.datetime,
    ) -> b.NodeDetail | None:
        for each in self.nodes(reader, since, until):
            if (each.cluster, each.node) == (cluster, node):
                those = [
                    one
                    for end, one in self._within(reader, since, until, cluster)
                    if node in end.nodes
                ]
                incidents = tuple(
                    j.NodeIncident(
                        node, cluster, one.job, 1, one.ended_at, j.INITIATOR, one.cause,
                        one.domain or "either", one.confidence,
                    )
                    for one in those
                    if one.host == node and one.domain != "user"
                )  # fmt: skip
                return b.NodeDetail(each, incidents, tuple(those[:50]))
        return None

    def causes(
        self, reader: b.Reader, since: dt.datetime, until: dt.datetime
    ) -> dict[str, b.Count]:
        return {each.cause: each.count for each in self.overview(reader, since, until).causes}

    def fingerprints(
        self, reader: b.Reader, page: str | None = None, limit: int = 50
    ) -> b.FingerprintPage:
        known: dict[str, list[b.Failure]] = {}
        for _, one in self._seen(reader):
            if one.fingerprint is not None:
                known.setdefault(one.fingerprint, []).append(one)
        week = NOW - dt.timedelta(days=7)
        made = []
        for fingerprint, those in known.items():
            note, by, at = self._notes.get(fingerprint, (None, None, None))
            made.append(
                b.Fingerprint(
                    fingerprint,
                    those[0].cause,
                    those[0].title,
                    those[-1].ended_at,
                    those[0].ended_at,
                    len(those),
                    len({one.user for one in those}),
                    fresh=those[-1].ended_at >= week,
                    note=note,
                    noted_by=by,
                    noted_at=at,
                )
            )
        start = int(page) if page else 0
        return b.FingerprintPage(
            tuple(made[start : start + limit]),
            str(start + limit) if start + limit < len(made) else None,
        )

    def fingerprint(self, reader: b.Reader, fingerprint: str) -> b.Fingerprint | None:
        every = self.fingerprints(reader, limit=10_000).fingerprints
        return next((each for each in every if each.fingerprint == fingerprint), None)

    def note(self, reader: b.Reader, fingerprint: str, note: str | None) -> bool:
        if not reader.administrator or self.fingerprint(reader, fingerprint) is None:
            return False
        self._notes.pop(fingerprint, None)
        if note is not None:
            self._notes[fingerprint] = (note, reader.name, NOW)
        return True

    def incidents(self, reader: b.Reader, only_open: bool = False) -> tuple[j.Incident, ...]:
        if not reader.administrator:
            return ()
        at = NOW - dt.timedelta(hours=2)
        going_on = j.Incident(
            1, "main", j.NODE, "n07", at, NOW, None, None, 3, ("1001", "1002", "1003"),
            (("gpu.ecc", 3),), ("n07",),
        )  # fmt: skip
        ended = j.Incident(
            2, "main", j.CAUSE, "storage.hang", at - dt.timedelta(days=2),
            at - dt.timedelta(days=2), at - dt.timedelta(days=1), "root", 5,
        )  # fmt: skip
        return (going_on,) if only_open else (going_on, ended)

    def silences(self, reader: b.Reader) -> tuple[j.Silence, ...]:
        if not reader.administrator:
            return ()
        return (j.Silence("main", j.NODE, "n09", NOW + dt.timedelta(hours=8), "root"),)

    def acknowledge(self, reader: b.Reader, key: int) -> bool:
        return reader.administrator and key == 1

    def close(self, reader: b.Reader, key: int) -> bool:
        return reader.administrator and key == 1

    def silence(self, reader: b.Reader, key: int, until: dt.datetime) -> bool:
        return reader.administrator and key == 1

    def deliveries(
        self, reader: b.Reader, state: str | None = None
    ) -> tuple[j.DeliveryStatus, ...]:
        if not reader.administrator:
            return ()
        made = tuple(
            j.DeliveryStatus(
                f"delivery{number}", "main", str(1000 + number), 1, "slack", word, 3,
                NOW - dt.timedelta(hours=number), None, None,
                None if word == j.SENT else f"HTTP 500: {HOSTILE}",
            )
            for number, word in enumerate((j.DEAD, j.SENT, j.SENT, j.DEAD, j.SHADOW))
        )  # fmt: skip
        return tuple(each for each in made if state in (None, each.state))

    def retry(self, reader: b.Reader, delivery_id: str) -> bool:
        return reader.administrator and delivery_id in ("delivery0", "delivery3")

    def health(self, reader: b.Reader) -> b.Health | None:
        if not reader.administrator:
            return None
        silent = b.SilentNode("n33", "main", NOW - dt.timedelta(days=9), 4)
        return b.Health(
            True, "0.0.0", NOW - dt.timedelta(days=3), "sqlite:///ff.db", 123_456_789,
            {"delivered": len(self._ends)}, {"sent": 812, "dead": 2}, 1, NOW, NOW, (silent,),
        )  # fmt: skip

    def names(self, reader: b.Reader) -> b.Names:
        if not reader.administrator:
            return b.Names()
        all_facts = [end.facts for end in self._ends]
        return b.Names(
            *(
                tuple(sorted({str(getattr(facts, field)) for facts in all_facts}))
                for field in ("cluster", "partition", "account", "user")
            )
        )

    def newest_at(self, reader: b.Reader) -> tuple[int, dt.datetime | None]:
        seen = self._seen(reader)
        return len(seen), seen[0][1].ended_at if seen else None


def _meets(end: End, one: b.Failure, which: b.FailureFilter) -> bool:
    same = ("cluster", "domain", "confidence", "user", "account", "partition", "name")
    if any(getattr(which, name) not in (None, getattr(one, name)) for name in same):
        return False
    if which.cause and which.cause.endswith(".") and not one.cause.startswith(which.cause):
        return False
    if which.cause and not which.cause.endswith(".") and one.cause != which.cause:
        return False
    words = words_of(one.title, one.name, one.user, one.host, one.cause)
    return not (
        (which.since and one.ended_at < which.since)
        or (which.until and one.ended_at >= which.until)
        or (which.node and which.node not in end.nodes)
        or (which.fingerprint and which.fingerprint != one.fingerprint)
        or any(word not in words for word in words_of(which.text))
        or (which.text is not None and not any(map(str.isalnum, which.text)))
    )
