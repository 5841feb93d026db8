"""Ranks whose silence is the evidence: one that left early, one that never arrived.

No line says that a rank returned with success while others needed it, or that it hangs. It is
told by what is around it: the other ranks lost a peer or waited in vain, its own stream was read
and holds no word of an error, and its agent ended it (then it was alive) or had no need to (then
it had ended by itself, with success).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import msgspec

from firstfault.faults.loose import ranks_write_to_console
from firstfault.faults.processes import proof
from firstfault.faults.sequence import behind, lagging
from firstfault.model.event import (
    AgentSignalled,
    ClosingSignal,
    ExitNoticed,
    FatalError,
    Sign,
    TableEntry,
    TaskEnd,
    TornTraceback,
    Traceback,
)
from firstfault.model.fault import Effect, Fault, Proof
from firstfault.model.run import Happened, Process, Run, Told
from firstfault.model.verdict import CONFIRMED, LIKELY
from firstfault.signatures import EFFECTS

LEFT = "process.left-early"
TIMEOUT = "collective.timeout"
# torch, csrc/distributed/c10d/ProcessGroupGloo.cpp, monitoredBarrier: names who did not come.
_STRAGGLERS = re.compile(r"\bRanks? (\d{1,7}(?:, \d{1,7}){0,1000}) failed to pass monitoredBarrier")

_PAIR = 2
_MOST_RANKS = 1_000_000
_AGENTS = (ExitNoticed, TableEntry, ClosingSignal, AgentSignalled)
# A process that said these was not silent, whatever they mean.
_WORDS = (FatalError, TornTraceback)


class _Agent(msgspec.Struct, frozen=True):
    """What one agent said of its ranks: whom it saw fail, whose pids it ended."""

    reported: bool
    ended: frozenset[int]
    mates: tuple[Process, ...]
    failed: frozenset[Process]


def silent_faults(told: Told, run: Run, effects: Sequence[Effect]) -> list[Fault]:
    """The ranks that did not fail while all others were hit, if silence tells which they are.

    For a run in which nothing else went wrong first. Several ranks that cannot be told apart
    are the candidates of one fault.
    """
    hit = {e.process for e in effects if e.kind in ("peer-lost", "waited") and e.process}
    waited = [e for e in effects if e.kind == "waited"]
    if not hit and not waited:
        return []
    proofs = _of_each_kind(effects)
    whole = _all_heard(told, run) and not has_untold_ends(run, hit)
    limit = CONFIRMED if whole else LIKELY
    spoke = {e.process for e in run.happened if _is_of_trouble(e)}
    quiet = [p for p in run.roster if p not in hit | spoke and p.lines is not None and _is_named(p)]
    ends = {process: _end(process, run) for process in quiet}
    for process in _unseen(run, hit) if ranks_write_to_console(run) else ():
        quiet.append(process)
        ends[process] = "alive"
    left = [process for process, end in ends.items() if end == "left"]
    named = _stragglers(run)
    if named:
        return [_named(process, left, run, proofs) for process in _of_ranks(run, named)]
    if left:
        return [_fault(LEFT, process, proofs, limit) for process in left]
    if not waited and (gone := _finished_unseen(run, hit)) is not None:
        one = _fault(LEFT, gone.process, (proof(gone), *proofs), LIKELY)
        return [msgspec.structs.replace(one, rank_sure=False)]
    alive = [process for process, end in ends.items() if end == "alive"]
    if waited and not alive and (late := _late(run, proofs)):
        return late
    unheard = _unheard(run)
    if len(unheard) == 1 and not quiet and len(hit) + 1 == run.expected_ranks:
        # All others were hit: the one of which nothing is in the evidence is whom they miss.
        cause = TIMEOUT if waited else "collective.peer-lost"
        lost = _fault(cause, Process(run.attempt, unheard[0]), proofs, LIKELY)
        return [msgspec.structs.replace(lost, rank_sure=False)]
    if not waited or not alive or len(alive) < len(quiet):
        return []
    if len(alive) == 1:
        # Of one that nobody heard, its own words may tell more.
        limit = limit if alive[0].lines is not None else LIKELY
        one = _fault(TIMEOUT, alive[0], proofs, limit)
        # It may have waited too, and been ended before it could say so.
        return [msgspec.structs.replace(one, rank_sure=False)]
    many = _fault(TIMEOUT, None, proofs, limit)
    return [msgspec.structs.replace(many, candidates=tuple(alive))]


def _fault(
    cause: str, process: Process | None, proofs: tuple[Proof, ...], limit: str = CONFIRMED
) -> Fault:
    return Fault(
        cause=cause,
        key=cause,
        process=process,
        host=process.host if process else None,
        sources=frozenset({"rank", "agent"}),
        proofs=proofs,
        limit=limit,
        pid=process.pids[0] if process and len(process.pids) == 1 else None,
    )


# Who is behind by the watchdogs' numbers, or by torch's own report on a desync. Of two ranks the one
# that is ahead may have begun what it should not have.
def _late(run: Run, proofs: tuple[Proof, ...]) -> list[Fault]:
    late, lines = behind(run)
    if not late:
        ranks, line = lagging(run)
        late = tuple(_of_ranks(run, frozenset(ranks)))
        lines = () if line is None else (line,)
    if not late:
        return []
    told = tuple(dict.fromkeys((*(proof(each) for each in lines), *proofs)))
    lone = len(late) == 1 and len(lines) > _PAIR
    one = _fault(TIMEOUT, late[0] if lone else None, told, LIKELY)
    return [msgspec.structs.replace(one, rank_sure=False, candidates=() if lone else late)]


def _named(process: Process, left: Sequence[Process], run: Run, proofs: tuple[Proof, ...]) -> Fault:
    told = next((proof(e) for e in run.happened if _straggler_ranks(e)), None)
    own = proofs if told is None else tuple(dict.fromkeys((told, *proofs)))
    return _fault(LEFT if process in left else TIMEOUT, process, own)


def _of_each_kind(effects: Sequence[Effect]) -> tuple[Proof, ...]:
    found: dict[str, Proof] = {}
    for effect in effects:
        if effect.kind in ("waited", "peer-lost"):
            found.setdefault(effect.kind, effect.proof)
    return tuple(found[kind] for kind in ("waited", "peer-lost") if kind in found)


# How a rank ended that said nothing of an error: "left" with success before its agent ended the
# others, "alive" until its agent ended it, None where nothing tells.
def _end(process: Process, run: Run) -> str | None:
    if _task_ended(process, run) is not None:
        return _task_ended(process, run)
    agent = _agent(process, run)
    if set(process.pids) & agent.ended:
        return "alive"
    if process in agent.failed or not agent.reported:
        return None
    known = {pid for mate in agent.mates for pid in mate.pids}
    unknown = [mate for mate in agent.mates if mate not in agent.failed and not mate.pids]
    nameless = len(agent.ended - known)
    if nameless >= len(unknown) > 0:
        return "alive"
    if nameless == 0 and _tells_closings(run) and _all_known(run):
        return "left"
    return None


# A console's prefix alone may stand for a process that another of the roster is.
def _is_named(process: Process) -> bool:
    return process.rank is not None or process.host is not None


# Processes that an agent ended and that nothing names: where its other ranks' local numbers leave
# just as many free, and their ranks follow them.
def _unseen(run: Run, hit: Collection[Process]) -> list[Process]:
    found: list[Process] = []
    for agent in {_key(p): _agent(p, run) for p in run.roster if p in hit}.values():
        known = {pid for mate in agent.mates for pid in mate.pids}
        ended = len(agent.ended - known)
        locals_ = {mate.local_rank for mate in agent.mates if mate.local_rank is not None}
        free = sorted(set(range(len(locals_) + ended)) - locals_)
        bases = {_base(mate) for mate in agent.mates}
        if not ended or len(free) != ended or len(bases) != 1 or None in bases:
            continue
        host = agent.mates[0].host
        base = bases.pop() or 0
        pids = tuple(agent.ended - known) if ended == 1 else ()
        found += [
            Process(run.attempt, base + each, each, host, agent.mates[0].task, pids=pids)
            for each in free
        ]
    return found


# A rank of which nothing but its word that its work was done is in the evidence: in a console that
# notes the ends of its agent's other ranks. Its number is the one that is free there, if agents
# have ranks alike.
def _finished_unseen(run: Run, hit: Collection[Process]) -> Happened | None:
    said = [e for e in run.happened if e.process is None and _says_finished(e)]
    if len(said) != 1:
        return None
    document = said[0].event.place.document
    mates = {e.process for e in run.happened if e.event.place.document == document and e.process}
    agents = {_key(mate) for mate in mates}
    if not mates or not mates <= set(hit) or len(agents) != 1:
        return None
    own = agents.pop()
    members: dict[tuple[str, object], list[Process]] = {}
    for process in run.roster:
        members.setdefault(_key(process), []).append(process)
    sizes = {len(found) for key, found in members.items() if key != own}
    locals_ = {mate.local_rank for mate in mates}
    free = sorted(set(range(sizes.pop())) - locals_) if len(sizes) == 1 else []
    bases = {_base(mate) for mate in mates}
    host = next(iter(mates)).host
    # Of another agent, perhaps, whose console it is, too.
    left = Process(run.attempt)
    if len(free) == 1 and len(bases) == 1 and None not in bases:
        left = Process(run.attempt, (bases.pop() or 0) + free[0], free[0], host)
    return msgspec.structs.replace(said[0], process=left)


def _says_finished(each: Happened) -> bool:
    return isinstance(each.event, Sign) and each.event.means == "finished"


def _base(mate: Process) -> int | None:
    return None if mate.rank is None or mate.local_rank is None else mate.rank - mate.local_rank


# A task that srun started itself: srun notes each task that does not end with success.
def _task_ended(process: Process, run: Run) -> str | None:
    if process.task is None or any(isinstance(e.event, _AGENTS) for e in run.happened):
        return None
    noted = [e.event for e in run.happened if isinstance(e.event, TaskEnd)]
    own = [event for event in noted if process.task in event.tasks]
    if own:
        return "alive" if all(event.kind == "signal" for event in own) else None
    return "left" if noted else None


def _agent(process: Process, run: Run) -> _Agent:
    mates = tuple(p for p in run.roster if _share_agent(p, process))
    ended: set[int] = set()
    failed: set[Process] = set()
    own = _agent_pids(mates, run)
    for each in run.happened:
        event = each.event
        if isinstance(event, ClosingSignal) and _is_agents(event, process, own, run):
            ended.add(event.pid)
        elif isinstance(event, ExitNoticed | TableEntry) and each.process in mates:
            failed.add(each.process)
    gone = frozenset(p for p in failed if not set(p.pids) & ended)
    return _Agent(bool(gone), frozenset(ended), mates, gone)


def _key(process: Process) -> tuple[str, object]:
    for name in ("task", "run", "host"):
        value = getattr(process, name)
        if value is not None:
            return name, value
    return "", None


def _share_agent(one: Process, other: Process) -> bool:
    return _key(one) == _key(other)


def _agent_pids(mates: Sequence[Process], run: Run) -> frozenset[int]:
    return frozenset(
        each.event.agent_pid
        for each in run.happened
        if isinstance(each.event, ExitNoticed)
        and each.process in mates
        and each.event.agent_pid is not None
    )


def _is_agents(event: ClosingSignal, process: Process, own: frozenset[int], run: Run) -> bool:
    who = event.speaker
    if who.task is not None and process.task is not None:
        return who.task == process.task
    if who.host is not None and process.host is not None:
        return who.host == process.host
    if own and event.agent_pid is not None:
        return event.agent_pid in own
    return len({_key(each) for each in run.roster}) == 1


# Agents before torch 1.10 end their ranks without a word; their tables name no host.
def _tells_closings(run: Run) -> bool:
    return any(
        isinstance(each.event, ClosingSignal)
        or (isinstance(each.event, TableEntry) and each.event.host is not None)
        for each in run.happened
    )


# Whether each process that an agent ended is told to be one agent's.
def _all_known(run: Run) -> bool:
    owners = {process: _agent_pids([process], run) for process in run.roster}
    return all(
        any(_is_agents(each.event, process, own, run) for process, own in owners.items())
        for each in run.happened
        if isinstance(each.event, ClosingSignal)
    )


# Whether every rank that the job had was heard: else one of the others may be the culprit.
def _all_heard(told: Told, run: Run) -> bool:
    heard = {process.host for process in run.roster if process.lines is not None}
    whole = all(process.lines is not None for process in run.roster)
    return whole and bool(told.nodes) and not told.absent and set(told.nodes) <= heard


# Ranks that there were, by the word of a launcher or of the program, and that nothing else names.
def _unheard(run: Run) -> list[int]:
    if run.expected_ranks is None or not 0 < run.expected_ranks <= _MOST_RANKS:
        return []
    return sorted(set(range(run.expected_ranks)) - {process.rank for process in run.roster})


def _is_of_trouble(each: Happened) -> bool:
    event = each.event
    return isinstance(event, _WORDS) or (isinstance(event, Sign) and event.means not in EFFECTS)


def has_untold_ends(run: Run, hit: Collection[Process]) -> bool:
    """Whether srun notes the bad end of a task of which no failed process is known."""
    noted = (ExitNoticed, TableEntry)
    failed = {e.process for e in run.happened if isinstance(e.event, noted)} | set(hit)
    tasks = {process.task for process in failed if process is not None}
    ends = [e.event for e in run.happened if isinstance(e.event, TaskEnd) and e.process is None]
    return any(not set(end.tasks) <= tasks for end in ends if end.kind == "exit")


def _stragglers(run: Run) -> frozenset[int]:
    return frozenset(rank for each in run.happened for rank in _straggler_ranks(each))


def _straggler_ranks(each: Happened) -> tuple[int, ...]:
    if not isinstance(each.event, Traceback):
        return ()
    match = _STRAGGLERS.search(each.event.message)
    return tuple(int(part) for part in match[1].split(", ")) if match else ()


def _of_ranks(run: Run, ranks: frozenset[int]) -> list[Process]:
    known = {process.rank: process for process in run.roster}
    return [known.get(rank) or Process(run.attempt, rank) for rank in sorted(ranks)]
