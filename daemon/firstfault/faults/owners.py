"""Whose the words of nobody are, where a document can only hold one rank's.

A node's own console without prefixes: its agent notes the end of one rank there and ends no
other, and no other rank speaks in it. What stands there and is not the agent's is that rank's.
"""

from __future__ import annotations

import msgspec

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
    owners = _owners(told, run)
    if not owners:
        return run
    happened = tuple(_owned(each, owners) for each in run.happened)
    return msgspec.structs.replace(run, happened=happened)


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
    if each.means == "finished":
        # A rank that had ended well, and of which the agent says nothing, may have said so.
        return each
    if isinstance(event, Traceback) and (is_launchers(each) or is_agents(event)):
        return each
    return msgspec.structs.replace(each, process=owner)
