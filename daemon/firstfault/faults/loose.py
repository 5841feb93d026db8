"""Tracebacks of nobody in particular: a console without prefixes, or an agent's own stream.

What a document says belongs to the ranks whose ends its agent notes there: another node's ranks
write into another one. What stands in a document without an agent's word may be anybody's.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firstfault.faults.death import MUCH, Death, is_exception, says_same, texts_of, worker_signal
from firstfault.faults.effects import is_agents, is_launchers
from firstfault.faults.exceptions import (
    cause_of,
    exception_facts,
    meaning_of_chain,
    same_key,
    worth,
)
from firstfault.faults.owners import labelled_documents
from firstfault.faults.processes import proof, with_process
from firstfault.faults.signals import WORKER_CAUSES
from firstfault.model.event import TableEntry, Traceback
from firstfault.model.fault import Effect, Fault
from firstfault.model.run import Happened, Run
from firstfault.model.verdict import LIKELY, POSSIBLE, weaker
from firstfault.signatures import EFFECTS

# A document, and the task whose agent speaks in it.
Scope = tuple[str, int | None]
# An exception that so many lines followed did not end a job of which nothing else went wrong.
_WENT_ON = 3
_CRASHES = ("Segmentation fault", "Aborted")
# A thread's exception ends no process: a single line after it tells that the work went on.
_THREADS_WENT_ON = 1


class Loose(msgspec.Struct, frozen=True):
    """What the tracebacks of nobody offer; ``nameless`` are the deaths that still have no reason."""

    faults: tuple[Fault, ...]
    effects: tuple[Effect, ...]
    nameless: tuple[Death, ...]


def unattributed(run: Run, ends: Sequence[Death], nameless: Sequence[Death]) -> Loose:
    """The faults and effects of tracebacks that no prefix gives to a rank."""
    found: dict[Scope, list[Happened]] = {}
    for each in _tracebacks(run, ends):
        found.setdefault(_scope(each), []).append(each)
    faults: list[Fault] = []
    effects: list[Effect] = []
    left = list(nameless)
    anybodys: list[Happened] = []
    labelled = labelled_documents(run) if ends else frozenset()
    for scope, seen in sorted(found.items(), key=lambda item: repr(item[0])):
        if scope[1] is None and scope[0] in labelled:
            part = _within(seen, (), ends)
            faults += (msgspec.structs.replace(fault, sure=False) for fault in part.faults)
            effects += part.effects
            continue
        mine = [death for death in left if scope in _scopes(death)]
        if not mine:
            anybodys += seen
            continue
        part = _within(seen, mine, ends)
        faults += part.faults
        effects += part.effects
        left = [death for death in left if death not in mine or death in part.nameless]
    rest = _within(anybodys, left, ends)
    # These stand in documents in which no agent of a rank that ended so speaks.
    guessed = (msgspec.structs.replace(fault, rank_sure=False) for fault in rest.faults)
    return Loose((*faults, *guessed), (*effects, *rest.effects), rest.nameless)


def _scope(each: Happened) -> Scope:
    speaker = getattr(each.event, "speaker", None)
    return each.event.place.document, getattr(speaker, "task", None)


def _scopes(death: Death) -> set[Scope]:
    return {_scope(each) for each in death.exits}


# The tracebacks that tell something: no launcher's, no echo of what a known rank said.
def _tracebacks(run: Run, ends: Sequence[Death]) -> list[Happened]:
    raised: dict[str, list[Traceback]] = {}
    for own in (death.raised.event for death in ends if death.raised is not None):
        known = raised.setdefault(own.message.strip()[:200], [])
        if not any(says_same(own, other) for other in known):
            known.append(own)
    return [
        each
        for each in run.happened
        if isinstance(each.event, Traceback)
        and each.process is None
        and not is_launchers(each)
        and is_exception(each.event)
        and not _is_echo(each.event, raised)
        and not (not ends and _went_on(each.event))
    ]


# What an agent raises ends it: what follows is another's.
def _went_on(event: Traceback) -> bool:
    return not is_agents(event) and event.followed >= (
        _THREADS_WENT_ON if event.thread else _WENT_ON
    )


# A table, or a file of which nothing tells whose it is, repeats what a known rank said.
def _is_echo(event: Traceback, raised: dict[str, list[Traceback]]) -> bool:
    return any(says_same(event, other) for other in raised.get(event.message.strip()[:200], ()))


def _within(seen: Sequence[Happened], nameless: Sequence[Death], ends: Sequence[Death]) -> Loose:
    alone = not ends
    groups: dict[str, list[Happened]] = {}
    effects: list[Effect] = []
    for each in seen:
        event = each.event
        assert isinstance(event, Traceback)
        if _was_survived(event) and ends and not any(_may_raise(d) for d in ends):
            continue
        sign = meaning_of_chain(event)
        if sign is not None and sign.means in ("peer-lost", "waited", "stopped"):
            if event.thread and alone:
                # A thread that lost its own peer: a logger's, a loader's.
                continue
            effects.append(Effect(sign.means, proof(each)))
            continue
        groups.setdefault(same_key(event, sign.means if sign else None), []).append(each)
    faults = [_fault(key, group, alone=alone) for key, group in sorted(groups.items())]
    owners = _owners(nameless)
    others = tuple(death for death in nameless if death not in owners)
    if not faults and len(effects) >= len(owners):
        # As many tracebacks of lost peers as ranks without a reason: these are theirs.
        theirs = [
            Effect(effects[0].kind, proof(death.exits[0]), death.process, death.noticed_at)
            for death in owners
        ]
        return Loose((), (*effects, *theirs), others)
    if len(faults) != 1 or not owners:
        return Loose(tuple(faults), tuple(effects), tuple(nameless))
    if effects and len(owners) > 1:
        # One of these ranks raised it, the others lost a peer: which is which is not told.
        one = msgspec.structs.replace(faults[0], candidates=tuple(d.process for d in owners))
        return Loose((one,), tuple(effects), others)
    # As many tracebacks as ranks that ended so: each has one. Otherwise a rank that its agent
    # ended may have raised it too.
    told = next(iter(groups.values()))
    even = len(owners) == len(told)
    owned = tuple(_owned(faults[0], death, told, rank_sure=even) for death in owners)
    return Loose(owned, tuple(effects), others)


# Its process went on, or may have; and these ended with a code of their own, not with Python's.
def _was_survived(event: Traceback) -> bool:
    return event.worked or event.followed > MUCH


def _may_raise(death: Death) -> bool:
    return death.exit_code in (None, 1)


# An agent prints its table when its ranks have ended: what stands behind it may be another's.
def _owned(fault: Fault, death: Death, told: Sequence[Happened], *, rank_sure: bool) -> Fault:
    tables = [e.event.place for e in death.exits if isinstance(e.event, TableEntry)]
    late = bool(tables) and not any(
        each.event.place.document != table.document or each.event.place.offset < table.offset
        for each in told
        for table in tables
    )
    limit = fault.limit if _may_raise(death) and not late else weaker(fault.limit, LIKELY)
    owned = msgspec.structs.replace(with_process(fault, death), limit=limit)
    return msgspec.structs.replace(owned, rank_sure=rank_sure and not late)


# Python ends with exit code 1 for an exception; other codes are a program's or a wrapper's own.
def _owners(nameless: Sequence[Death]) -> list[Death]:
    able = [death for death in nameless if (death.exit_code or 0) > 0 and death.raised is None]
    return [death for death in able if death.exit_code == 1] or able


def _fault(key: str, seen: Sequence[Happened], *, alone: bool) -> Fault:
    event = seen[0].event
    assert isinstance(event, Traceback)
    sign = meaning_of_chain(event)
    means = None if sign is None else sign.means
    cause = cause_of(event, means)
    killed = cause == "worker-killed"
    signal = next(filter(None, map(worker_signal, texts_of(event))), None)
    limit = worth(event, sign, cut=all(each.cut for each in seen))
    if killed:
        # A kill may be any kernel's or person's, a bus error a full /dev/shm.
        limit = weaker(limit, LIKELY) if signal in _CRASHES else POSSIBLE
    if all(isinstance(e.event, Traceback) and _was_survived(e.event) for e in seen):
        limit = weaker(limit, LIKELY)
    return Fault(
        cause=WORKER_CAUSES.get(signal or "", "process.killed") if killed else cause,
        key=key,
        host=event.speaker.host,
        at=event.at,
        sources=frozenset({"rank"}),
        proofs=tuple(dict.fromkeys(proof(each) for each in seen[:3])),
        exception=exception_facts(event),
        # An agent that fails by itself is rarely the first: only where no rank ended. A thread's
        # process goes on.
        sure=limit != POSSIBLE
        and not all(isinstance(e.event, Traceback) and e.event.thread for e in seen)
        and (not is_agents(event) or (alone and means is not None and means not in EFFECTS)),
        limit=limit,
    )


def ranks_write_to_console(run: Run) -> bool:
    """Whether the job's output holds what ranks wrote without a launcher's prefix.

    A rank's words there are nobody's, but they are not lost.
    """
    return any(
        isinstance(each.event, Traceback)
        and each.source == "job output"
        and each.event.speaker.local_rank is None
        and not is_launchers(each)
        and not is_agents(each.event)
        for each in run.happened
    )
