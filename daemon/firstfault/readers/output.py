"""A job's output, or one rank's: all that its lines tell, stream by stream."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from firstfault.model.document import Document
from firstfault.model.event import Event, Sign, Traceback
from firstfault.model.line import Line, Speaker
from firstfault.readers.elastic import AGENT_WORDS, StartReader, agent_event
from firstfault.readers.launchers import LAUNCHER_WORDS, LauncherReader
from firstfault.readers.python import FatalErrorReader, TracebackReader
from firstfault.readers.slurm_output import SLURM_WORDS, slurm_events, stepd_node
from firstfault.readers.table import TableReader
from firstfault.readers.times import Zone
from firstfault.readers.world import WORLD_WORDS, world_size
from firstfault.signatures import meaning
from firstfault.streams.lines import lines

# Lines without any of these words are only counted: they can end or begin nothing.
_LAUNCH = (*AGENT_WORDS, *LAUNCHER_WORDS, "Rendezvous complete")
_SIGNS = re.compile(
    r"(?i)error|assert|what\(\)|terminate called|watchdog|nccl|corrupt|free\(\)|malloc|execve|"
    r"exceeded|smashing|chdir|failed|timeout|timed out|alloc\(\)|chunk\(\)|overflow detected|"
    r"virtual method|rethrown|override|open file|No module|not found|fork: |libgomp|loss is|"
    r"enough space"
)


class _Stream:
    """The readers of one speaker's lines."""

    def __init__(self) -> None:
        self.table = TableReader()
        self.tracebacks = TracebackReader()
        self.fatal = FatalErrorReader()
        self.starts = StartReader()
        self.launcher = LauncherReader()


class Heard(msgspec.Struct, frozen=True):
    """That a speaker was read, and how much it said; ``offset`` is its last line's."""

    speaker: Speaker
    lines: int
    offset: int


class Output(msgspec.Struct, frozen=True):
    """What one document told. ``task_hosts`` are (task, host) that a line joins."""

    events: tuple[Event, ...]
    heard: tuple[Heard, ...]
    task_hosts: tuple[tuple[int, str], ...]


def read_output(document: Document, zone: Zone) -> Output:
    """The events of a document of output, in the order of its lines."""
    streams: dict[Speaker, _Stream] = {}
    counts: dict[Speaker, tuple[int, int]] = {}
    task_hosts: set[tuple[int, str]] = set()
    events: list[Event] = []
    for line in lines(document):
        stream = streams.get(line.speaker)
        if stream is None:
            stream = streams[line.speaker] = _Stream()
        if line.text.strip():
            counts[line.speaker] = (counts.get(line.speaker, (0, 0))[0] + 1, line.place.offset)
        task = line.speaker.task
        if task is not None and (node := stepd_node(line.text)):
            task_hosts.add((task, node))
        events.extend(_events(line, stream, zone))
    for stream in streams.values():
        events.extend(stream.table.flush(zone))
        events.extend(stream.tracebacks.flush())
        events.extend(stream.fatal.flush())
    events = [_with_end(event, counts) for event in events]
    events.sort(key=lambda event: (event.place.offset, type(event).__name__))
    heard = tuple(Heard(who, number, last) for who, (number, last) in counts.items())
    return Output(tuple(events), heard, tuple(sorted(task_hosts)))


# Whether a traceback is the last that its speaker said.
def _with_end(event: Event, counts: dict[Speaker, tuple[int, int]]) -> Event:
    if not isinstance(event, Traceback) or event.place.offset < counts[event.speaker][1]:
        return event
    return msgspec.structs.replace(event, final=True)


def _events(line: Line, stream: _Stream, zone: Zone) -> Iterator[Event]:
    text = line.text
    # What a rank prints may look like its agent's, srun's or slurmstepd's words: it is not.
    ranks = line.speaker.rank is not None or line.speaker.local_rank is not None
    if not ranks:
        yield from stream.table.feed(line, zone)
        if stream.table.active:
            return
    yield from stream.tracebacks.feed(line)
    yield from stream.fatal.feed(line)
    if any(word in text for word in WORLD_WORDS) and (size := world_size(line)):
        yield size
    if ranks:
        pass
    elif found := _of_launcher(line, stream, zone):
        yield found
    elif any(word in text for word in SLURM_WORDS):
        yield from slurm_events(line, zone)
    if _SIGNS.search(text) and (sign := meaning("line", text)):
        yield Sign(line.place, line.speaker, sign.id, sign.means)


def _of_launcher(line: Line, stream: _Stream, zone: Zone) -> Event | None:
    begun = stream.starts.active or stream.launcher.active
    if not begun and not any(word in line.text for word in _LAUNCH):
        return None
    return agent_event(line, zone) or stream.starts.feed(line, zone) or stream.launcher.feed(line)
