"""Whose the words of nobody are, where a document can only hold one rank's.

A node's own console without prefixes: its agent notes the end of one rank there and ends no
other, and no other rank speaks in it. What stands there and is not the agent's is that rank's.
"""

from __future__ import annotations

import msgspec

from firstfault.faults.death import is_others, says_same
from firstfault.faults.effects import is_agents, is_launchers
from firstfault.model.event import (
    ClosingSignal,
    ExitNoticed,
    FatalError,
    Sign,
    TableEntry,
    Traceback,
)
from firstfault.model.run import Happened, Process, Run, Told


def with_owners(told: Told, run: Run) -> Run:
    """``run``, in which the events of such documents are their rank's."""
    run = _with_local_ranks(told, run)
    owners = _owners(told, run)
    if not owners:
        return run
    happened = tuple(_owned(each, owners) for each in run.happened)
    return msgspec.structs.replace(run, happened=happened)


# Where one agent alone speaks, torchrun's local ranks ("[default3]:") are its ranks'. Another agent
# that says nothing may have such ranks too: that is a guess.
def _with_local_ranks(told: Told, run: Run) -> Run:
    agents = {
        (each.event.place.document, each.event.agent_pid)
        for each in run.happened
        if isinstance(each.event, ExitNoticed | ClosingSignal)
    }
    tables = {
        (each.event.place.document, each.event.table)
        for each in run.happened
        if isinstance(each.event, TableEntry)
    }
    if len(agents) > 1 or len(tables) > 1 or not tables:
        return run
    (document, _), *_ = tables
    local = {each.local_rank: each for each in run.roster if _is_local(each)}
    ranks = [each for each in run.roster if each.rank is not None and each.local_rank in local]
    if not local or len({each.local_rank for each in ranks}) < len(ranks):
        return run
    becomes: dict[Process, Process] = {}
    for rank in ranks:
        words = local[rank.local_rank]
        if rank.lines is None and _speaks_once(run, words, document):
            guessed = len(told.nodes) != 1 and run.expected_agents != 1
            becomes[rank] = msgspec.structs.replace(rank, lines=words.lines, guessed=guessed)
            becomes[words] = becomes[rank]
    happened = tuple(
        each
        if each.process not in becomes
        else msgspec.structs.replace(each, process=becomes[each.process])
        for each in run.happened
    )
    roster = tuple(dict.fromkeys(becomes.get(each, each) for each in run.roster))
    return msgspec.structs.replace(run, happened=happened, roster=roster)


def _is_local(process: Process) -> bool:
    named = (process.rank, process.host, process.task, process.run)
    return process.local_rank is not None and named == (None, None, None, None)


# Of two ranks of that number, each would have raised its own.
def _speaks_once(run: Run, process: Process, document: str) -> bool:
    own = [each.event for each in run.happened if each.process == process]
    raised = [each for each in own if isinstance(each, Traceback) and not is_others(each)]
    return all(each.place.document == document for each in own) and all(
        says_same(each, raised[0]) for each in raised
    )


def _owners(told: Told, run: Run) -> dict[str, Process]:
    ended: dict[str, set[Process]] = {}
    spoken: dict[str, set[Process]] = {}
    closing: set[str] = set()
    for each in run.happened:
        document = each.event.place.document
        if isinstance(each.event, ClosingSignal):
            closing.add(document)
        elif each.process is None:
            continue
        elif isinstance(each.event, ExitNoticed | TableEntry):
            ended.setdefault(document, set()).add(each.process)
        else:
            spoken.setdefault(document, set()).add(each.process)
    # One console may hold several nodes' words; consoles of several nodes hold each its own's.
    apart = {next(iter(found)).host for found in ended.values() if len(found) == 1}
    if len(told.nodes) != 1 and len(apart - {None}) < 2:
        return {}
    return {
        document: next(iter(found))
        for document, found in ended.items()
        if len(found) == 1 and document not in closing and spoken.get(document, found) <= found
    }


def _owned(each: Happened, owners: dict[str, Process]) -> Happened:
    owner = owners.get(each.event.place.document)
    event = each.event
    if owner is None or each.process is not None:
        return each
    if not isinstance(event, Traceback | FatalError | Sign) or event.speaker.rank is not None:
        return each
    if isinstance(event, Sign) and event.means == "finished":
        # A rank that had ended well, and of which the agent says nothing, may have said so.
        return each
    if isinstance(event, Traceback) and (is_launchers(each) or is_agents(event)):
        return each
    return msgspec.structs.replace(each, process=owner)
