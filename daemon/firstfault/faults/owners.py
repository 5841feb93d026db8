"""Whose the words of nobody are, where a document can only hold one rank's.

A node's own console without prefixes: its agent notes the end of one rank there and ends no
other, and no other rank speaks in it. What stands there and is not the agent's is that rank's.

NCCL's own lines name host and pid of their process ("n3:4411:4502 [1] ... NCCL WARN", src/debug.cc of
NCCL 2.4 to 2.28): they are the rank's that has that pid there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from firstfault.faults.effects import is_agents, is_launchers
from firstfault.model.event import (
    ClosingSignal,
    ExitNoticed,
    FatalError,
    LastWords,
    Sign,
    TableEntry,
    Traceback,
)
from firstfault.model.run import Happened, Process, Run, Told
from firstfault.readers.communicators import PREFIX


def with_owners(told: Told, run: Run) -> Run:
    """``run``, in which the events of such documents, and NCCL's lines, are their rank's."""
    run = _with_pids(run)
    owners = _owners(told, run)
    if not owners:
        return run
    labelled = labelled_documents(run)
    happened = tuple(
        each
        if _task(each) is None and each.event.place.document in labelled
        else _owned(each, owners)
        for each in run.happened
    )
    return msgspec.structs.replace(run, happened=happened)


def labelled_documents(run: Run) -> frozenset[str]:
    """Documents in which tasks speak behind labels.

    What bears none there, the batch script's own programs said, Slurm or a launcher: no rank.
    """
    return frozenset(
        each.event.place.document
        for each in run.happened
        if isinstance(each.event, LastWords | TableEntry | Traceback) and _task(each) is not None
    )


def _task(each: Happened) -> int | None:
    speaker = getattr(each.event, "speaker", None)
    return None if speaker is None else speaker.task


def nccls_host(signs: Sequence[Happened]) -> str | None:
    """The one host that all of NCCL's lines in ``signs`` name, where each is NCCL's."""
    hosts = {match and match["host"] for match in map(_prefix, signs)}
    return hosts.pop() if len(hosts) == 1 else None


def _prefix(each: Happened) -> re.Match[str] | None:
    return PREFIX.search(each.event.place.text)


def _with_pids(run: Run) -> Run:
    if not any(_is_nccls(each) for each in run.happened):
        return run
    by_pid: dict[int, list[Process]] = {}
    for process in run.roster:
        for pid in process.pids:
            by_pid.setdefault(pid, []).append(process)
    happened = tuple(_named(e, by_pid) if _is_nccls(e) else e for e in run.happened)
    return msgspec.structs.replace(run, happened=happened)


def _is_nccls(each: Happened) -> bool:
    event = each.event
    return isinstance(event, Sign) and each.process is None and "NCCL WARN " in event.place.text


def _named(each: Happened, by_pid: dict[int, list[Process]]) -> Happened:
    match = _prefix(each)
    if match is None:
        return each
    host = match["host"].partition(".")[0]
    mine = [
        process
        for process in by_pid.get(int(match["pid"]), ())
        if process.host is None or process.host.partition(".")[0] == host
    ]
    return msgspec.structs.replace(each, process=mine[0]) if len(mine) == 1 else each


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
