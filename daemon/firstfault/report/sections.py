"""The parts of a report as values: harmless text, within limits, in no form yet."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

T_co = TypeVar("T_co", covariant=True)


class Limits(msgspec.Struct, frozen=True):
    """How much a form shows: items of a list, characters of a quoted line and of a phrase."""

    items: int
    quote: int
    phrase: int = 500


class Listing(msgspec.Struct, Generic[T_co], frozen=True):
    """The first items of a list, and how many were left out."""

    items: tuple[T_co, ...] = ()
    left_out: int = 0


class Fact(msgspec.Struct, frozen=True):
    """A label and its value."""

    label: str
    value: str


class FileLine(msgspec.Struct, frozen=True):
    """A line of a file; ``number`` counts from 1, None where it is not known; ``quoted``: it is
    the one that the others stand around."""

    number: int | None
    text: str
    quoted: bool = False


class Quote(msgspec.Struct, frozen=True):
    """A raw line, made visible; ``place`` says where it stands; ``number`` counts from 1.

    ``around`` are the lines about it, itself among them; () where they are not known.
    """

    place: str
    role: str
    text: str
    number: int | None = None
    around: tuple[FileLine, ...] = ()


class Event(msgspec.Struct, frozen=True):
    """A step of the time line; ``kind`` is "cause", "consequence" or "context" whatever
    ``role`` says; ``proof`` is the number of the quote that shows it."""

    when: str
    when_full: str
    where: str
    what: str
    role: str
    kind: str
    proof: int | None


class Effect(msgspec.Struct, frozen=True):
    """Consequences of one kind: a sentence with the count, and one of the lines."""

    sentence: str
    example: Quote | None


class Sureness(msgspec.Struct, frozen=True):
    """How sure something is: "cause confirmed", what that means, and its ``mark``.

    The mark is one of the four words of confidence, whatever the verdict says.
    """

    label: str
    means: str
    mark: str


class Reading(msgspec.Struct, frozen=True):
    """Another cause that was weighed, and what speaks against it."""

    cause: str
    confidence: str
    against: str


class Gap(msgspec.Struct, frozen=True):
    """Evidence that was not there."""

    what: str
    why: str
    how: str

    @property
    def sentence(self) -> str:
        """All of it in a paragraph."""
        end = "" if self.why.endswith((".", "!", "?", "…")) else "."
        return f"{self.what}: {self.why}{end} How to get it: {self.how}"


class Attempt(msgspec.Struct, frozen=True):
    """One run of the job: "step 0, attempt 1" and how it ended."""

    name: str
    outcome: str
    ok: bool


class CoverageLine(msgspec.Struct, frozen=True):
    """What was read of which hosts and ranks."""

    who: str
    kernel: str
    logs: str
    note: str


class Advice(msgspec.Struct, frozen=True):
    """What one of the readers does; ``reader`` is "" where there is but one."""

    reader: str
    do: Listing[str]
    commands: Listing[str]


class Outline(msgspec.Struct, frozen=True):
    """All that a report says.

    ``tone`` is "failure", "unknown" or "success". It, the marks and the events' kinds are ours,
    whatever the verdict holds: they alone may name a style. ``times`` says in which zone the
    events' times are, or that there are none. ``plain`` is the cause in one sentence for who is
    no expert, where it is confirmed or likely. ``when`` is the time of the first fault in a few
    words. ``advice`` is ``do`` and ``commands`` by who can do it, who acts first comes first.
    """

    tone: str
    headline: str
    cause_id: str
    sure: Sureness
    where: str
    where_sure: Sureness | None
    when: str | None
    plain: str | None
    who_acts: str
    job: str
    job_facts: tuple[Fact, ...]
    where_facts: tuple[Fact, ...]
    exception: tuple[Fact, ...]
    also: str | None
    candidates: str | None
    proof_title: str
    proof: Quote | None
    evidence: Listing[Quote]
    do: Listing[str]
    commands: Listing[str]
    advice: tuple[Advice, ...]
    verify: Listing[str]
    prevent: Listing[str]
    effects_sentence: str | None
    effects: Listing[Effect]
    times: str
    events: Listing[Event]
    alternatives: Listing[Reading]
    unexplained: Listing[Quote]
    missing: Listing[Gap]
    attempts: Listing[Attempt]
    coverage: Listing[CoverageLine]
    notes: Listing[str]
    fingerprint: str | None

    @property
    def details(self) -> tuple[Fact, ...]:
        """The ``where_facts`` that ``where`` and ``when`` do not tell."""
        return tuple(
            fact
            for fact in self.where_facts
            if fact.label not in ("Rank", "Host") and fact.value != self.when
        )

    @property
    def sureness(self) -> tuple[str, ...]:
        """How sure the cause and the place are, in a few words; of an unknown cause, nothing."""
        cause = () if self.tone == "unknown" else (self.sure.label,)
        return cause if self.where_sure is None else (*cause, self.where_sure.label)
