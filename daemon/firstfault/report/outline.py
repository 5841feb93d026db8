"""From a verdict to what a report says of it: every sentence, in order, as harmless text.

The page, the terminal and the message show an `Outline`, each in its own way and as much of
it as fits; none of them reads the verdict itself. So they cannot tell different stories.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from firstfault.model import verdict as v
from firstfault.report import causes as knowledge
from firstfault.report import wording as w
from firstfault.report.advice import by_reader
from firstfault.report.sections import (
    Attempt,
    CoverageLine,
    Effect,
    Event,
    Fact,
    FileLine,
    Gap,
    Limits,
    Listing,
    Outline,
    Quote,
    Reading,
    Sureness,
)
from firstfault.report.stories import Story, groups, story
from firstfault.report.timeline import times

T = TypeVar("T")
S = TypeVar("S")

_MOST_AROUND = 3
# What is read in ten seconds; an exception's whole message stands in a place of its own.
_LONGEST_HEADLINE = 240
_MOST_ADVICE = 25


def outline(verdict: v.Verdict, limits: Limits) -> Outline:
    """What a report on ``verdict`` says within ``limits``."""
    phrase = limits.phrase
    around = {each.evidence: each for each in verdict.surroundings[: limits.items]}
    quotes = [
        _quote(e, limits, k + 1, around.get(k))
        for k, e in enumerate(verdict.evidence[: limits.items])
    ]
    remedy = verdict.remedy
    alike = groups(verdict)
    chain = verdict.chain[: 2 * limits.items]
    dated, marked = _days(chain) > 1, _zones(chain) == _BOTH
    # What one reader is told does not go for want of room for the other's.
    whole = msgspec.structs.replace(limits, items=max(limits.items, _MOST_ADVICE))
    do, commands = _phrases(remedy.do, limits), _commands(remedy.commands, limits)
    return Outline(
        tone=_tone(verdict.cause),
        headline=_headline(verdict.cause, min(phrase, _LONGEST_HEADLINE)),
        cause_id=w.clean(verdict.cause.id, 100),
        sure=_sure("verdict" if verdict.cause.id == "none" else "cause", verdict.cause.confidence),
        where=_where(verdict),
        where_sure=_where_sure(verdict.initiator),
        when=w.about(*times(verdict.initiator)),
        plain=_plain(verdict.cause),
        who_acts=w.WHO_ACTS.get(verdict.cause.domain, w.WHO_ACTS["either"]),
        job=_job(verdict.job),
        job_facts=_job_facts(verdict.job),
        where_facts=_where_facts(verdict.initiator),
        exception=_exception(verdict.exception, phrase),
        also=_members(verdict.initiator.also),
        candidates=_candidates(verdict.initiator),
        proof_title=f"What {'proves' if verdict.cause.confidence == v.CONFIRMED else 'points to'} it",
        proof=quotes[0] if quotes else None,
        evidence=Listing(tuple(quotes), max(0, len(verdict.evidence) - limits.items)),
        do=do,
        commands=commands,
        advice=by_reader(
            _phrases(remedy.do, whole),
            _commands(remedy.commands, whole),
            verdict.cause.domain,
            limits.items,
        ),
        verify=_phrases(remedy.verify, limits),
        prevent=_phrases(remedy.prevent, limits),
        effects_sentence=_effects_sentence(verdict.consequences),
        effects=_listing(verdict.consequences, limits.items, lambda c: _effect(c, limits)),
        times=_zones(chain),
        events=_listing(
            verdict.chain,
            2 * limits.items,
            lambda link: _event(link, story(link, alike, phrase), len(quotes), dated, marked),
        ),
        alternatives=_listing(verdict.alternatives, limits.items, lambda a: _reading(a, phrase)),
        unexplained=_listing(verdict.unexplained, limits.items, lambda e: _quote(e, limits)),
        missing=_listing(verdict.missing, limits.items, lambda m: _gap(m, phrase)),
        attempts=_listing(verdict.runs, limits.items, _attempt),
        coverage=_listing(verdict.coverage, limits.items, _coverage),
        notes=_phrases(verdict.notes, limits),
        fingerprint=_optional(verdict.fingerprint, 100),
    )


def _listing(values: Sequence[S], limit: int, say: Callable[[S], T]) -> Listing[T]:
    return Listing(tuple(say(value) for value in values[:limit]), max(0, len(values) - limit))


def _phrases(values: Sequence[str], limits: Limits) -> Listing[str]:
    return _listing(values, limits.items, lambda text: w.clean(text, limits.phrase))


def _commands(values: Sequence[str], limits: Limits) -> Listing[str]:
    # A command is pasted: it is shown as it is, or not at all.
    whole = [
        text
        for text in values[: limits.items]
        if len(text) <= 2 * limits.phrase and w.visible(text) == text
    ]
    return Listing(tuple(whole), len(values) - len(whole))


def _optional(text: str | None, limit: int) -> str | None:
    return None if text is None else w.clean(text, limit)


def _tone(cause: v.Cause) -> str:
    return {"none": "success", "unknown": "unknown"}.get(cause.id, "failure")


def _sure(of: str, confidence: str) -> Sureness:
    return Sureness(
        label=f"{of} {w.clean(confidence, 40)}",
        means=w.CONFIDENCE.get(confidence, ""),
        mark=confidence if confidence in w.CONFIDENCE else "unknown",
    )


def _headline(cause: v.Cause, limit: int) -> str:
    return w.clean(cause.title, limit).strip() or w.clean(cause.id, 100)


# A sentence for everyone must not be surer than the verdict.
def _plain(cause: v.Cause) -> str | None:
    if cause.confidence not in (v.CONFIRMED, v.LIKELY) or _tone(cause) != "failure":
        return None
    try:
        return knowledge.cause(cause.id).everyone
    except KeyError:
        return None


def _where(verdict: v.Verdict) -> str:
    """Who failed first, in a few words; says why nobody is named where nobody is."""
    first = verdict.initiator
    named = w.place(first.rank, first.host)
    if named is not None and first.also:
        return f"{named} and {w.count(len(first.also), 'other')} that failed the same way"
    if named is not None:
        return named
    if first.candidates:
        return f"one of {w.count(len(first.candidates), 'candidate')}: {_members(first.candidates)}"
    if verdict.cause.id == "none":
        return "nothing failed"
    if verdict.cause.id in w.WHOLE_JOB:
        return "the whole job; no rank failed first"
    return "not known which rank or host"


def _where_sure(first: v.Initiator) -> Sureness | None:
    if first.rank is not None and first.host is None:
        return _sure("rank", first.confidence)
    if first.rank is None and first.host is not None:
        return _sure("host", first.confidence)
    named = first.rank is not None or first.candidates
    return _sure("rank and host", first.confidence) if named else None


def _candidates(first: v.Initiator) -> str | None:
    # Where nobody is named, `_where` lists them.
    return None if w.place(first.rank, first.host) is None else _members(first.candidates)


def _members(members: Sequence[v.Member]) -> str | None:
    if not members:
        return None
    by_host: dict[str | None, list[int]] = {}
    for member in members:
        ranks = by_host.setdefault(member.host, [])
        if member.rank is not None:
            ranks.append(member.rank)
    return w.listed(list(by_host.items()), 12, lambda each: _ranks_on(*each))


def _ranks_on(host: str | None, ranks: Sequence[int]) -> str:
    if not ranks:
        return w.place(None, host) or "a rank that is not known"
    many = "ranks" if len(set(ranks)) > 1 else "rank"
    on = f" on {w.clean(host, 100)}" if host is not None else ""
    return f"{many} {w.cut(w.ranges(ranks), 200)}{on}"


def _job(job: v.Job) -> str:
    name = f" “{w.clean(job.name, 120)}”" if job.name else ""
    ident = w.clean(job.id or "", 60) + (
        f"_{w.clean(job.array_task, 20)}" if job.array_task else ""
    )
    return f"Job {ident}{name}" if ident else f"Job{name or ' (id not known)'}"


def _facts(*pairs: tuple[str, object]) -> tuple[Fact, ...]:
    return tuple(
        Fact(label, w.clean(str(value), 200)) for label, value in pairs if value not in (None, "")
    )


def _job_facts(job: v.Job) -> tuple[Fact, ...]:
    return _facts(
        ("Job id", job.id),
        ("Array task", job.array_task),
        ("Name", job.name),
        ("Owner", job.user),
        ("Cluster", job.cluster),
        ("State", job.state),
        ("Nodes", None if job.nodes is None else w.number(job.nodes)),
        ("Ranks", None if job.ranks is None else w.number(job.ranks)),
    )


def _where_facts(first: v.Initiator) -> tuple[Fact, ...]:
    return _facts(
        ("Rank", first.rank),
        ("Host", first.host),
        ("Local rank", first.local_rank),
        ("Process id", first.pid),
        ("GPU", first.gpu),
        ("Step", first.step),
        ("Task", first.task),
        ("Attempt", first.attempt),
        ("When", w.span(*times(first))),
    )


def _exception(facts: v.ExceptionFacts, limit: int) -> tuple[Fact, ...]:
    line = f", line {facts.line}" if facts.line is not None else ""
    at = f"{w.clean(facts.file, 300)}{line}" if facts.file else None
    pairs = (("Type", facts.type), ("Message", facts.message), ("Raised in", at))
    return tuple(Fact(label, w.clean(value, limit)) for label, value in pairs if value)


def _quote(
    evidence: v.Evidence,
    limits: Limits,
    number: int | None = None,
    around: v.Surroundings | None = None,
) -> Quote:
    return Quote(
        place=w.source_place(evidence.source, evidence.host, evidence.file, evidence.line),
        role=w.clean(evidence.role, 40),
        text=w.clean(evidence.text.rstrip("\r\n"), limits.quote),
        number=number,
        around=() if around is None else tuple(_around(evidence, around, limits.phrase)),
    )


# As many lines as a verdict of ours holds on each side; another's may hold any number.
def _around(evidence: v.Evidence, around: v.Surroundings, limit: int) -> Iterator[FileLine]:
    before, after = around.before[-_MOST_AROUND:], around.after[:_MOST_AROUND]
    first = None if evidence.line is None else evidence.line - len(before)
    texts = (*before, evidence.text.rstrip("\r\n"), *after)
    for k, text in enumerate(texts):
        number = None if first is None or first < 1 else first + k
        yield FileLine(number, w.clean(text, limit), quoted=k == len(before))


def _effects_sentence(consequences: Sequence[v.Consequence]) -> str | None:
    total = sum(c.count for c in consequences)
    if total <= 0:
        return None
    return (
        f"{w.count(total, 'other alarming line')} or failure{'s' if total != 1 else ''}: "
        f"only {'a consequence' if total == 1 else 'consequences'} of the first fault"
    )


def _effect(effect: v.Consequence, limits: Limits) -> Effect:
    sentence = f"{w.clean(effect.what, limits.phrase)}: {w.number(effect.count)}"
    if effect.ranks:
        sentence += f" ({_numbered(w.clean(effect.ranks, 200))})"
    return Effect(sentence, None if effect.example is None else _quote(effect.example, limits))


# "rank 3", "ranks 0-2".
def _numbered(ranks: str) -> str:
    return f"{'rank' if ranks.isdigit() else 'ranks'} {ranks}"


_UTC, _LOCAL, _BOTH = "UTC", "local time, zone not known", "UTC, or local time where it says so"


def _zones(chain: Sequence[v.ChainLink]) -> str:
    local = {at.tzinfo is None for at in _moments(chain)}
    if not local:
        return "no times to show"
    return _BOTH if len(local) > 1 else _LOCAL if True in local else _UTC


def _moments(chain: Sequence[v.ChainLink]) -> list[dt.datetime]:
    return [at for link in chain for at in times(link) if at is not None]


def _days(chain: Sequence[v.ChainLink]) -> int:
    return len({w.moment(at)[:10] for at in _moments(chain)})


def _event(link: v.ChainLink, told: Story, quotes: int, dated: bool, marked: bool) -> Event:
    index = link.evidence
    earliest, latest = times(link)
    when = w.clock(earliest, latest, dated)
    local = any(at is not None and at.tzinfo is None for at in (earliest, latest))
    return Event(
        when=f"{when} local" if marked and local else when,
        when_full=w.span(earliest, latest) or "time not known",
        where=told.who,
        what=f"{told.what} (the first: {told.first})" if told.first else told.what,
        role=w.clean(link.role, 40),
        kind=link.role if link.role in w.ROLES else "context",
        proof=index + 1 if index is not None and 0 <= index < quotes else None,
    )


def _reading(other: v.Alternative, limit: int) -> Reading:
    return Reading(
        w.clean(other.cause, 100), w.clean(other.confidence, 40), w.clean(other.against, limit)
    )


def _gap(missing: v.Missing, limit: int) -> Gap:
    return Gap(
        what=w.clean(missing.what, limit),
        why=w.clean(missing.why_it_matters, limit),
        how=w.clean(missing.how_to_get, 2 * limit),
    )


def _attempt(run: v.RunOutcome) -> Attempt:
    step = f"step {w.clean(run.step, 40)}" if run.step is not None else "step not known"
    attempt = f", attempt {run.attempt}" if run.attempt is not None else ""
    outcome = w.OUTCOME.get(run.outcome, w.clean(run.outcome, 40))
    return Attempt(f"{step}{attempt}", outcome, run.outcome == "succeeded")


def _coverage(row: v.CoverageRow) -> CoverageLine:
    hosts = w.clean(row.hosts, 200) if row.hosts else "host not known"
    ranks = f", {_numbered(w.clean(row.ranks, 200))}" if row.ranks else ""
    return CoverageLine(
        who=f"{hosts}{ranks}",
        kernel=w.clean(row.kernel, 40),
        logs=w.clean(row.logs, 40),
        note=w.clean(row.note or "", 500),
    )
