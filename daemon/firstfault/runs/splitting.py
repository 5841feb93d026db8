"""From all that was read to what belongs to each of the job's launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from firstfault.model.event import (
    Event,
    FatalError,
    TableEntry,
    Traceback,
)
from firstfault.readers.kind import Kind
from firstfault.readers.output import Output
from firstfault.runs.attempts import Attempts, speaker_of
from firstfault.runs.launches import Cut, cuts, launch_at
from firstfault.runs.reading import Read, jobs_named
from firstfault.streams.lines import run_folder

T = TypeVar("T")


class Launch(msgspec.Struct, frozen=True):
    """One launch: what was read of it. ``requeue`` counts how often the job had begun anew."""

    number: int
    requeue: int
    reads: tuple[Read, ...]


def launches(reads: Sequence[Read], own: frozenset[str]) -> tuple[Launch, ...]:
    """The launches that are the job's, in order; every document that is no output is in each.

    ``own`` are the job's numbers, empty where they are not known.
    """
    found = [_cuts(read) for read in reads]
    last = max((len(each) for each in found), default=0)
    folders = _folders(reads, found, last) if last else {}
    result = []
    for number in range(last + 1):
        parts = tuple(
            _part(read, each, number, folders, last)
            for read, each in zip(reads, found, strict=True)
        )
        jobs = jobs_named(parts) if last else frozenset()
        if own and jobs and not jobs & own:
            continue
        requeue = max((sum(cut.requeued for cut in each[:number]) for each in found), default=0)
        result.append(Launch(number, requeue, parts))
    return tuple(result) or (Launch(0, 0, ()),)


def _cuts(read: Read) -> tuple[Cut, ...]:
    if read.output is None or run_folder(read.document.name) is not None:
        return ()
    return cuts(read.events, read.output.advances)


# What of a document belongs to one launch.
def _part(
    read: Read, found: Sequence[Cut], number: int, folders: dict[str, int], last: int
) -> Read:
    if not last:
        # Nearly every job has one launch alone.
        return _with_attempts(read, read.events, read.output)
    folder = run_folder(read.document.name)
    if folder is not None:
        mine = folders.get(folder.run, last) == number

        def belongs(offset: int) -> bool:
            return mine

    elif read.output is None:
        # Each launch writes its dump over the one before.
        mine = number == last or read.kind is not Kind.FLIGHT_RECORDER

        def belongs(offset: int) -> bool:
            return mine

    else:

        def belongs(offset: int) -> bool:
            return launch_at(offset, found) == number

    # What is one launch's as a whole is not copied.
    events = _those(read.events, lambda event: belongs(event.place.offset))
    output = read.output
    if output is not None:
        output = msgspec.structs.replace(
            output,
            heard=_those(output.heard, lambda each: belongs(each.offset)),
            advances=_those(output.advances, lambda each: belongs(each.offset)),
        )
    return _with_attempts(read, events, output)


def _with_attempts(read: Read, events: tuple[Event, ...], output: Output | None) -> Read:
    numbers = Attempts(events) if output is not None else None
    attempts = tuple(
        numbers.of(event) if numbers is not None else speaker_of(event).attempt or 0
        for event in events
    )
    return msgspec.structs.replace(read, events=events, attempts=attempts, output=output)


def _those(found: tuple[T, ...], wanted: Callable[[T], bool]) -> tuple[T, ...]:
    chosen = tuple(each for each in found if wanted(each))
    return found if len(chosen) == len(found) else chosen


# The launch of each of torchrun's run folders: a table's error file names it, or an exception
# that was raised in one launch only. What failed and is not named is taken for the first
# launch's, what did not fail for the last's.
def _folders(reads: Sequence[Read], found: Sequence[Sequence[Cut]], last: int) -> dict[str, int]:
    known: dict[str, int] = {}
    said: dict[tuple[str, str], set[int]] = {}
    failing: dict[str, list[Event]] = {}
    for read, each in zip(reads, found, strict=True):
        for event in read.events:
            launch = launch_at(event.place.offset, each)
            run = speaker_of(event).run
            if isinstance(event, TableEntry) and event.error_file:
                folder = run_folder(event.error_file)
                if folder is not None:
                    known[folder.run] = launch
            elif run is not None and isinstance(event, Traceback | FatalError):
                failing.setdefault(run, []).append(event)
            elif isinstance(event, Traceback):
                said.setdefault((event.type, event.message), set()).add(launch)
    for run, events in failing.items():
        alike = [
            said.get((event.type, event.message), set())
            for event in events
            if isinstance(event, Traceback)
        ]
        lone = [launches for launches in alike if len(launches) == 1]
        known.setdefault(run, min(lone[0]) if lone else 0)
    return known
