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
    Member,
    Sign,
    Stack,
    StepEnded,
    Traceback,
)
from firstfault.model.line import Line, Speaker
from firstfault.readers.advance import Advance, Advances, Worked, advanced_to, progress
from firstfault.readers.collectives import collective_state
from firstfault.readers.communicators import member
from firstfault.readers.elastic import StartReader, agent_event
from firstfault.readers.fatal import FatalErrorReader
from firstfault.readers.last_words import KEPT, LastLines, are_flushed
from firstfault.readers.launchers import LauncherReader, may_be_launchers
from firstfault.readers.metrics import MetricsReader
from firstfault.readers.python import TracebackReader
from firstfault.readers.slurm_output import SLURM_WORDS, SlurmReader, stepd_node
from firstfault.readers.stack_lines import BARE_WORDS, bare_exception
from firstfault.readers.stacks import StackReader
from firstfault.readers.table import TableReader
from firstfault.readers.telling import telling
from firstfault.readers.times import Zone
from firstfault.readers.world import world_size
from firstfault.signatures import meaning
from firstfault.streams.lines import lines, passages, run_folder
from firstfault.streams.passages import Plain, Tail

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
        # An exception's line alone that no signature knows, while nothing of its own follows.
        self.unknown: Traceback | None = None
        self.step: int | None = None
        self.steps: deque[int] = deque(maxlen=_WORK)

    @property
    def idle(self) -> bool:
        """Whether plain lines are nothing to its readers."""
        return (
            self.tracebacks.idle
            and self.table.idle
            and self.fatal.idle
            and self.metrics.idle
            and not (
                self.signed or self.starts.active or self.launcher.active or self.stacks.active
            )
        )

    def pass_over(self, plain: Plain) -> None:
        """Notes that plain lines stood there while it was idle."""
        self.lines += plain.said
        if plain.said:
            self.unknown = None
        if last := plain.last_said(KEPT):
            self.offset = last[-1].place.offset
            self.words.pass_over(last, plain.said)
        self.tracebacks.pass_over(plain.last_text())

    def count_work(self, line: Line) -> None:
        step = advanced_to(line.text)
        if step is not None and step != self.step:
            self.step = step
            self.steps.append(line.place.offset)

    def worked(self, offset: int) -> bool:
        return len(self.steps) == _WORK and self.steps[0] > offset


class Heard(msgspec.Struct, frozen=True, gc=False):
    """That a speaker was read, and how much it said; ``offset`` is its last line's.

    A speaker has one for each stretch of the document that an agent's failure or Slurm ends.
    """

    speaker: Speaker
    lines: int
    offset: int


class Output(msgspec.Struct, frozen=True, gc=False):
    """What one document told. ``task_hosts`` are (task, host) that a line joins.

    ``advances`` show which ranks went on after a failure: a few for each speaker and failure.
    ``worked`` tells whether several steps of work follow an end.
    """

    events: tuple[Event, ...]
    heard: tuple[Heard, ...]
    task_hosts: tuple[tuple[int, str], ...]
    advances: tuple[Advance, ...] = ()
    worked: Worked = Worked()


def read_output(document: Document, zone: Zone, *, one_by_one: bool = False) -> Output:
    """The events of a document of output, in the order of its lines.

    ``one_by_one`` looks at each line, also where none of many has a telling word: slower, and the
    same.
    """
    reading = _Reading(document, zone)
    sought = None if one_by_one else telling()
    for passage in lines(document) if sought is None else passages(document, sought):
        if isinstance(passage, Plain):
            reading.pass_over(passage)
        else:
            reading.feed(passage)
    return reading.output()


class _Reading:
    """One document, as far as it is read."""

    def __init__(self, document: Document, zone: Zone) -> None:
        self._document = document
        self._zone = zone
        self._streams: dict[Speaker, _Stream] = {}
        self._task_hosts: set[tuple[int, str]] = set()
        self._events: list[Event] = []
        self._advances = Advances()
        self._heard: list[Heard] = []
        self._over = False
        self._dumped = False
        self._tail = Tail(_TAIL, blank=False)
        self._stepped = -1

    def pass_over(self, plain: Plain) -> None:
        """Takes lines without a telling word."""
        stream = self._stream(plain.speaker)
        stepping = self._dumped and not self._over
        if stepping or self._advances.watched or not stream.idle:
            for line in plain.lines():
                self.feed(line)
            return
        stream.pass_over(plain)
        self._tail.add(plain)
        self._advances.recent.add(plain)

    def feed(self, line: Line) -> None:
        """Takes the next line."""
        stream, text = self._stream(line.speaker), line.text
        said = bool(text) and not text.isspace()
        if said:
            stream.lines += 1
            stream.offset = line.place.offset
        task = line.speaker.task
        if task is not None and text.startswith("slurmstepd-") and (node := stepd_node(text)):
            self._task_hosts.add((task, node))
        found = _events(line, stream, self._zone)
        stacks = (stream.stacks.active or text[:1] in _DUMPS) and stream.stacks.feed(line)
        self._dumped = self._dumped or stacks
        telling = bool(found) and any(map(_is_telling, found))
        if said and not (telling or stacks or stream.tracebacks.inside or _is_slurms(text)):
            stream.words.feed(line)
            self._tail.add(line)
            if self._dumped and not self._over and progress(line.text):
                self._stepped = line.place.offset
        elif found and not self._over and any(isinstance(each, _ENDS) for each in found):
            self._over = True
            self._events += self._last_words(torn=_is_torn(found))
        advances = self._advances
        if not advances.after:
            advances.recent.add(line)
        ended = bool(found or advances.watched) and advances.feed(line, found)
        if ended and advances.after < _MOST_STRETCHES:
            self._heard += _heard(self._streams)
        self._events.extend(found)

    def output(self) -> Output:
        """All that was told, at the document's end."""
        streams, advances, zone = self._streams, self._advances, self._zone
        events = self._events
        for stream in streams.values():
            events.extend(stream.table.flush(zone))
            events.extend(stream.tracebacks.flush())
            if torn := stream.tracebacks.torn():
                events.append(torn)
            events.extend(stream.fatal.flush())
            events.extend(stream.metrics.flush())
            events.extend(stream.stacks.flush())
            events += [] if stream.unknown is None else [stream.unknown]
        events += [] if self._over else self._last_words(torn=False)
        # What stood still went on, where a step was counted since.
        events = [e for e in events if not isinstance(e, Stack) or e.place.offset > self._stepped]
        heard = (*self._heard, *_heard(streams))
        events = [_with_end(event, streams) for event in events]
        events = [_with_work(event, streams, advances) for event in events]
        events.sort(key=lambda event: (event.place.offset, type(event).__name__))
        return Output(
            tuple(events),
            heard,
            tuple(sorted(self._task_hosts)),
            tuple(advances.found),
            advances.worked(),
        )

    def _stream(self, speaker: Speaker) -> _Stream:
        stream = self._streams.get(speaker)
        if stream is None:
            stream = self._streams[speaker] = _Stream()
        return stream

    def _last_words(self, *, torn: bool) -> list[Event]:
        document, zone = self._document, self._zone
        # torchrun starts its ranks unbuffered.
        flushed = run_folder(document.name) is not None or are_flushed(self._tail.lines(), zone)
        found = (
            stream.words.flush(document, zone, torn=torn, flushed=flushed)
            for stream in self._streams.values()
        )
        return [each for each in found if each is not None]


# Whatever it says, it is no word of the program's.
def _is_slurms(text: str) -> bool:
    return text.startswith(("srun: ", "slurmstepd"))


def _is_telling(event: Event) -> bool:
    return not (
        isinstance(event, Member) or (isinstance(event, Sign) and event.means == "finished")
    )


def _is_torn(found: Sequence[Event]) -> bool:
    slurms = (each for each in found if isinstance(each, Cancelled | StepEnded))
    return any(not _OWN_LINE.match(each.place.text) for each in slurms)


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
    if isinstance(event, Sign) and _is_followed(event, streams[event.speaker]):
        return msgspec.structs.replace(event, worked=True)
    return event


# A parser's word is the last of its process: a rank that speaks again tells of another program.
def _is_followed(sign: Sign, stream: _Stream) -> bool:
    rank = sign.speaker.rank is not None or sign.speaker.local_rank is not None
    again = rank and sign.means == "python.arguments" and stream.offset > sign.place.offset
    return again or stream.worked(sign.place.offset)


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
    else:
        # What follows an agent's word of a failure is the agent's own.
        if text and not text.isspace() and not _is_launched(stream):
            stream.unknown = None
        if not tracebacks.inside:
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
        sign = meaning("exception", text)
        if sign is None:
            stream.unknown = stream.unknown if _is_launched(stream) else bare
        elif sign.means not in ("launcher", "stopped"):
            found.append(bare)
    if size := world_size(line):
        found.append(size)
    if joined := member(line):
        found.append(joined)
    if state := collective_state(line):
        found.append(state)
    return found


def _is_launched(stream: _Stream) -> bool:
    return stream.unknown is not None and stream.launched > stream.unknown.place.offset


# An exception's line without its traceback: people paste such, logs are cut before it, and some
# programs print no more. One that no signature knows counts only as its stream's last word.
def _bare_exception(line: Line) -> Traceback | None:
    if not any(word in line.text for word in BARE_WORDS):
        return None
    named = bare_exception(line.text)
    if named is None:
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
