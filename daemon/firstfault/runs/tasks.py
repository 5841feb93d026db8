"""Ranks that srun started itself: there Slurm's task id is the global rank.

Launchers that read SLURM_PROCID (Lightning, Megatron-LM's scripts, torch.distributed with
``env://`` set from it) number their ranks so. Ranks speak in such a job's output and no agent
does, and srun notes the end of each rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from firstfault.model.event import (
    AgentSignalled,
    ClosingSignal,
    Event,
    ExitNoticed,
    FatalError,
    GroupEnded,
    LastWords,
    LaunchBegan,
    LauncherEnd,
    Sign,
    Stack,
    TableEntry,
    TaskEnd,
    TornTraceback,
    Traceback,
    WorkersStarted,
)
from firstfault.model.line import Speaker
from firstfault.readers.elastic import of_agent
from firstfault.readers.output import Heard
from firstfault.runs.attempts import speaker_of
from firstfault.runs.reading import Read

_OF_LAUNCHERS = (
    AgentSignalled,
    ClosingSignal,
    ExitNoticed,
    GroupEnded,
    LaunchBegan,
    LauncherEnd,
    TableEntry,
    WorkersStarted,
)


def with_task_ranks(reads: tuple[Read, ...]) -> tuple[Read, ...]:
    """``reads``, in which a task's lines and end are its rank's, if srun started the ranks.

    The same object where it did not.
    """
    if not _are_ranks(reads):
        return reads
    return tuple(_with_ranks(read) for read in reads)


def are_surely_ranks(reads: Sequence[Read]) -> bool:
    """Whether several lines bear the same number as srun's task and as torch's rank."""
    both = {
        who.task
        for read in reads
        for who in _speakers(read)
        if who.task is not None and who.task == who.rank
    }
    return len(both) > 1


# Ranks speak and no launcher does, srun notes ends of tasks, and no line names another rank than
# its task's.
def _are_ranks(reads: Iterable[Read]) -> bool:
    ended = spoken = False
    stacks: dict[int, int] = {}
    for read in reads:
        for event in read.events:
            if isinstance(event, _OF_LAUNCHERS):
                return False
            if isinstance(event, Traceback) and of_agent(event.frames):
                return False
            if isinstance(event, Stack):
                if of_agent(event.frames):
                    return False
                if event.speaker.task is not None:
                    stacks[event.speaker.task] = stacks.get(event.speaker.task, 0) + 1
            ended = ended or isinstance(event, TaskEnd)
            spoken = spoken or isinstance(event, Traceback | FatalError)
        for who in _speakers(read):
            if who.local_rank is not None:
                return False
            if who.rank is not None and who.task is not None and who.rank != who.task:
                return False
    # Several tasks that all dump as many stacks are as many processes.
    alike = len(stacks) > 1 and len(set(stacks.values())) == 1
    return (ended and spoken) or alike


def _speakers(read: Read) -> Iterator[Speaker]:
    yield from (speaker_of(event) for event in read.events)
    if read.output is not None:
        yield from (each.speaker for each in read.output.heard)


def _with_ranks(read: Read) -> Read:
    events: list[Event] = []
    attempts: list[int] = []
    for event, attempt in zip(read.events, read.attempts, strict=True):
        found = _of_tasks(event)
        events += found
        attempts += [attempt] * len(found)
    output = read.output
    if output is not None:
        output = msgspec.structs.replace(
            output, heard=tuple(_heard_of_rank(each) for each in output.heard)
        )
    return msgspec.structs.replace(
        read, events=tuple(events), attempts=tuple(attempts), output=output
    )


def _of_tasks(event: Event) -> list[Event]:
    if isinstance(event, TaskEnd):
        return [
            msgspec.structs.replace(
                event, tasks=(task,), speaker=Speaker(host=event.host, task=task, rank=task)
            )
            for task in event.tasks
        ] or [event]
    who = speaker_of(event)
    # slurmstepd's lines bear a task's label too: they are its node's.
    own = isinstance(event, Traceback | FatalError | LastWords | Sign | Stack | TornTraceback)
    if not own or who.task is None or who.rank is not None:
        return [event]
    return [msgspec.structs.replace(event, speaker=_ranked(who))]


def _heard_of_rank(each: Heard) -> Heard:
    who = each.speaker
    if who.task is None or who.rank is not None:
        return each
    return msgspec.structs.replace(each, speaker=_ranked(who))


def _ranked(who: Speaker) -> Speaker:
    return msgspec.structs.replace(who, rank=who.task)
