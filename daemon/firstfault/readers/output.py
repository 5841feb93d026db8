"""A job's output, or one rank's: all that its lines tell, stream by stream."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

import msgspec

from firstfault.model.document import Document
from firstfault.model.event import (
    AgentSignalled,
    Cancelled,
    Event,
    Sign,
    Stack,
    StepEnded,
    Traceback,
)
from firstfault.model.line import Line, Speaker
from firstfault.readers.advance import Advance, Advances, Worked, advanced_to, progress
from firstfault.readers.collectives import collective_state
from firstfault.readers.elastic import StartReader, agent_event
from firstfault.readers.fatal import FatalErrorReader
from firstfault.readers.last_words import LastLines, are_flushed
from firstfault.readers.launchers import LauncherReader, may_be_launchers
from firstfault.readers.metrics import MetricsReader
from firstfault.readers.python import TracebackReader
from firstfault.readers.slurm_output import SLURM_WORDS, SlurmReader, stepd_node
from firstfault.readers.stack_lines import bare_exception
from firstfault.readers.stacks import StackReader
from firstfault.readers.table import TableReader
from firstfault.readers.times import Zone
from firstfault.readers.world import world_size
from firstfault.signatures import meaning
from firstfault.streams.lines import lines, run_folder

# So many stretches of a document are told apart.
_MOST_STRETCHES = 100
# What tells that the job is being ended: what is said after it is no longer its work.
_ENDS = (AgentSignalled, Cancelled, StepEnded)
# Slurm's word begins its line, but for a label or a time: else another's output was cut off there.
_OWN_LINE = re.compile(r"(?:20\d\d-\S{5,40} )?\s*(?:\d{1,7}: )?(?:srun|slurmstepd)")
# What a dump of stacks may begin with: of most lines no more is looked at.
_DUMPS = frozenset("CFPT")
# So many lines before the end tell whether output was held back: more than a buffer has.
_TAIL = 600
# So many steps of work after a telling line are work.
_WORK = 3


class _Stream:
    """The readers of one speaker's lines."""

    def __init__(self) -> None:
        self.table = TableReader()
        self.tracebacks = TracebackReader()
        self.fatal = FatalErrorReader()
        # The lines that say something since it was last asked, and where the last one begins.
        self.lines = 0
        self.offset = -1
        self.launched = -1
        self.starts = StartReader()
        self.launcher = LauncherReader()
        self.slurm = SlurmReader()
        self.metrics = MetricsReader()
        self.stacks = StackReader()
        self.words = LastLines()
        # Whether one of its lines was telling, and where its last steps of work after that are.
        self.signed = False
        self.step: int | None = None
        self.steps: deque[int] = deque(maxlen=_WORK)

    def count_work(self, line: Line) -> None:
        step = advanced_to(line.text)
        if step is not None and step != self.step:
            self.step = step
            self.steps.append(line.place.offset)

    def worked(self, offset: int) -> bool:
        return len(self.steps) == _WORK and self.steps[0] > offset


class Heard(msgspec.Struct, frozen=True):
    """That a speaker was read, and how much it said; ``offset`` is its last line's.

    A speaker has one for each stretch of the document that an agent's failure or Slurm ends.
    """

    speaker: Speaker
    lines: int
    offset: int


class Output(msgspec.Struct, frozen=True):
    """What one document told. ``task_hosts`` are (task, host) that a line joins.

    ``advances`` show which ranks went on after a failure: a few for each speaker and failure.
    ``worked`` tells whether several steps of work follow an end.
    """

    events: tuple[Event, ...]
    heard: tuple[Heard, ...]
    task_hosts: tuple[tuple[int, str], ...]
    advances: tuple[Advance, ...] = ()
    worked: Worked = Worked()


def read_output(document: Document, zone: Zone) -> Output:
    """The events of a document of output, in the order of its lines."""
    streams: dict[Speaker, _Stream] = {}
    task_hosts: set[tuple[int, str]] = set()
    events: list[Event] = []
    advances = Advances()
    heard: list[Heard] = []
    over = dumped = False
    tail: deque[Line] = deque(maxlen=_TAIL)
    stepped = -1
    for line in lines(document):
        stream = streams.get(line.speaker)
        if stream is None:
            stream = streams[line.speaker] = _Stream()
        text = line.text
        said = bool(text) and not text.isspace()
        if said:
            stream.lines += 1
            stream.offset = line.place.offset
        task = line.speaker.task
        if task is not None and text.startswith("slurmstepd-") and (node := stepd_node(text)):
            task_hosts.add((task, node))
        found = _events(line, stream, zone)
        stacks = (stream.stacks.active or text[:1] in _DUMPS) and stream.stacks.feed(line)
        dumped = dumped or stacks
        telling = bool(found) and any(map(_is_telling, found))
        if said and not (telling or stacks or stream.tracebacks.inside or _is_slurms(text)):
            stream.words.feed(line)
            tail.append(line)
            if dumped and not over and progress(line.text):
                stepped = line.place.offset
        elif not over and any(isinstance(each, _ENDS) for each in found):
            over = True
            events += _last_words(streams, document, zone, tail, torn=_is_torn(found))
        if not advances.after:
            advances.recent.append(line)
        ended = bool(found or advances.watched) and advances.feed(line, found)
        if ended and advances.after < _MOST_STRETCHES:
            heard += _heard(streams)
        events.extend(found)
    for stream in streams.values():
        events.extend(stream.table.flush(zone))
        events.extend(stream.tracebacks.flush())
        if torn := stream.tracebacks.torn():
            events.append(torn)
        events.extend(stream.fatal.flush())
        events.extend(stream.metrics.flush())
        events.extend(stream.stacks.flush())
    events += [] if over else _last_words(streams, document, zone, tail, torn=False)
    # What stood still went on, where a step was counted since.
    events = [e for e in events if not isinstance(e, Stack) or e.place.offset > stepped]
    heard += _heard(streams)
    events = [_with_end(event, streams) for event in events]
    events = [_with_work(event, streams, advances) for event in events]
    events.sort(key=lambda event: (event.place.offset, type(event).__name__))
    return Output(
        tuple(events),
        tuple(heard),
        tuple(sorted(task_hosts)),
        tuple(advances.found),
        advances.worked(),
    )


# Whatever it says, it is no word of the program's.
def _is_slurms(text: str) -> bool:
    return text.startswith(("srun: ", "slurmstepd"))


def _is_telling(event: Event) -> bool:
    return not (isinstance(event, Sign) and event.means == "finished")


def _is_torn(found: Sequence[Event]) -> bool:
    slurms = (each for each in found if isinstance(each, Cancelled | StepEnded))
    return any(not _OWN_LINE.match(each.place.text) for each in slurms)


def _last_words(
    streams: dict[Speaker, _Stream],
    document: Document,
    zone: Zone,
    tail: Sequence[Line],
    *,
    torn: bool,
) -> list[Event]:
    # torchrun starts its ranks unbuffered.
    flushed = run_folder(document.name) is not None or are_flushed(tail, zone)
    found = (
        stream.words.flush(document, zone, torn=torn, flushed=flushed)
        for stream in streams.values()
    )
    return [each for each in found if each is not None]


# What each stream has said since it was last asked.
def _heard(streams: dict[Speaker, _Stream]) -> list[Heard]:
    found = [Heard(who, each.lines, each.offset) for who, each in streams.items() if each.lines]
    for stream in streams.values():
        stream.lines = 0
    return found


# Whether a traceback is the last that its speaker said, but for its own message's lines and what
# a process says as it ends.
def _with_end(event: Event, streams: dict[Speaker, _Stream]) -> Event:
    if not isinstance(event, Traceback):
        return event
    stream = streams[event.speaker]
    followed = stream.tracebacks.followed(event.place)
    final = event.place.offset >= stream.offset or (
        not event.bare and not followed and stream.launched < event.place.offset
    )
    worked = stream.tracebacks.worked(event.place)
    return msgspec.structs.replace(event, final=final, followed=followed, worked=worked)


# Slurm's word of an end comes at the end, and so does an argument parser's: what several steps of
# work follow may be another program's.
def _with_work(event: Event, streams: dict[Speaker, _Stream], advances: Advances) -> Event:
    if isinstance(event, Cancelled) and advances.went_on(event.place.offset):
        return msgspec.structs.replace(event, worked=True)
    if isinstance(event, Sign) and streams[event.speaker].worked(event.place.offset):
        return msgspec.structs.replace(event, worked=True)
    return event


def _events(line: Line, stream: _Stream, zone: Zone) -> list[Event]:
    text = line.text
    found: list[Event] = []
    # What a rank prints may look like its agent's, srun's or slurmstepd's words: it is not.
    ranks = line.speaker.rank is not None or line.speaker.local_rank is not None
    if not ranks:
        found += stream.table.feed(line, zone)
        if stream.table.active:
            stream.launched = line.place.offset
            return found
    tracebacks = stream.tracebacks
    found += tracebacks.feed(line)
    found += stream.fatal.feed(line)
    stream.metrics.feed(line)
    if not ranks and (said := _of_system(line, stream, zone)):
        found += said
        stream.launched = line.place.offset
    elif not tracebacks.inside:
        tracebacks.count(text)
    # The source in a traceback may hold any words.
    if stream.signed:
        stream.count_work(line)
    if not tracebacks.code and (sign := meaning("line", text)):
        # A rank cannot speak for Slurm.
        if not (ranks and sign.means.startswith("slurm.")):
            found.append(Sign(line.place, line.speaker, sign.id, sign.means, sign.at_most))
            stream.signed = stream.signed or sign.means == "python.arguments"
    elif not found and not tracebacks.inside and (bare := _bare_exception(line)):
        found.append(bare)
    if size := world_size(line):
        found.append(size)
    if state := collective_state(line):
        found.append(state)
    return found


# An exception's line without its traceback: people paste such, and some programs print no more.
def _bare_exception(line: Line) -> Traceback | None:
    if "Error: " not in line.text and "Exception: " not in line.text:
        return None
    named = bare_exception(line.text)
    if named is None:
        return None
    sign = meaning("exception", line.text)
    if sign is None or sign.means in ("launcher", "stopped"):
        return None
    return Traceback(line.place, line.speaker, None, named[0], named[1][:2_000], (), bare=True)


# What an agent, another launcher or Slurm says in a line.
def _of_system(line: Line, stream: _Stream, zone: Zone) -> list[Event]:
    if found := _of_launcher(line, stream, zone):
        return [found]
    if any(word in line.text for word in SLURM_WORDS):
        return list(stream.slurm.feed(line, zone))
    return []


def _of_launcher(line: Line, stream: _Stream, zone: Zone) -> Event | None:
    begun = stream.starts.active or stream.launcher.active
    if not begun and not may_be_launchers(line.text):
        return None
    return agent_event(line, zone) or stream.starts.feed(line, zone) or stream.launcher.feed(line)
