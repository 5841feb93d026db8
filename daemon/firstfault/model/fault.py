"""What may have gone wrong first, and what only followed: what the judge weighs."""

from __future__ import annotations

import msgspec

from firstfault.model.line import Place, Span
from firstfault.model.run import Process
from firstfault.model.verdict import CONFIRMED, ExceptionFacts


class Proof(msgspec.Struct, frozen=True):
    """A line that a fault or an effect rests on; ``source`` as the report names it."""

    place: Place
    source: str
    host: str | None = None


class Fault(msgspec.Struct, frozen=True):
    """A candidate for the first fault.

    ``cause`` is an id of causes.toml. ``key`` is equal for faults that are the same in several
    ranks (the same exception from the same line). ``sources`` are the independent sources that
    agree. ``sure`` is False where the fault may itself be a consequence: it counts only when
    nothing surer stands beside it; ``rank_sure`` is False where the process is only the best
    guess. ``limit`` is the most that its evidence is worth, as a confidence in its cause. ``facts``
    fill the title and the remedies.
    """

    cause: str
    key: str
    process: Process | None = None
    host: str | None = None
    candidates: tuple[Process, ...] = ()
    at: Span | None = None
    sources: frozenset[str] = frozenset()
    proofs: tuple[Proof, ...] = ()
    exception: ExceptionFacts | None = None
    sure: bool = True
    rank_sure: bool = True
    limit: str = CONFIRMED
    pid: int | None = None
    step: str | None = None
    facts: tuple[tuple[str, str], ...] = ()


class Effect(msgspec.Struct, frozen=True):
    """Something that another's fault explains; ``kind`` is a row of the table of effects."""

    kind: str
    proof: Proof
    process: Process | None = None
    at: Span | None = None
    count: int = 1


class Findings(msgspec.Struct, frozen=True):
    """All that one run offers the judge.

    ``unnamed`` are processes that ended badly with no reason in the evidence; ``strange`` are
    alarming lines that nothing accounts for.
    """

    faults: tuple[Fault, ...] = ()
    effects: tuple[Effect, ...] = ()
    unnamed: tuple[Fault, ...] = ()
    strange: tuple[Proof, ...] = ()
