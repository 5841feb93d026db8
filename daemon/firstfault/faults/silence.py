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

from firstfault.faults.agents import Agent, Agents, key_of
from firstfault.faults.desync import apart
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
DESYNC = "collective.desync"
# torch, csrc/distributed/c10d/ProcessGroupGloo.cpp, monitoredBarrier: names who did not come.
_STRAGGLERS = re.compile(r"\bRanks? (\d{1,7}(?:, \d{1,7}){0,1000}) failed to pass monitoredBarrier")

_PAIR = 2
_MOST_RANKS = 1_000_000
_AGENTS = (ExitNoticed, TableEntry, ClosingSignal, AgentSignalled)
# A process that said these was not silent, whatever they mean.
_WORDS = (FatalError, TornTraceback)


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
    if waited and (differing := _apart(run, proofs)):
        return differing
    whole = _all_heard(told, run) and not has_untold_ends(run, hit)
    limit = CONFIRMED if whole else LIKELY
    known = hit | {e.process for e in run.happened if _is_of_trouble(e)}
    quiet = [p for p in run.roster if p not in known and p.lines is not None and _is_named(p)]
    agents = Agents(run)
    ends = _ends(quiet, agents, run)
    for process in _unseen(run, agents, hit) if ranks_write_to_console(run) else ():
        quiet.append(process)
        ends[process] = "alive"
    left = [process for process, end in ends.items() if end == "left"]
    named = _stragglers(run)
    if named:
        return [_named(process, left, run, proofs) for process in _of_ranks(run, named)]
    if left:
        return [_fault(LEFT, process, proofs, limit) for process in left]
    if not waited and (gone := _finished_unseen(run, agents, hit)) is not None:
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
        return [_hung(run, alive[0], limit, proofs)]
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
        pid=process.pid if process else None,
    )


def _hung(run: Run, process: Process, limit: str, proofs: tuple[Proof, ...]) -> Fault:
    slowest, lines = behind(run)
    if slowest == (process,):
        # Its silence and the numbers of all ranks tell the same.
        told_by = tuple(dict.fromkeys((*(proof(each) for each in lines), *proofs)))
        return _fault(TIMEOUT, process, told_by)
    # Of one that nobody heard, its own words may tell more.
    limit = limit if process.lines is not None else LIKELY
    # It may have waited too, and been ended before it could say so.
    return msgspec.structs.replace(_fault(TIMEOUT, process, proofs, limit), rank_sure=False)


def late_faults(run: Run) -> list[Fault]:
    """The ranks that are behind by the numbers of all, where no rank says that it waited."""
    return _late(run, ())


# Who is behind by the watchdogs' numbers, or by torch's own report on a desync. Of two ranks the one
# that is ahead may have begun what it should not have.
def _late(run: Run, proofs: tuple[Proof, ...]) -> list[Fault]:
    late, lines = behind(run)
    reported = False
    if not late:
        ranks, line = lagging(run)
        late = tuple(_of_ranks(run, frozenset(ranks)))
        lines = () if line is None else (line,)
        reported = bool(late)
    if not late:
        return []
    told = tuple(dict.fromkeys((*(proof(each) for each in lines), *proofs)))
    # Of two that stand apart either may be late; torch's own report names who was.
    lone = len(late) == 1 and (reported or len(lines) > _PAIR)
    one = _fault(TIMEOUT, late[0] if lone else None, told, LIKELY)
    return [msgspec.structs.replace(one, rank_sure=False, candidates=() if lone else late)]


def _apart(run: Run, proofs: tuple[Proof, ...]) -> list[Fault]:
    processes, lines = apart(run)
    if not processes:
        return []
    told = tuple(dict.fromkeys((*(proof(each) for each in lines), *proofs)))
    lone = processes[0] if len(processes) == 1 else None
    one = _fault(DESYNC, lone, told, LIKELY)
    candidates = () if lone is not None else processes
    return [msgspec.structs.replace(one, rank_sure=False, candidates=candidates)]


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


# How each rank ended that said nothing of an error: "left" with success before its agent ended the
# others, "alive" until its agent ended it, None where nothing tells.
def _ends(quiet: Sequence[Process], agents: Agents, run: Run) -> dict[Process, str | None]:
    tasks = _ends_of_tasks(quiet, run)
    tells = _tells_closings(run) and agents.all_closings_are_known(run)
    return {p: tasks.get(p) or _end(p, agents.of(p), tells=tells) for p in quiet}


# ``tells`` says that agents note whom they end, and that each of these is one agent's.
def _end(process: Process, agent: Agent, *, tells: bool) -> str | None:
    if set(process.pids) & agent.ended:
        return "alive"
    if process in agent.failed or not agent.failed:
        return None
    unknown = [mate for mate in agent.mates if mate not in agent.failed and not mate.pids]
    nameless = len(agent.nameless)
    if nameless >= len(unknown) > 0:
        return "alive"
    return "left" if nameless == 0 and tells else None


# A task that srun started itself: srun notes each task that does not end with success.
def _ends_of_tasks(quiet: Sequence[Process], run: Run) -> dict[Process, str | None]:
    if any(isinstance(each.event, _AGENTS) for each in run.happened):
        return {}
    kinds: dict[int, set[str]] = {}
    for each in run.happened:
        if isinstance(each.event, TaskEnd):
            for task in each.event.tasks:
                kinds.setdefault(task, set()).add(each.event.kind)
    noted = any(isinstance(each.event, TaskEnd) for each in run.happened)
    return {
        process: "left" if own is None else "alive" if own == {"signal"} else None
        for process in quiet
        if noted and process.task is not None
        for own in (kinds.get(process.task),)
    }


# A console's prefix alone may stand for a process that another of the roster is.
def _is_named(process: Process) -> bool:
    return process.rank is not None or process.host is not None


# Processes that an agent ended and that nothing names: where its other ranks' local numbers leave
# just as many free, and their ranks follow them.
def _unseen(run: Run, agents: Agents, hit: Collection[Process]) -> list[Process]:
    found: list[Process] = []
    for agent in agents.each_of(process for process in run.roster if process in hit):
        ended = agent.nameless
        used = {mate.local_rank for mate in agent.mates if mate.local_rank is not None}
        free = _free(agent.mates, len(used) + len(ended))
        if not ended or len(free) != len(ended):
            continue
        pids = tuple(ended) if len(ended) == 1 else ()
        task = agent.mates[0].task
        found += [
            Process(run.attempt, rank, local, agent.host, task, pids=pids) for rank, local in free
        ]
    return found


# A rank of which nothing but its word that its work was done is in the evidence: in a console that
# notes the ends of its agent's other ranks. Its number is the one that is free there, if agents
# have ranks alike.
def _finished_unseen(run: Run, agents: Agents, hit: Collection[Process]) -> Happened | None:
    said = [e for e in run.happened if e.process is None and e.means == "finished"]
    if len(said) != 1:
        return None
    document = said[0].event.place.document
    mates = {e.process for e in run.happened if e.event.place.document == document and e.process}
    keys = {key_of(mate) for mate in mates}
    if not mates or not mates <= set(hit) or len(keys) != 1:
        return None
    sizes = agents.sizes_but(keys.pop())
    free = _free(mates, sizes.pop()) if len(sizes) == 1 else []
    # Of another agent, perhaps, whose console it is, too.
    left = Process(run.attempt)
    if len(free) == 1:
        left = Process(run.attempt, *free[0], next(iter(mates)).host)
    return msgspec.structs.replace(said[0], process=left)


# The ranks and local ranks below ``size`` that none of an agent's ranks has; none where their
# numbers do not follow one another.
def _free(mates: Collection[Process], size: int) -> list[tuple[int, int]]:
    bases = {_base(mate) for mate in mates}
    base = bases.pop() if len(bases) == 1 else None
    if base is None:
        return []
    return [(base + n, n) for n in sorted(set(range(size)) - {mate.local_rank for mate in mates})]


def _base(mate: Process) -> int | None:
    return None if mate.rank is None or mate.local_rank is None else mate.rank - mate.local_rank


# Agents before torch 1.10 end their ranks without a word; their tables name no host.
def _tells_closings(run: Run) -> bool:
    return any(
        isinstance(each.event, ClosingSignal)
        or (isinstance(each.event, TableEntry) and each.event.host is not None)
        for each in run.happened
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
