"""From a judgement to the verdict that is printed and stored."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence

from firstfault.faults.effects import WORDING
from firstfault.judge import hang_words, proofs
from firstfault.judge.decide import Judgement, kernel_read
from firstfault.judge.domain import domain as narrowed
from firstfault.judge.fingerprint import fingerprint
from firstfault.judge.memory_held import memory
from firstfault.judge.missing import missing
from firstfault.judge.ranks import ranges
from firstfault.judge.title import happened, title
from firstfault.model import verdict as v
from firstfault.model.event import Cancelled, OomNoticed, StepEnded
from firstfault.model.fault import Effect, Fault, Proof
from firstfault.model.line import Span, is_local
from firstfault.model.run import Process, Run, Told
from firstfault.readers import nodelist

_MOST_TABLES = 4
# What such a cause rests on where no process is known that failed first.
_ONLY_SIGNS = {"collective.timeout": ("waited",), "collective.peer-lost": ("peer-lost",)}
NO_ZONE = "Local times in this evidence carry no time zone: they are shown as they stand there."


def assemble(
    told: Told,
    run: Run | None,
    judgement: Judgement,
    outcomes: Sequence[str],
    strange: Sequence[Proof],
    domain: str,
    remedy: v.Remedy,
) -> v.Verdict:
    """The verdict; ``domain`` and ``remedy`` are what the knowledge base says of the cause."""
    cause = judgement.cause
    confidence = judgement.confidence
    roots = judgement.roots
    lines = proofs.ordered(roots)
    if not roots:
        # What is left where the first fault is not in the evidence: its consequences.
        lines = proofs.of_effects(judgement.effects, _ONLY_SIGNS.get(cause, ()))
    elif "accounting" in roots[0].sources and told.facts and told.facts.said_at:
        lines = (*lines[: proofs.MOST - 1], Proof(told.facts.said_at, "accounting"))
    step = _step(judgement, run)
    role = "cause" if cause != "unknown" else "context"
    notes = [
        *_held(roots),
        *_said_more(roots),
        *hang_words.notes(roots),
        *told.notes,
        *(() if told.zoned else (NO_ZONE,)),
    ]
    return v.Verdict(
        job=job(told, run),
        cause=v.Cause(
            cause,
            title(
                cause,
                roots,
                unordered=judgement.unordered,
                sure=confidence == v.CONFIRMED,
                texts=[each.place.text for each in lines],
                hit=_hit(judgement),
            ),
            narrowed(told, judgement, domain),
            confidence,
        ),
        initiator=_initiator(judgement, run, step),
        exception=next((f.exception for f in roots if f.exception is not None), v.ExceptionFacts()),
        alternatives=_alternatives(told, judgement),
        evidence=tuple(_evidence(each, role) for each in lines),
        chain=_chain(judgement, lines, role),
        consequences=_consequences(judgement.effects),
        unexplained=tuple(_evidence(each, "context") for each in strange[: proofs.MOST]),
        missing=missing(told, run, judgement),
        remedy=remedy,
        runs=tuple(
            v.RunOutcome(number.step or step, number.attempt, outcome)
            for number, outcome in zip(told.runs, outcomes, strict=True)
        ),
        fingerprint=fingerprint(cause, roots, told.hosts),
        coverage=_coverage(told, run),
        notes=tuple(notes),
        memory=memory(roots, run),
    )


# The ranks of the consequences that a cause without a first fault rests on.
def _hit(judgement: Judgement) -> list[int]:
    kinds = _ONLY_SIGNS.get(judgement.cause, ())
    processes = {e.process for e in judgement.effects if e.kind in kinds and e.process}
    return sorted({each.rank for each in processes if each.rank is not None})


# What a long message says of this case often stands in its later lines.
def _said_more(roots: Sequence[Fault]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for fault in roots:
        if lines := dict(fault.facts).get("more"):
            rank = fault.process.rank if fault.process else None
            whose = "The message" if rank is None else f"The message of rank {rank}"
            found.setdefault(lines, f"{whose} goes on: {lines}".replace("\n", " / "))
    return tuple(found.values())[:_MOST_TABLES]


# Who held the memory that was short, by the kernel's own table: the one it chose need not be it.
def _held(roots: Sequence[Fault]) -> tuple[str, ...]:
    found = [
        f"The kernel's table of who held memory{f' on {fault.host}' if fault.host else ''}: {held}."
        for fault in roots
        if fault.cause in ("memory.cgroup-oom", "memory.host-oom")
        and (held := dict(fault.facts).get("held"))
    ]
    return tuple(dict.fromkeys(found))[:_MOST_TABLES]


def job(told: Told, run: Run | None) -> v.Job:
    """The job as far as the evidence names it."""
    facts = told.facts
    ids = sorted(told.jobs)
    array, _, task = (facts.id if facts else "").partition("_")
    return v.Job(
        cluster=told.cluster,
        id=(array if facts else None) or (ids[0] if len(ids) == 1 else None),
        array_task=task or None,
        name=facts.name if facts else None,
        user=told.user,
        state=facts.state if facts else None,
        nodes=len(told.nodes) or None,
        ranks=_world_size(told, run),
    )


# How many ranks there were: what agents or the program say; else all numbers seen, or as many
# processes on each of the job's nodes. A rank alone is seldom all, and nodes have equally many; not
# while one of the nodes is silent.
def _world_size(told: Told, run: Run | None) -> int | None:
    roster = run.roster if run else ()
    ranks = {process.rank for process in roster if process.rank is not None}
    said = run.expected_ranks if run else None
    if said is not None and max(ranks, default=0) < said:
        return said
    if told.absent or not set(told.nodes) <= {process.host for process in roster}:
        return None
    known = Counter(process.host for process in roster if process.host)
    if len(ranks) != len(roster) or ranks != set(range(len(ranks))):
        known = Counter(host for host, _ in {(p.host, p.local_rank) for p in roster} if host)
        if set(known) != set(told.nodes) or known.total() < len(roster):
            return None
    count = len(roster)
    # Where some hosts are not known, the ranks may still be as many on each.
    even = count % max(1, len(known)) == 0 and max(known.values(), default=0) * len(known) <= count
    return count if even and count > max(ranks | {1}) else None


def _initiator(judgement: Judgement, run: Run | None, step: str | None) -> v.Initiator:
    roots = judgement.roots
    if not roots:
        return v.Initiator()
    first = roots[0]
    attempt = run.attempt if run is not None and first.process is not None else None
    if judgement.unordered or first.candidates:
        members = [p for fault in roots for p in (fault.candidates or _own(fault))]
        unique = dict.fromkeys(v.Member(p.rank, p.host) for p in members)
        hosts = {member.host for member in unique}
        return v.Initiator(
            host=first.host if len(hosts) <= 1 else None,
            step=first.step or step,
            attempt=attempt,
            confidence=judgement.initiator_confidence,
            candidates=tuple(sorted(unique, key=_member_order)),
        )
    process = first.process
    earliest, latest, local = _times(first.at)
    also = tuple(
        dict.fromkeys(_member(fault) for fault in roots[1:] if fault.process or fault.host)
    )
    return v.Initiator(
        rank=process.rank if process else None,
        local_rank=process.local_rank if process else None,
        host=first.host,
        gpu=dict(first.facts).get("gpu"),
        pid=first.pid,
        step=first.step or (step if process else None),
        task=process.task if process else None,
        attempt=attempt,
        earliest=earliest,
        latest=latest,
        confidence=judgement.initiator_confidence,
        also=also,
        local=local,
    )


def _member(fault: Fault) -> v.Member:
    process = fault.process
    return v.Member(process.rank if process else None, process.host if process else fault.host)


def _own(fault: Fault) -> tuple[Process, ...]:
    return (fault.process,) if fault.process is not None else ()


def _member_order(member: v.Member) -> tuple[bool, int, str]:
    return member.rank is None, member.rank if member.rank is not None else 0, member.host or ""


# In UTC what is known to be, else local times as the logs have them.
def _times(
    span: Span | None,
) -> tuple[dt.datetime | None, dt.datetime | None, v.LocalTimes | None]:
    if span is None or not span.local:
        return (span.earliest, span.latest, None) if span else (None, None, None)
    ends = (span.earliest, span.latest)
    earliest, latest = (at if at is not None and not is_local(at) else None for at in ends)
    naive = (at.replace(tzinfo=None) if at and is_local(at) else None for at in ends)
    return earliest, latest, v.LocalTimes(*naive)


def _alternatives(told: Told, judgement: Judgement) -> tuple[v.Alternative, ...]:
    found: dict[str, v.Alternative] = {}
    if judgement.cause == "process.killed" and judgement.confidence != v.CONFIRMED:
        read = kernel_read(told, judgement.roots[0].host)
        against = (
            "no kernel log of the host was read, which would show an OOM kill"
            if read == "none"
            else "the kernel log that was read shows no OOM kill, but may not reach that moment"
        )
        for cause in ("memory.cgroup-oom", "memory.host-oom"):
            found[cause] = v.Alternative(cause, v.POSSIBLE, against)
    found |= {each.cause: each for each in hang_words.alternatives(judgement.roots)}
    for fault, against in judgement.rivals:
        if fault.cause != judgement.cause:
            found.setdefault(fault.cause, v.Alternative(fault.cause, v.POSSIBLE, against))
    return tuple(found.values())


def _evidence(each: Proof, role: str) -> v.Evidence:
    place = each.place
    return v.Evidence(
        role, each.source, each.host, place.document, place.line, place.offset, place.text
    )


def _consequences(effects: Iterable[Effect]) -> tuple[v.Consequence, ...]:
    kinds: dict[str, list[Effect]] = {}
    for effect in effects:
        kinds.setdefault(effect.kind, []).append(effect)
    result = []
    for kind in WORDING:
        found = kinds.get(kind)
        if not found:
            continue
        ranks = sorted({e.process.rank for e in found if e.process and e.process.rank is not None})
        count = len(ranks) if ranks else sum(effect.count for effect in found)
        result.append(
            v.Consequence(
                WORDING[kind].many,
                count,
                ranges(ranks),
                _evidence(found[0].proof, "consequence"),
            )
        )
    return tuple(result)


def _chain(judgement: Judgement, lines: Sequence[Proof], role: str) -> tuple[v.ChainLink, ...]:
    links = []
    for fault in judgement.roots[:8]:
        earliest, latest, local = _times(fault.at)
        index = next((i for i, each in enumerate(lines) if each in fault.proofs), None)
        links.append(
            v.ChainLink(
                earliest,
                latest,
                fault.host,
                fault.process.rank if fault.process else None,
                happened(fault),
                role,
                index,
                local,
            )
        )
    seen: dict[str, Effect] = {}
    for effect in judgement.effects:
        held = seen.get(effect.kind)
        if held is None or _latest(effect) < _latest(held):
            seen[effect.kind] = effect
    order = [kind for kind in WORDING if kind in seen]
    order.sort(key=lambda kind: _latest(seen[kind]))
    for kind in order:
        effect = seen[kind]
        earliest, latest, local = _times(effect.at)
        process = effect.process
        links.append(
            v.ChainLink(
                earliest,
                latest,
                process.host if process else effect.proof.host,
                process.rank if process else None,
                WORDING[kind].one,
                "consequence",
                local=local,
            )
        )
    return tuple(links)


def _latest(effect: Effect) -> float:
    if effect.at is None or effect.at.latest is None:
        return float("inf")
    return effect.at.latest.timestamp()


# The step of the ranks: what a fault's line names, or the only one that srun and slurmstepd name.
def _step(judgement: Judgement, run: Run | None) -> str | None:
    named = next((fault.step for fault in judgement.roots if fault.step), None)
    if named is not None or run is None:
        return named
    steps = {
        each.event.step
        for each in run.happened
        if isinstance(each.event, Cancelled | StepEnded | OomNoticed) and each.event.step
    }
    return steps.pop() if len(steps) == 1 else None


def _coverage(told: Told, run: Run | None) -> tuple[v.CoverageRow, ...]:
    kernel = {log.host: log.state for log in told.kernel}
    ranks: dict[str | None, set[int]] = {}
    for process in run.roster if run else ():
        if process.rank is not None:
            ranks.setdefault(process.host, set()).add(process.rank)
    groups: dict[tuple[str, str, str | None], list[str]] = {}
    heard = Counter(process.host for process in run.roster if process.host) if run else Counter()
    most = max(heard.values(), default=0)
    # A kernel log that nodes share names other jobs' hosts too.
    for host in sorted({*(told.nodes or told.hosts), *told.absent}):
        absent = host in told.absent
        state = "none" if absent else kernel.get(host) or kernel.get(None) or "none"
        logs = "none" if absent else "full" if 0 < heard[host] == most else "partial"
        if told.outputs == 0:
            logs = "none"
        note = "no record came from this node" if absent else None
        groups.setdefault((state, logs, note), []).append(host)
    rows = [
        v.CoverageRow(
            nodelist.fold(hosts),
            ranges(sorted(set().union(*(ranks.get(host, set()) for host in hosts)))),
            state,
            logs,
            note,
        )
        for (state, logs, note), hosts in sorted(groups.items(), key=lambda item: item[1])
    ]
    if not rows:
        state = kernel.get(None) or "none"
        known = sorted(ranks.get(None, set()))
        logs = "partial" if told.outputs else "none"
        rows.append(v.CoverageRow(None, ranges(known), state, logs, None))
    return tuple(rows)
