"""The decision: which fault was first, and how sure that is. docs/decision-table.md explains it.

A fault counts as first when no other fault explains it and none can have come before it. What
cannot be ordered is said to be unordered; what has no reason in the evidence is `unknown`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from firstfault.faults.cards import DEVICE
from firstfault.judge.exits import worth_of_exit
from firstfault.judge.order import OOM, slurm_or_rank, surely_before
from firstfault.model.event import KernelSign
from firstfault.model.fault import Effect, Fault, Findings
from firstfault.model.line import Span
from firstfault.model.run import Told
from firstfault.model.verdict import CONFIRMED, LIKELY, POSSIBLE, UNKNOWN, weaker

# Among faults that cannot be ordered, the one that is named (never more than "possible").
_FIRST_NAMED = ("memory.", "gpu.", "node.", "slurm.node-fail", "process.", "storage.", "python.")
# Words of a fabric repeat, in the same words, what another's fault does to them; a library's or a
# general word of a card tells no more than that something before it went wrong. Alone they are one
# source.
_ECHOED = (
    "collective.config",
    "collective.error",
    "collective.network",
    "gpu.library",
    "gpu.nvlink",
    "gpu.row-remap",
    "gpu.unhealthy",
)
# A rank whose connection broke says these: the peer that broke it may have said nothing.
_OF_CONNECTIONS = ("collective.error", "collective.network")
_CARDS = "unhandled cuda error"
# That a process sees no card is no other card's fault.
_PLAIN = "gpu.not-visible"
_GENERAL = ("RuntimeError", "Exception", "OSError", "SystemExit")
_WAITING = (
    "rendezvous.connect",
    "rendezvous.timeout",
    "collective.timeout",
    "collective.error",
    "collective.network",
    "collective.peer-lost",
)
# What is left to say where nothing but effects is in the evidence.
_ONLY_EFFECTS = (("waited", "collective.timeout"), ("peer-lost", "collective.peer-lost"))


# An agent notices a death within its grace time (30 s) and its polling: this is well before.
_LEAD = dt.timedelta(minutes=2)


class Judgement(msgspec.Struct, frozen=True):
    """``roots`` are one fault, seen in one or more ranks (lowest rank first); empty: unknown.

    ``rivals`` are other readings, with what speaks against each. ``effects`` are all the rest.
    """

    cause: str
    confidence: str
    initiator_confidence: str
    roots: tuple[Fault, ...] = ()
    rivals: tuple[tuple[Fault, str], ...] = ()
    effects: tuple[Effect, ...] = ()
    unordered: bool = False


def decide(told: Told, found: Findings) -> Judgement:
    """The first fault of one run's findings.

    Evidence that names several jobs, and nothing that says which one is meant, makes nothing sure.
    """
    judgement = _decide(told, found)
    echoed = judgement.cause.startswith(_ECHOED) or _is_questioned(told, judgement)
    if echoed and not _is_seconded(judgement):
        judgement = msgspec.structs.replace(
            judgement, confidence=weaker(judgement.confidence, LIKELY)
        )
    if not told.mixed and (told.facts is not None or len(told.jobs) < 2):
        return judgement
    return at_most_likely(judgement)


# What the kernel, or the card itself, says besides, is a source of its own.
def _is_seconded(judgement: Judgement) -> bool:
    return any(
        fault.sources & {"kernel", "device"} and len(fault.sources) > 1 for fault in judgement.roots
    )


# A card that the kernel tells something else of may be the reason of what a process says of its own.
def _is_questioned(told: Told, judgement: Judgement) -> bool:
    if not judgement.cause.startswith("gpu.") or judgement.cause == _PLAIN:
        return False
    if any("kernel" in fault.sources for fault in judgement.roots):
        return False
    events = (each.event for run in told.runs for each in run.happened)
    others = (e.means for e in events if isinstance(e, KernelSign))
    return any(each in DEVICE and each != judgement.cause for each in others)


def at_most_likely(judgement: Judgement) -> Judgement:
    """``judgement``, sure of nothing."""
    return msgspec.structs.replace(
        judgement,
        confidence=weaker(judgement.confidence, LIKELY),
        initiator_confidence=weaker(judgement.initiator_confidence, LIKELY),
    )


def _decide(told: Told, found: Findings) -> Judgement:
    pool, echoes = _without_echoes(_pool(found.faults))
    slurms = [fault for fault in pool if fault.cause.startswith("slurm.")]
    others = [fault for fault in pool if not fault.cause.startswith("slurm.")]
    effects = [*found.effects, *(_effect("waited", fault) for fault in echoes if fault.proofs)]
    rivals: list[tuple[Fault, str]] = []
    if slurms and others:
        slurms, others, rivals = slurm_or_rank(slurms, others)
    if slurms:
        told_apart = {id(rival) for rival, _ in rivals}
        effects += [
            _effect("teardown", fault)
            for fault in found.faults
            if fault.proofs and not fault.cause.startswith("slurm.") and id(fault) not in told_apart
        ]
        return _slurm(slurms, rivals, effects, found)
    groups = _groups(others)
    if not groups:
        return _no_fault(told, found, effects)
    return _process(told, groups, rivals, effects, found)


# The sure faults, if there are any. A rank that its agent ended as it raised what others raised has
# failed as these did: with them it is as sure as they are.
def _pool(faults: Sequence[Fault]) -> list[Fault]:
    alike = {(f.cause, f.key) for f in faults if f.sure and f.exception is not None}
    sure = [
        fault if fault.sure else msgspec.structs.replace(fault, sure=True)
        for fault in faults
        if fault.sure or (_is_whole(fault) and (fault.cause, fault.key) in alike)
    ]
    return sure or list(faults)


def _is_whole(fault: Fault) -> bool:
    raised = fault.exception is not None and fault.process is not None
    return raised and fault.rank_sure and fault.limit == CONFIRMED


# What a rank says that waits for, or cannot reach, one that has failed: where something else went
# wrong, that explains it.
def _without_echoes(pool: list[Fault]) -> tuple[list[Fault], list[Fault]]:
    own = [fault for fault in pool if not _is_echo(fault)]
    if not any(fault.sure and not fault.cause.startswith("slurm.") for fault in own):
        return pool, []
    return own, [fault for fault in pool if _is_echo(fault)]


# An agent that finds the store's port taken takes it for another agent's on the same host, and
# goes on: only an exception tells otherwise.
def _is_echo(fault: Fault) -> bool:
    taken = fault.cause == "rendezvous.port-in-use" and fault.exception is None
    return taken or fault.cause.startswith(_WAITING)


def _slurm(
    slurms: list[Fault],
    rivals: list[tuple[Fault, str]],
    effects: list[Effect],
    found: Findings,
) -> Judgement:
    # A job that was cancelled after a node had failed, or at its limit, has that other reason.
    order = (
        "slurm.node-fail",
        "slurm.boot-fail",
        "slurm.launch",
        "slurm.memory-poll",
        "slurm.time-limit",
        "slurm.preempted",
    )
    slurms.sort(key=lambda f: order.index(f.cause) if f.cause in order else len(order))
    first, *rest = slurms
    rivals = [*rivals, *((fault, "Slurm's other reason is the narrower one") for fault in rest)]
    confidence = first.limit
    if rivals and any(not fault.cause.startswith("slurm.") for fault, _ in rivals):
        confidence = weaker(confidence, LIKELY)
    host = UNKNOWN if first.host is None else LIKELY
    if first.host is not None and "slurm" in first.sources:
        host = confidence
    return Judgement(
        first.cause,
        confidence,
        host,
        (first,),
        tuple(rivals),
        (*effects, *_unlogged(found)),
    )


def _groups(faults: Sequence[Fault]) -> list[list[Fault]]:
    groups: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults:
        groups.setdefault((fault.cause, fault.key), []).append(fault)
    for key, group in groups.items():
        # A file of which nothing tells whose it is repeats what a known rank said.
        known = [fault for fault in group if _is_placed(fault)]
        groups[key] = sorted(known or group[:1], key=_by_rank)
    return [groups[key] for key in sorted(groups)]


def _is_placed(fault: Fault) -> bool:
    process = fault.process
    return fault.host is not None or (process is not None and process.rank is not None)


def _by_rank(fault: Fault) -> tuple[bool, int, str]:
    rank = fault.process.rank if fault.process else None
    return rank is None, rank if rank is not None else 0, fault.host or ""


def _process(
    told: Told,
    groups: list[list[Fault]],
    rivals: list[tuple[Fault, str]],
    effects: list[Effect],
    found: Findings,
) -> Judgement:
    first = next((g for g in groups if all(_earlier(g, h) for h in groups if h is not g)), None)
    if first is None:
        return _unordered(groups, rivals, effects, found)
    lone = first[0]
    confidence = weaker(_confidence(told, first, found), lone.limit)
    if any(not surely_before(lone, fault) for fault, _ in rivals):
        confidence = weaker(confidence, LIKELY)
    later = [fault for group in groups if group is not first for fault in group]
    if any(not surely_before(one, fault) for one in first for fault in later):
        confidence = weaker(confidence, LIKELY)
    if lone.process is None and (later or rivals):
        # A kill that hit no rank that is known need not have broken the job.
        confidence = weaker(confidence, LIKELY)
    rivals = [*rivals, *((fault, "it came later, by its node's clock") for fault in later)]
    first, repeated = _first_of(first)
    lone = first[0]
    effects = [*effects, *(_effect("repeated", fault) for fault in repeated if fault.proofs)]
    who = confidence
    if lone.process is None or lone.process.rank is None:
        who = UNKNOWN if lone.host is None else confidence
    if lone.candidates:
        who = POSSIBLE
    elif (
        not lone.rank_sure
        or _is_of_connection(lone)
        or (lone.process is not None and lone.process.guessed)
    ):
        who = weaker(who, LIKELY)
    return Judgement(
        lone.cause,
        confidence,
        who,
        tuple(first),
        tuple(rivals),
        (*effects, *_unlogged(found)),
    )


def _is_of_connection(fault: Fault) -> bool:
    said = fault.cause in _OF_CONNECTIONS
    return said and not any(_CARDS in each.place.text for each in fault.proofs)


# Of ranks that the kernel killed in turn on one host, the first is the initiator. Exceptions have
# no such order: their times are when they were noted.
def _first_of(group: list[Fault]) -> tuple[list[Fault], list[Fault]]:
    killed: dict[str | None, list[Fault]] = {}
    for fault in group:
        if "kernel" in fault.sources and fault.cause in OOM:
            killed.setdefault(fault.host, []).append(fault)
    later = {
        id(fault)
        for faults in killed.values()
        for fault in faults
        if any(surely_before(one, fault) for one in faults)
    }
    first = [fault for fault in group if id(fault) not in later]
    return first, [fault for fault in group if id(fault) in later]


def _effect(kind: str, fault: Fault) -> Effect:
    return Effect(kind, fault.proofs[0], fault.process, fault.at)


# Whether each of the one group came before each of the other.
def _earlier(group: Sequence[Fault], other: Sequence[Fault]) -> bool:
    latest = [fault.at.latest if fault.at else None for fault in group]
    earliest = [fault.at.earliest if fault.at else None for fault in other]
    ends = [each for each in latest if each is not None]
    starts = [each for each in earliest if each is not None]
    if len(ends) < len(latest) or len(starts) < len(earliest):
        return False
    return max(ends) < min(starts)


def _unordered(
    groups: list[list[Fault]],
    rivals: list[tuple[Fault, str]],
    effects: list[Effect],
    found: Findings,
) -> Judgement:
    def place(group: list[Fault]) -> int:
        cause = group[0].cause
        return next((i for i, p in enumerate(_FIRST_NAMED) if cause.startswith(p)), 99)

    ordered = sorted(groups, key=place)
    against = "nothing in the evidence orders the two"
    others = [(fault, against) for group in ordered[1:] for fault in group]
    return Judgement(
        ordered[0][0].cause,
        POSSIBLE,
        POSSIBLE,
        tuple(fault for group in ordered for fault in group),
        (*rivals, *others),
        (*effects, *_unlogged(found)),
        unordered=True,
    )


# The decision table: what a single first fault's evidence is worth.
def _confidence(told: Told, group: Sequence[Fault], found: Findings) -> str:
    fault = group[0]
    if not fault.sure:
        return POSSIBLE
    if found.unnamed:
        # A rank without a reason may have been first.
        return LIKELY
    if told.absent and fault.exception is not None and fault.exception.type in _GENERAL:
        # What ended a node that is silent may have been first: programs say so in these.
        return LIKELY
    if fault.cause in OOM or fault.cause.startswith("node."):
        return CONFIRMED
    if fault.cause == "process.killed":
        state = told.facts.state if told.facts else None
        read = kernel_read(told, fault.host, fault.at) == "full" and state in (None, "FAILED")
        return CONFIRMED if read else LIKELY
    if fault.cause in ("process.abort", "process.bus-error") and not fault.sources & {
        "rank",
        "kernel",
    }:
        # The signal is certain; that no narrower cause explains it takes the rank's own words.
        return LIKELY
    if fault.cause.startswith("rendezvous.") and told.absent:
        # What befell a node that is silent, the others met too.
        return LIKELY
    if fault.cause.startswith("rendezvous.") and not any(e.process for e in found.effects):
        # No rank had begun: what other agents say, they say of the same.
        return CONFIRMED
    if fault.process is None:
        return LIKELY if fault.candidates else CONFIRMED if _alone(found) else LIKELY
    return CONFIRMED


# An exception that no prefix gives to a rank: sure when nothing else in the logs went wrong.
def _alone(found: Findings) -> bool:
    return not any(effect.kind in ("peer-lost", "waited") for effect in found.effects)


def kernel_read(told: Told, host: str | None, at: Span | None = None) -> str:
    """How much of ``host``'s kernel log was read: "full", "partial" or "none".

    With ``at``, the log counts as full when it is whole for a while before that moment.
    """
    logs = {log.host: log for log in told.kernel}
    log = logs.get(host) or logs.get(None)
    if log is None:
        return "none"
    latest = at.latest if at is not None else None
    if log.since is not None and latest is not None and log.since + _LEAD < latest:
        return "full"
    return log.state


def _unlogged(found: Findings) -> tuple[Effect, ...]:
    return tuple(_effect("unlogged", fault) for fault in found.unnamed if fault.proofs)


# No fault has a name: perhaps one process alone ended badly, and is the one to look at.
def _no_fault(told: Told, found: Findings, effects: list[Effect]) -> Judgement:
    unnamed = sorted(found.unnamed, key=_by_rank)
    kinds = {effect.kind for effect in effects}
    if not unnamed:
        for kind, cause in _ONLY_EFFECTS:
            if kind in kinds:
                return Judgement(cause, LIKELY, UNKNOWN, (), (), tuple(effects))
        return Judgement("unknown", UNKNOWN, UNKNOWN, (), (), tuple(effects))
    alike = len({fault.key for fault in unnamed}) == 1
    worth = worth_of_exit(unnamed) if alike else UNKNOWN
    if worth != UNKNOWN:
        # A rank may end itself so for the loss of a peer, on a node that is silent.
        worth = weaker(worth, LIKELY) if told.absent else worth
        return Judgement("process.exit", worth, worth, tuple(unnamed), (), tuple(effects))
    who = LIKELY if alike and len(unnamed) == 1 else POSSIBLE
    return Judgement("unknown", UNKNOWN, who, tuple(unnamed), (), tuple(effects), len(unnamed) > 1)
