"""The verdict, exactly as it is printed and stored (schema ``firstfault.verdict/1``).

Absent facts are None. Times are aware, in UTC, but for `LocalTimes`. Field order is the order of the JSON.
"""

from __future__ import annotations

import datetime as dt

import msgspec

SCHEMA = "firstfault.verdict/1"

CONFIRMED = "confirmed"
LIKELY = "likely"
POSSIBLE = "possible"
UNKNOWN = "unknown"


def weaker(*confidences: str) -> str:
    """The least of the ``confidences``."""
    order = (UNKNOWN, POSSIBLE, LIKELY, CONFIRMED)
    return min(confidences, key=order.index)


class Job(msgspec.Struct, frozen=True):
    """The job as far as the evidence names it; ``nodes`` and ``ranks`` are counts."""

    cluster: str | None = None
    id: str | None = None
    array_task: str | None = None
    name: str | None = None
    user: str | None = None
    state: str | None = None
    nodes: int | None = None
    ranks: int | None = None


class Cause(msgspec.Struct, frozen=True):
    """``id`` is one of causes.toml; ``domain`` is "user", "system" or "either"."""

    id: str
    title: str
    domain: str
    confidence: str


class Member(msgspec.Struct, frozen=True):
    """A rank on a host; either may be unknown."""

    rank: int | None = None
    host: str | None = None


class LocalTimes(msgspec.Struct, frozen=True):
    """What ``earliest`` and ``latest`` are by a clock of which nothing tells the zone: times
    without a zone, as the logs print them."""

    earliest: dt.datetime | None
    latest: dt.datetime | None


class Initiator(msgspec.Struct, frozen=True):
    """What failed first; ``rank`` is the global rank, ``task`` Slurm's task id in the step."""

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    gpu: str | None = None
    step: str | None = None
    task: int | None = None
    attempt: int | None = None
    earliest: dt.datetime | None = None
    latest: dt.datetime | None = None
    confidence: str = UNKNOWN
    also: tuple[Member, ...] = ()
    candidates: tuple[Member, ...] = ()
    local: LocalTimes | None = None


class ExceptionFacts(msgspec.Struct, frozen=True):
    """The Python exception, if there was one; ``file`` and ``line`` of the user's own frame."""

    type: str | None = None
    message: str | None = None
    file: str | None = None
    line: int | None = None


class Alternative(msgspec.Struct, frozen=True):
    """Another reading, and what speaks against it."""

    cause: str
    confidence: str
    against: str


class Evidence(msgspec.Struct, frozen=True):
    """One raw line: ``line`` counts from 1, ``offset`` is the byte where that line starts."""

    role: str
    source: str
    host: str | None
    file: str
    line: int | None
    offset: int | None
    text: str


class ChainLink(msgspec.Struct, frozen=True):
    """One step of the story; ``evidence`` is an index into the verdict's evidence, or None."""

    earliest: dt.datetime | None
    latest: dt.datetime | None
    host: str | None
    rank: int | None
    what: str
    role: str
    evidence: int | None = None
    local: LocalTimes | None = None


class Consequence(msgspec.Struct, frozen=True):
    """Alarming lines that the first fault explains, counted; ``ranks`` like "0-16,18-31"."""

    what: str
    count: int
    ranks: str | None
    example: Evidence | None


class Missing(msgspec.Struct, frozen=True):
    """Evidence that was not there, and how to have it next time."""

    what: str
    why_it_matters: str
    how_to_get: str


class Remedy(msgspec.Struct, frozen=True):
    """What to do: now, with which commands, how to check it, how to keep it from coming back."""

    do: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()
    prevent: tuple[str, ...] = ()


class RunOutcome(msgspec.Struct, frozen=True):
    """One attempt: ``outcome`` is "failed", "recovered", "succeeded" or "unknown"."""

    step: str | None
    attempt: int | None
    outcome: str


class CoverageRow(msgspec.Struct, frozen=True):
    """Which hosts and ranks were read: ``kernel`` and ``logs`` are "full", "partial", "none"."""

    hosts: str | None
    ranks: str | None
    kernel: str
    logs: str
    note: str | None = None


class Holder(msgspec.Struct, frozen=True):
    """What a process held (resident, KiB) as the kernel looked for one to kill; ``rank`` where it
    is a rank's own process."""

    pid: int
    command: str
    kib: int
    rank: int | None = None
    killed: bool = False


class Sum(msgspec.Struct, frozen=True):
    """How many processes, and how many KiB they held together."""

    processes: int
    kib: int


class Memory(msgspec.Struct, frozen=True):
    """Who held the memory that was short, by the kernel's table of tasks at the first OOM kill.

    ``limit_kib`` is the limit that was full (None: the host itself was), ``used_kib`` what counted
    towards it at that moment (``with_swap``: both with swap); the processes' sizes may add up to
    more, for pages that are shared count for each. ``holders`` are the victim's user's and root's, most first; ``rest`` sums up
    their other processes, ``others`` those of other users, whose names are nobody's business.
    """

    host: str | None
    limit_kib: int | None
    used_kib: int | None
    holders: tuple[Holder, ...]
    rest: Sum | None = None
    others: Sum | None = None
    with_swap: bool = False


class Surroundings(msgspec.Struct, frozen=True):
    """The lines just ``before`` and ``after`` a quoted one; ``evidence`` is an index into the
    verdict's evidence. As they stand in the file, long ones cut."""

    evidence: int
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    """The answer for one job."""

    job: Job
    cause: Cause
    initiator: Initiator = Initiator()
    exception: ExceptionFacts = ExceptionFacts()
    alternatives: tuple[Alternative, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    chain: tuple[ChainLink, ...] = ()
    consequences: tuple[Consequence, ...] = ()
    unexplained: tuple[Evidence, ...] = ()
    missing: tuple[Missing, ...] = ()
    remedy: Remedy = Remedy()
    runs: tuple[RunOutcome, ...] = ()
    fingerprint: str | None = None
    coverage: tuple[CoverageRow, ...] = ()
    notes: tuple[str, ...] = ()
    memory: Memory | None = None
    surroundings: tuple[Surroundings, ...] = ()
    schema: str = SCHEMA


def encode(verdict: Verdict) -> bytes:
    """The verdict as JSON (UTF-8, indented by one, "schema" first, ends in a newline)."""
    fields = msgspec.to_builtins(verdict)
    ordered = {"schema": fields.pop("schema"), **fields}
    return msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n"


def decode(data: bytes) -> Verdict:
    """The verdict that `encode` wrote. Raises msgspec.DecodeError for anything else."""
    return msgspec.json.decode(data, type=Verdict)
