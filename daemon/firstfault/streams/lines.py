"""From a document's bytes to lines with their speakers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice

import msgspec

from firstfault.model.document import Document, Excerpt
from firstfault.model.line import Line, Place, Speaker
from firstfault.streams.passages import Plain, Telling
from firstfault.streams.prefixes import ANSI, Peeler
from firstfault.streams.wrappers import PLAIN, Layout, layout

# A line's text in a report is cut here; more than this of one line proves nothing more.
LONGEST_QUOTE = 2_000
# What of one line is searched, at its start and again at its end: a progress bar or a binary
# blob can be one line of 100 MB, and the message that ended the bar is glued to its end.
LONGEST_TEXT = 65_536
_SAMPLE = 4_000
_WIDE = 200
_LAUNCHERS = (
    b"ChildFailedError",
    b"torch/distributed/run.py",
    b"torch.distributed.elastic.multiprocessing.api",
    b"/elastic/multiprocessing/api.py",
    b"[default0]:",
)
_RUN_FILE = re.compile(
    r"(?:^|[/:])(?P<run>[^/:]+)/attempt_(?P<attempt>\d{1,6})/(?P<local>\d{1,6})/"
    r"(?:std(?:out|err)\.log|error\.json)$"
)


class RunFolder(msgspec.Struct, frozen=True, gc=False):
    """A file's place in torchrun's log folders: ``<run>/attempt_<N>/<local rank>/...``."""

    run: str
    attempt: int
    local_rank: int


# Asked several times while a document is read.
@lru_cache(maxsize=256)
def run_folder(name: str) -> RunFolder | None:
    """Where in torchrun's log folders the file ``name`` stands, None if it does not."""
    match = _RUN_FILE.search(name)
    if match is None:
        return None
    return RunFolder(match["run"], int(match["attempt"]), int(match["local"]))


def raw_lines(document: Document) -> Iterator[tuple[Place, str]]:
    """The document's lines with their places: every byte sequence is text, none is refused.

    NUL bytes and terminal codes are taken off the text, not off the place. A carriage return
    does not end a physical line, but what follows it is a line of its own to a reader: the parts
    share one place, but for those of which a quote of the whole line would show nothing.
    """
    for excerpt in document.excerpts:
        for parts in _physical_lines(document.name, excerpt):
            yield from parts


# Each line's parts between carriage returns.
def _physical_lines(name: str, excerpt: Excerpt) -> Iterator[Sequence[tuple[Place, str]]]:
    data = excerpt.data
    return _lines_between(name, excerpt.offset, excerpt.line, data, 0, len(data))


# The same of the lines in data[at:high]; ``base`` is where ``data`` begins in the file, ``number``
# the first line's.
def _lines_between(
    name: str, base: int, number: int | None, data: bytes, at: int, high: int
) -> Iterator[Sequence[tuple[Place, str]]]:
    while at < high:
        end = data.find(b"\n", at, high)
        stop = high if end < 0 else end
        offset = base + at
        raw = data[at : min(stop, at + LONGEST_QUOTE)]
        if stop - at <= LONGEST_QUOTE and b"\r" not in raw:
            text = raw.decode("utf-8", "replace")
            yield ((Place(name, offset, number, text), _clean(text)),)
        else:
            yield _many_parts(name, offset, number, data, at, stop)
        at = stop + 1
        if number is not None:
            number += 1


def _many_parts(
    name: str, offset: int, number: int | None, data: bytes, at: int, stop: int
) -> list[tuple[Place, str]]:
    quote = data[at : min(stop, at + LONGEST_QUOTE * 4)].decode("utf-8", "replace")
    whole = Place(name, offset, number, quote[:LONGEST_QUOTE].rstrip("\r"))
    found = []
    for start, part in _parts(data, at, stop):
        text = part.decode("utf-8", "replace")
        place = whole
        if start + len(part) > at + LONGEST_QUOTE and start > at:
            place = Place(name, offset + start - at, number, text[:LONGEST_QUOTE])
        found.append((place, _clean(text)))
    return found


# The parts of the line data[at:stop] between carriage returns, with where each begins. Of a
# huge line only the start and the end are looked at.
def _parts(data: bytes, at: int, stop: int) -> Iterator[tuple[int, bytes]]:
    while stop > at and data[stop - 1 : stop] == b"\r":
        stop -= 1
    stretches = [(at, stop)]
    if stop - at > 2 * LONGEST_TEXT:
        stretches = [(at, at + LONGEST_TEXT), (stop - LONGEST_TEXT, stop)]
    for low, high in stretches:
        for part in data[low:high].split(b"\r"):
            yield low, part
            low += len(part) + 1


def _clean(text: str) -> str:
    if "\x00" in text:
        text = text.replace("\x00", "")
    return ANSI.sub("", text) if "\x1b" in text else text


def lines(document: Document) -> Iterator[Line]:
    """The document's lines, prefixes taken off, with their speakers."""
    reading = _Lines(document)
    for stretch, excerpt in reading.stretches():
        yield from reading.lines(_physical_lines(document.name, excerpt), stretch)


def passages(document: Document, telling: Telling) -> Iterator[Line | Plain]:
    """The same, but where lines follow one another that are plain, all of them as one."""
    reading = _Lines(document)
    for stretch, excerpt in reading.stretches():
        if reading.wrapped:
            yield from reading.lines(_physical_lines(document.name, excerpt), stretch)
        else:
            yield from reading.passages(excerpt, stretch, telling)


class _Lines:
    """One document's lines."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._folder = run_folder(document.name)
        layout = PLAIN if self._folder is not None else _layout(document)
        self.wrapped = bool(layout.wrappers)
        self._peeler = Peeler(layout)
        self._owners: dict[Speaker, Speaker] = {}
        self._placed = self._folder is not None or document.host is not None

    # Excerpts with how many gaps are before them.
    def stretches(self) -> Iterator[tuple[int, Excerpt]]:
        stretch, end = 0, None
        for excerpt in self._document.excerpts:
            stretch += end is not None and excerpt.offset != end
            end = excerpt.offset + len(excerpt.data)
            yield stretch, excerpt

    # ``physical`` are lines as `_physical_lines` gives them.
    def lines(
        self, physical: Iterable[Sequence[tuple[Place, str]]], stretch: int
    ) -> Iterator[Line]:
        document, folder, owners = self._document, self._folder, self._owners
        peeler, placed = self._peeler, self._placed
        for parts in physical:
            outer: Speaker | None = None
            for place, text in parts:
                peeled = peeler.peel(text, outer)
                outer = peeled.outer
                # Most lines have no second prefix: looking for its end first is the faster.
                while "]:" in peeled.text and (seam := peeler.seam(peeled.text)):
                    who = _owner(peeled.speaker, owners, document, folder)
                    yield Line(place, who, peeled.text[:seam], peeled.hooked, stretch)
                    peeled = peeler.peel(peeled.text[seam:], outer)
                who = peeled.speaker
                if placed:
                    who = _owner(who, owners, document, folder)
                yield Line(place, who, peeled.text, peeled.hooked, stretch)

    def passages(self, excerpt: Excerpt, stretch: int, telling: Telling) -> Iterator[Line | Plain]:
        data, number, name = excerpt.data, excerpt.line, self._document.name
        who = _owner(Speaker(), self._owners, self._document, self._folder)
        for low, high, texts in telling.parts(data, LONGEST_QUOTE):
            offset = excerpt.offset + low
            if texts:
                said = sum(1 for text in texts if text.strip())
                yield Plain(name, offset, number, texts, said, who, stretch)
            else:
                physical = _lines_between(name, excerpt.offset, number, data, low, high)
                yield from self.lines(physical, stretch)
            if number is not None:
                number += len(texts) or data.count(b"\n", low, high)


# The speaker, completed by the file's own place.
def _owner(
    speaker: Speaker, owners: dict[Speaker, Speaker], document: Document, folder: RunFolder | None
) -> Speaker:
    if folder is None and (speaker.host is not None or document.host is None):
        return speaker
    owner = owners.get(speaker)
    if owner is None:
        if folder is None:
            owner = msgspec.structs.replace(speaker, host=document.host)
        else:
            owner = Speaker(
                host=document.host,
                rank=speaker.rank,
                local_rank=folder.local_rank,
                run=folder.run,
                attempt=folder.attempt,
            )
        owners[speaker] = owner
    return owner


# A progress bar's states are no lines of their own there: only a line's beginning has wrappers.
def _layout(document: Document) -> Layout:
    physical = chain.from_iterable(
        _physical_lines(document.name, excerpt) for excerpt in document.excerpts
    )
    head = [parts[0][1][:_WIDE] for parts in islice(physical, _SAMPLE)]
    samples = [head]
    if len(head) == _SAMPLE:
        samples.append(_last_beginnings(document.excerpts[-1].data))
    return layout(samples, launchers=_has_launchers(document, samples))


def _last_beginnings(data: bytes) -> list[str]:
    found: list[str] = []
    stop = len(data)
    while stop > 0 and len(found) < _SAMPLE:
        begin = data.rfind(b"\n", 0, stop) + 1
        line = data[begin : min(stop, begin + _WIDE)].partition(b"\r")[0]
        found.append(_clean(line.decode("utf-8", "replace")))
        stop = begin - 1
    return found[::-1]


# Whether launchers of ranks speak in a file whose lines are numbered as MPI's processes.
def _has_launchers(document: Document, samples: list[list[str]]) -> bool:
    if not any("]<std" in line or "[" in line[:1] for sample in samples for line in sample):
        return False
    return any(word in excerpt.data for excerpt in document.excerpts for word in _LAUNCHERS)
