"""Faults of single processes: signals, exceptions, and processes that left no reason.

Within one process the kernel's word comes first, then what the process itself raised, then the
signal it died of: an exception that ends in a crash while shutting down is the exception's.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firstfault.faults.collective_words import COLLECTIVE_ERROR, only_lost_a_peer, own_reason
from firstfault.faults.death import Death, Raised
from firstfault.faults.exceptions import (
    cause_of,
    exception_facts,
    own_frame,
    said_more,
    same_key,
    worth,
)
from firstfault.faults.signals import SIGNAL_CAUSES, WORKER_CAUSES, exit_signal, signal_name
from firstfault.model.event import (
    AgentSignalled,
    FatalError,
    Sign,
    TableEntry,
    TaskEnd,
    Traceback,
    Trap,
)
from firstfault.model.fault import Effect, Fault, Proof
from firstfault.model.line import Place, Span
from firstfault.model.run import Happened, Process, Run
from firstfault.model.verdict import CONFIRMED, LIKELY, POSSIBLE, weaker
from firstfault.readers.elastic import of_agent
from firstfault.signatures import EFFECTS, meaning_of_exception

AT_ABORT = "process.abort"
AT_EXIT = "process.abort-at-exit"
# Python's own words on the script that it was to run.
_INTERPRETERS = ("line.missing-script", "line.forbidden-script")
# What a process says of these, a signal that it died of may follow.
NARROWER = (
    "gpu.", "memory.", "collective.", "storage.", "process.resource-limit", "process.stuck",
)  # fmt: skip
# Faults of the device and of collectives abort a process too.
_ABORTING = ("gpu.", "collective.", "waited", "memory.gpu")


def proof(each: Happened) -> Proof:
    """The line that an event rests on."""
    host = each.process.host if each.process else None
    event = each.event
    # A table's entry says most by the exception that it prints.
    place = (event.told_at if isinstance(event, TableEntry) else None) or event.place
    return Proof(place, each.source, host or getattr(each.event, "host", None))


def is_torchruns_end(each: Happened) -> bool:
    """Whether torchrun itself failed there, as it does when none of its attempts is left."""
    event = each.event
    return (
        isinstance(event, Traceback)
        and each.process is None
        and event.type.endswith("ChildFailedError")
        and of_agent(event.frames)
    )


class Surroundings(msgspec.Struct, frozen=True):
    """What a run tells that bears on each process's end.

    ``signs`` are the telling lines of each process; ``aborting`` says that something in the logs
    aborts processes, ``task_ended`` that srun noted the end of a task, or that torchrun failed.
    ``finished`` are the lines of nobody in particular that say the work was done. ``stopped`` are
    the words of agents that were told to stop, ``lost`` where each process said that it lost a peer.
    """

    signs: dict[Process, list[Happened]]
    aborting: bool
    task_ended: bool
    finished: tuple[Happened, ...] = ()
    stopped: tuple[AgentSignalled, ...] = ()
    lost: dict[Process, list[Place]] = {}

    def lost_before(self, death: Death, raised: Raised) -> bool:
        """Whether the process had said that it lost a peer before it raised what ended it."""
        return any(
            place.document == each.event.place.document and place.offset < each.event.place.offset
            for place in self.lost.get(death.process, ())
            for each in raised.seen
        )

    def stopped_before(self, death: Death) -> bool:
        """Whether the agent that notes the end of that process was told to stop before it."""
        return any(
            each.event.place.document == event.place.document
            and each.event.place.offset > event.place.offset
            and event.speaker.task in (None, death.process.task)
            for each in death.exits
            for event in self.stopped
        )

    def finished_in(self, death: Death) -> list[Happened]:
        """Of ``finished``, those in the documents that note the end of that process."""
        documents = {each.event.place.document for each in death.exits}
        return [each for each in self.finished if each.event.place.document in documents]


def surroundings(run: Run) -> Surroundings:
    """The run's `Surroundings`."""
    signs: dict[Process, list[Happened]] = {}
    for each in run.happened:
        if isinstance(each.event, Sign) and each.process is not None:
            signs.setdefault(each.process, []).append(each)
    return Surroundings(
        signs,
        any(_may_abort(each) for each in run.happened),
        any(isinstance(e.event, TaskEnd) or is_torchruns_end(e) for e in run.happened),
        tuple(e for e in run.happened if e.process is None and e.means == "finished"),
        tuple(e.event for e in run.happened if isinstance(e.event, AgentSignalled)),
        _losses(run),
    )


# torch's own "terminate called" may be about any of the rest.
def _may_abort(each: Happened) -> bool:
    means = each.means or ""
    return means.startswith(_ABORTING) or (means == AT_ABORT and each.at_most != CONFIRMED)


def _losses(run: Run) -> dict[Process, list[Place]]:
    found: dict[Process, list[Place]] = {}
    for each in run.happened:
        if each.process is not None and _said(each) in ("peer-lost", "waited"):
            found.setdefault(each.process, []).append(each.event.place)
    return found


def _said(each: Happened) -> str | None:
    event = each.event
    if not isinstance(event, Traceback) or event.bare:
        return each.means
    known = meaning_of_exception(event.type, event.message)
    return None if known is None else known.means


def of_death(death: Death, around: Surroundings) -> Fault | Effect | None:
    """What one process's end offers: a fault, an effect of another's, or None for nothing."""
    signs = around.signs.get(death.process, [])
    if death.raised is not None and death.raised.means in ("peer-lost", "waited", "stopped"):
        return _victim(death, death.raised)
    if death.raised is not None and only_lost_a_peer(death.raised.event, death.raised.means, signs):
        return Effect("peer-lost", proof(death.raised.seen[0]), death.process)
    if death.raised is not None:
        fault = _raised_fault(death, death.raised, signs)
        if around.lost_before(death, death.raised):
            # What a process raises as it tidies up after a lost peer.
            fault = msgspec.structs.replace(fault, sure=False)
        return fault
    waited = next((e for e in signs if e.means in ("waited", "peer-lost")), None)
    if waited is not None and exit_signal(death.exit_code) in (6, None):
        return Effect(waited.means or "", proof(waited), death.process)
    number = exit_signal(death.exit_code)
    if number is None and death.fatal:
        fatal = death.fatal[0].event
        number = fatal.signal if isinstance(fatal, FatalError) else None
    if number in (1, 2, 15) or (number == 9 and death.forced):
        kind = "ended-by-agent" if death.closed or death.forced else "terminated"
        return Effect(kind, proof(death.exits[0]), death.process, death.noticed_at)
    if number in SIGNAL_CAUSES:
        return _signal_fault(death, number, signs, around)
    words = [each for each in signs if each.means not in EFFECTS]
    if (death.exit_code or 0) > 0 and words:
        return worded(death, words)
    return None


def worded(death: Death, words: Sequence[Happened]) -> Fault:
    """A process that ended itself with an exit code, and a line that says why programs do so.

    Exit code 2 is argparse's own, and the interpreter's for a script that it cannot open: with
    their words nothing else is meant.
    """
    means = words[-1].means or ""
    worked = isinstance(words[-1].event, Sign) and words[-1].event.worked
    plain = means == "python.arguments" or _signature(words[-1]) in _INTERPRETERS
    sure = plain and death.exit_code == 2 and not worked
    told = [each for each in words if each.means == means]
    return Fault(
        cause=means,
        key=means,
        process=death.process,
        host=death.process.host,
        at=death.noticed_at,
        sources=frozenset({"agent", "rank"}),
        proofs=tuple(dict.fromkeys(proof(each) for each in (*told[:2], *death.exits[:1]))),
        sure=not death.closed,
        limit=CONFIRMED if sure else weaker(LIKELY, *(each.at_most for each in told)),
        pid=death.process.pid,
        facts=(("exit_code", str(death.exit_code)),),
    )


def unnamed(death: Death, *, console: bool = False) -> Fault:
    """A process that ended badly and left no reason.

    ``console`` says that the ranks wrote into the job's output, without a word of whose it is.
    """
    code = death.exit_code
    return Fault(
        cause="process.exit",
        key=f"exit {code}",
        process=death.process,
        host=death.process.host,
        at=death.noticed_at,
        sources=frozenset({"agent"}),
        proofs=tuple(proof(each) for each in death.exits[:2]),
        pid=death.process.pid,
        facts=(
            *((("exit_code", str(code)),) if code is not None else ()),
            *((("heard", "itself"),) if death.process.lines is not None else ()),
            *((("heard", "console"),) if death.process.lines is None and console else ()),
        ),
    )


def _signature(each: Happened) -> str | None:
    return each.event.signature if isinstance(each.event, Sign) else None


def _victim(death: Death, raised: Raised) -> Effect:
    return Effect(raised.means or "", proof(raised.seen[0]), death.process, _raised_at(raised))


def _raised_at(raised: Raised) -> Span | None:
    spans = [e.event.at for e in raised.seen if isinstance(e.event, Traceback) and e.event.at]
    return spans[0] if spans else None


def _came_before(one: Span | None, other: Span | None) -> bool:
    return one is not None and other is not None and one.before(other)


def _raised_fault(death: Death, raised: Raised, signs: Sequence[Happened]) -> Fault:
    event = raised.event
    cause = cause_of(event, raised.means)
    limit = worth(event, raised.signature, cut=raised.cut)
    if limit == CONFIRMED and not raised.ended:
        limit = LIKELY
    facts = [*said_more(event)]
    key = same_key(event, raised.means)
    own: Sequence[Happened] = ()
    if cause == COLLECTIVE_ERROR and (own := own_reason(signs)):
        # NCCL's own lines, or the exception's further ones, say what it met.
        cause, limit = own[0].means or cause, weaker(limit, LIKELY, *(each.at_most for each in own))
        key = cause
    if cause == "worker-killed":
        cause = WORKER_CAUSES.get(death.worker_signal or "Killed", "process.killed")
        if death.worker_signal is None:
            # It exited "unexpectedly": by a signal or by itself.
            limit = POSSIBLE
        elif death.kills or cause == "process.bus-error":
            # A kill that is another job's; or a full /dev/shm, of which nothing is left to tell.
            limit = weaker(limit, LIKELY)
        shared = [each for each in signs if each.means == "memory.shm"]
        if cause in ("process.bus-error", "process.killed") and shared:
            # torch's own hint, which is a guess.
            cause, limit = "memory.shm", weaker(LIKELY, *(each.at_most for each in shared))
        facts.append(("worker", ", ".join(str(pid) for pid in death.worker_pids)))
    sources = {"agent" for _ in death.exits[:1]} | {
        "error file" if isinstance(e.event, Traceback) and e.event.recorded else "rank"
        for e in raised.seen
    }
    ordered = [*raised.seen, *own[:1], *death.exits[:1]]
    return Fault(
        cause=cause,
        key=key,
        process=death.process,
        host=death.process.host,
        at=_raised_at(raised) or death.noticed_at,
        sources=frozenset(sources),
        proofs=tuple(dict.fromkeys(proof(each) for each in ordered)),
        exception=exception_facts(event),
        # What a process raises when its agent ends it, is not what the agent ended it for.
        sure=limit != POSSIBLE
        and (not death.closed or _came_before(_raised_at(raised), death.closed_at)),
        limit=limit,
        pid=death.worker_pids[0] if len(death.worker_pids) == 1 else death.process.pid,
        facts=tuple(facts),
    )


def _signal_fault(
    death: Death, number: int, signs: Sequence[Happened], around: Surroundings
) -> Fault:
    cause = SIGNAL_CAUSES[number]
    # Something in the logs aborts processes; or the kernel names this pid, as another job's; or
    # one line of an agent is all there is.
    lone = len(death.exits) < 2 and not (around.task_ended or death.fatal or death.traps)
    doubt = (number == 6 and around.aborting) or (number == 9 and bool(death.kills)) or lone
    # An agent that is told to stop kills what does not end in time.
    doubt = doubt or (number == 9 and around.stopped_before(death))
    # A fatal error may be of a process that the rank started: its own end, or the kernel, tells.
    doubt = doubt or (exit_signal(death.exit_code) != number and not death.traps)
    finished = [e for e in signs if e.means == "finished"] or around.finished_in(death)
    narrower = [e for e in signs if (e.means or "").startswith(NARROWER)]
    if narrower and number in (6, 11):
        cause = narrower[0].means or cause
        doubt = doubt or cause == "process.stuck"
    elif finished and number in (6, 11):
        cause = AT_EXIT
        # Whether more work was to come, its own words tell: they are the last of its own file.
        doubt = doubt or not (finished[-1].last and finished[-1].source == "rank's log")
        signs = [*signs, *finished[:1]]
    sources = {"agent" for _ in death.exits[:1]}
    sources |= {"rank" for _ in (*death.fatal, *signs)} | {"kernel" for _ in death.traps}
    traps = [Proof(e.event.place, e.source, death.process.host) for e in death.traps]
    ordered = [proof(each) for each in (*death.exits, *death.fatal)]
    ordered += [*traps, *(proof(each) for each in signs)]
    library = next(
        (e.event.library for e in death.traps if isinstance(e.event, Trap) and e.event.library),
        None,
    )
    frames = next((e.event.frames for e in death.fatal if isinstance(e.event, FatalError)), ())
    frame = own_frame(frames)
    facts = [("signal", signal_name(number))]
    if library:
        facts.append(("library", library))
    if frame:
        facts.append(("frame", f"{frame.function} at {frame.file}:{frame.line}"))
    trapped = next((e.event.at for e in death.traps if isinstance(e.event, Trap)), None)
    return Fault(
        cause=cause,
        key=cause,
        process=death.process,
        host=death.process.host,
        at=trapped or death.noticed_at,
        sources=frozenset(sources),
        proofs=tuple(dict.fromkeys(ordered)),
        # A process that its agent still had to end was alive when another had already failed.
        sure=not death.closed,
        limit=weaker(LIKELY if doubt else CONFIRMED, *(each.at_most for each in signs)),
        pid=death.process.pid,
        facts=tuple(facts),
    )


def with_process(fault: Fault, death: Death) -> Fault:
    """``fault``, found to be that process's."""
    return msgspec.structs.replace(
        fault,
        process=death.process,
        host=death.process.host or fault.host,
        at=fault.at or death.noticed_at,
        sources=fault.sources | {"agent"},
        proofs=(*fault.proofs, *(proof(each) for each in death.exits[:1])),
    )
