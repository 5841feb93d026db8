"""Python's tracebacks, whole, chained, nested, cut, and mixed with others."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.model.event import Frame, TornTraceback, Traceback
from firstfault.model.line import Line, Place, Speaker
from firstfault.readers import stack_lines
from firstfault.readers.aftermath import Aftermath
from firstfault.readers.boxes import BoxReader, box_title
from firstfault.readers.groups import GROUP_HEADER, GroupReader
from firstfault.readers.knots import frames_of_each
from firstfault.readers.stack_lines import HEADER, parse_exception
from firstfault.readers.traceback_parts import LONGEST, Causes, End, Reading, each_of

__all__ = ["HEADER", "TracebackReader", "parse_exception", "parse_traceback", "split_message"]

# A traceback deeper than this is a recursion: its frames repeat, its end is what counts.
_DEEPEST = 4_000
# So many lines of other writers may stand among a traceback's.
_MOST_STRAYS = 8
_MOST_STRAYS_IN_KNOT = 40
_MOST_MORE = 20
# Each line that begins a traceback has one of these, but those with torch's own prefix.
WORDS = ('File "', "Traceback (m")
# What a pool prints around the traceback of its process.
_QUOTED = '"""'


class TracebackReader:
    """Takes one stream's lines and gives its tracebacks as they end.

    ``inside`` tells that the last line was a traceback's or of its exception's message, and
    ``code`` that it was one's header, frame or source. ``said`` counts the stream's other lines
    since its first exception, as its owner tells with `count`.
    """

    def __init__(self) -> None:
        self.inside = False
        self.code = False
        self._reading: Reading | None = None
        self._ended: list[End] = []
        self._chained = 0
        self._spawned: int | None = None
        self._message: End | None = None
        self._lead = ""
        # Whether frames and source of torch.compile's message are read.
        self._user_code = False
        self._after = Aftermath()
        self._torn: tuple[Reading, int] | None = None

    @property
    def idle(self) -> bool:
        """Whether a line without `WORDS` and torch's own prefix is nothing to it but the last one."""
        return not (self._reading or self._ended or self._after.begun or self._torn)

    def pass_over(self, text: str) -> None:
        """Notes that such lines stood there while it was idle; ``text`` is the last that is not empty."""
        self.inside = self.code = False
        self._lead = text or self._lead

    def feed(self, line: Line) -> Sequence[Traceback]:
        """What ``line`` ends."""
        self.inside = self.code = False
        text = line.text
        idle = self._reading is None and not self._ended and _is_plain(text)
        if idle and not (line.hooked and stack_lines.bare_exception(text)):
            self._lead = text or self._lead
            return ()
        text = text.rstrip()
        if self._reading is not None:
            if self._inside(self._reading, text, line):
                return ()
            self._close()
        return self._outside(text, line)

    def flush(self) -> Sequence[Traceback]:
        """The tracebacks that nothing followed."""
        self._close()
        found = [self._event(end) for end in self._ended if not end.harmless]
        self._ended, self._chained, self._spawned, self._message = [], 0, None, None
        self._user_code = False
        return found

    def count(self, text: str) -> None:
        """Notes that the stream's last line, ``text``, was neither a traceback's nor a launcher's."""
        begun = self._after.begun or self._ended or self._torn
        if begun and text and not stack_lines.is_shutdown(text):
            self._after.count(text)

    def worked(self, place: Place) -> bool:
        """Whether the process went on after the exception at ``place``: see `Aftermath`."""
        return self._after.worked(place)

    def followed(self, place: Place) -> int:
        """How many of the stream's own lines have followed the exception at ``place``."""
        return self._after.followed(place)

    def torn(self) -> TornTraceback | None:
        """The stream's last traceback, where it has no end and nothing follows it."""
        if self._torn is None or self._torn[1] != self._after.said:
            return None
        reading = self._torn[0]
        return TornTraceback(reading.last.place, reading.last.speaker, tuple(reading.frames))

    def _event(self, end: End) -> Traceback:
        reading = end.reading
        assert reading is not None
        self._after.mark(end.line.place, end.said, logged=reading.logged)
        return Traceback(
            place=end.line.place,
            speaker=end.line.speaker,
            at=None,
            type=end.type,
            message=end.message,
            frames=end.frames,
            causes=end.causes,
            hooked=end.line.hooked,
            more=tuple(end.more),
            thread=reading.thread,
            child=reading.child,
            spawned=reading.spawned,
            mixed=end.mixed,
            cut=end.cut,
        )

    def _outside(self, text: str, line: Line) -> Sequence[Traceback]:
        stripped = text.strip()
        if not stripped or stripped == _QUOTED:
            self._lead = stripped or self._lead
            return ()
        if self._ended and self._goes_on(text, stripped, line):
            self.inside = True
            return ()
        lead, self._lead = self._lead, text
        if stack_lines.header_count(text) or box_title(stripped):
            self.inside = self.code = True
            return self._begin(text, line, lead)
        if (found := stack_lines.frame(text)) and self._begins_bare(found, text, line, lead):
            self.inside = self.code = True
            return ()
        if self._chained or self._spawned is not None:
            return ()
        given = self.flush()
        if line.hooked and (bare := stack_lines.bare_exception(text)):
            # The traceback's head was cut off; torch's own prefix tells that it was one.
            reading = Reading(0, (), line)
            self._reading = reading
            self._end(reading, End(line, bare))
            self.inside = True
        return given

    # Whether a line behind an exception's is of its message, or joins it to the next traceback.
    def _goes_on(self, text: str, stripped: str, line: Line) -> bool:
        if stack_lines.is_link(stripped):
            self._chained += 1
            self._message = None
            return True
        if (index := stack_lines.spawned_index(stripped)) is not None:
            self._spawned, self._message = index, None
            return True
        self._user_code = self._user_code and text[0].isspace()
        if self._user_code or (self._ended and stack_lines.begins_user_code(stripped)):
            self._user_code = True
            return True
        end = self._message
        if end is None or stack_lines.header_count(text) or stack_lines.frame(text):
            return False
        # torch/_dynamo/exc.py, BackendCompilerFailed: what the compiler raised is the next line.
        nested = end.message.endswith(" raised:") and not end.more
        own = (line.hooked and end.line.hooked) or nested or stack_lines.goes_on(text)
        first = (
            end.torn
            and not end.mixed
            and not end.message
            and not end.more
            and stripped[0].isalnum()
        )
        if not own and not first:
            self._message = None
            return False
        if first:
            end.message = stripped[:LONGEST]
        elif len(end.more) < _MOST_MORE and not stripped.startswith("frame #"):
            end.more.append(stripped[:300])
        return True

    # A stack without its header: it was cut off, or Ray's and others' own line stood for it.
    def _begins_bare(self, found: Frame, text: str, line: Line, lead: str) -> bool:
        nests = self._ended and self._ended[-1].type.endswith(")")
        if (self._ended and not nests) or stack_lines.is_stack(lead.strip()):
            return False
        causes = self._causes() if nests else ()
        self._ended, self._message = [], None
        self._reading = Reading(_indent(text) - 2, causes, line)
        self._reading.headless = True
        self._reading.frames.append(found)
        return True

    def _begin(self, text: str, line: Line, lead: str) -> Sequence[Traceback]:
        given: Sequence[Traceback] = ()
        stripped = text.strip()
        linked = self._chained > 0 or self._spawned is not None or stripped == f"Original {HEADER}"
        causes: Causes = ()
        inner: tuple[Frame, ...] = ()
        before: list[End] = []
        spawned = self._spawned
        if self._ended and linked:
            causes = self._causes()
            given = self._unlinked()
            before_it = self._ended[-1].reading
            if before_it is not None and before_it.remote:
                inner = self._ended[-1].frames
            before = self._ended[-1:]
        elif self._ended:
            given = self.flush()
        harmless = stack_lines.is_harmless(lead.strip()) or (linked and self._all_harmless())
        self._ended, self._chained, self._spawned, self._message = [], 0, None, None
        # A progress bar or a label may be glued before the header: then its indent is not known.
        glued = text[: -len(HEADER)]
        reading = Reading(len(glued) if not glued.strip() else 0, causes, line)
        reading.headers = max(1, stack_lines.header_count(text))
        reading.harmless, reading.spawned, reading.inner = harmless, spawned, inner
        reading.linked, reading.before = linked, before
        reading.remote = lead.strip() == _QUOTED
        reading.thread, reading.child = stack_lines.of_thread(lead), stack_lines.of_child(lead)
        reading.logged = stack_lines.is_log(lead.strip(), levels="WARNING|ERROR|CRITICAL")
        # A margin is a group's, or a tool's that quotes another's output.
        if stripped.endswith(GROUP_HEADER) or glued.strip() == "|":
            reading.group = GroupReader()
        elif box_title(stripped):
            reading.indent, reading.box = 0, BoxReader()
        self._reading = reading
        return given

    # Of exceptions that are alike, those that led to no other.
    def _unlinked(self) -> Sequence[Traceback]:
        over = len(self._ended) - self._chained
        if not self._chained or over <= 0 or not self._causes():
            return ()
        return [self._event(end) for end in self._ended[:over] if not end.harmless]

    def _all_harmless(self) -> bool:
        return bool(self._ended) and all(end.harmless for end in self._ended)

    # The exceptions that led to the next one. Of several that were mixed, which led to which is
    # only known where they are alike.
    def _causes(self) -> Causes:
        alike = {(*end.causes, (end.type, end.message)) for end in self._ended}
        return alike.pop() if len(alike) == 1 else ()

    # True while the line belongs to what is being read, or is another writer's among its lines.
    def _inside(self, reading: Reading, text: str, line: Line) -> bool:
        self.inside = self.code = True
        if reading.group is not None:
            return reading.group.feed(text, line)
        if reading.box is not None and not reading.box.closed and text:
            return reading.box.feed(text) or self._stray(reading, text)
        if not text.strip():
            return self._stray(reading, text)
        if count := stack_lines.header_count(text):
            return self._second_header(reading, line, count)
        mixed = reading.headers > 1
        if found := stack_lines.frame(text, anywhere=mixed):
            if len(reading.frames) < _DEEPEST:
                reading.frames.append(found)
            reading.last = line
            return True
        named = parse_exception(text.lstrip("^~ ") if mixed else text)
        if mixed or reading.strays or reading.headless:
            named = named if named and stack_lines.names_error(named[0]) else None
        if _indent(text) > reading.indent and not (mixed and named):
            reading.last = line
            return True
        if reading.ends and stack_lines.is_link(text.strip()):
            reading.links += 1
            return True
        if named is None:
            return self._stray(reading, text)
        self.code = False
        for found_end in each_of(named):
            reading.ends.append(End(line, found_end))
        if len(reading.ends) >= reading.headers:
            self._close()
        return True

    def _stray(self, reading: Reading, text: str) -> bool:
        self.inside = self.code = False
        reading.strays += 1
        # An agent speaks of processes that have ended.
        if reading.headers > 1 and stack_lines.is_agents(text):
            return False
        most = _MOST_STRAYS_IN_KNOT if reading.headers > 1 else _MOST_STRAYS
        return reading.strays <= most and not reading.headless

    # Another traceback begins where none has ended: the first was cut, or two are being written
    # at once. One process writes one after the other.
    def _second_header(self, reading: Reading, line: Line, count: int) -> bool:
        who = line.speaker
        alone = who.rank is not None or who.local_rank is not None or who.pid is not None
        if alone or line.stretch != reading.last.stretch or reading.box is not None:
            return False
        reading.headers += count
        reading.last_header = len(reading.frames)
        return True

    # Ends what is being read.
    def _close(self) -> None:
        reading, self._reading = self._reading, None
        if reading is None:
            return
        if reading.group is not None:
            self._close_group(reading, reading.group)
            return
        if not reading.ends:
            self._tear(reading)
            return
        full = {end.type for end in reading.ends if end.message}
        ends = [end for end in reading.ends if not (end.torn and end.type in full)]
        if reading.box is not None:
            reading.frames[:0] = reading.box.frames
        frames, mixed = tuple(reading.frames), False
        if reading.headers > 1:
            frames, mixed = frames_of_each(
                reading.frames, reading.headers, len(ends), reading.last_header
            )
            ends = ends[min(reading.links, len(ends) - 1) :] if ends else []
        for end in ends:
            end.mixed = mixed
            end.frames = frames
            self._end(reading, end)

    # What is read has no end: of a chain the last whole link is told, else that there was one.
    def _tear(self, reading: Reading) -> None:
        if reading.harmless:
            return
        if reading.before:
            for end in reading.before:
                end.cut = True
            self._ended += reading.before
        elif reading.frames or not reading.headless:
            self._torn = (reading, self._after.said)

    def _close_group(self, reading: Reading, group: GroupReader) -> None:
        whole, leaves = group.group(), group.leaves()
        if whole is None:
            return
        part, causes = whole, tuple((leaf.type, leaf.message) for leaf in leaves)
        if len(leaves) == 1:
            part, causes = leaves[0], ((whole.type, whole.message),)
        end = End(part.line, (part.type, part.message))
        end.frames = part.frames or whole.frames
        reading.causes = (*reading.causes, *causes)
        self._end(reading, end)
        self._message = None

    def _end(self, reading: Reading, end: End) -> None:
        if self._after.begun and not reading.linked and not end.type.endswith("ChildFailedError"):
            self._after.said += 1
        end.reading, end.said, end.causes = reading, self._after.said, reading.causes
        self._after.ended()
        # What a pool's process raised is raised anew by its owner: it came from the process's.
        if reading.inner and reading.causes and reading.causes[-1] == (end.type, end.message):
            end.frames = reading.inner
        if not end.frames:
            end.frames = tuple(reading.frames) if reading.headers == 1 else ()
        self._reading = self._torn = None
        self._ended.append(end)
        self._message = end


def _is_plain(text: str) -> bool:
    return WORDS[0] not in text and WORDS[1] not in text


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def split_message(text: str) -> tuple[str, tuple[str, ...]]:
    """A message's first line that says something, and the further ones, each cut if huge."""
    said = [line.strip() for line in text[:65_536].split("\n") if line.strip()]
    if not said:
        return "", ()
    return said[0][:LONGEST], tuple(line[:300] for line in said[1 : _MOST_MORE + 1])


def parse_traceback(text: str) -> tuple[tuple[Frame, ...], str, str] | None:
    """Frames, type and message of the last traceback in ``text`` (an error.json's callstack)."""
    reader = TracebackReader()
    last: Traceback | None = None
    for number, raw in enumerate(text.split("\n")):
        for found in reader.feed(Line(Place("", number, None, ""), Speaker(), raw)):
            last = found
    for found in reader.flush():
        last = found
    return None if last is None else (last.frames, last.type, last.message)
