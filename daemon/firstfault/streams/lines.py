"""From a document's bytes to lines with their speakers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from firstfault.model.document import Document
from firstfault.model.line import Line, Place, Speaker
from firstfault.streams.prefixes import ANSI, has_task_labels, peel

# A line's text in a report is cut here; more than this of one line proves nothing more.
LONGEST_QUOTE = 2_000
# What of one line is searched, at its start and again at its end: a progress bar or a binary
# blob can be one line of 100 MB, and the message that ended the bar is glued to its end.
LONGEST_TEXT = 65_536
_SAMPLE = 4_000
_RUN_FILE = re.compile(
    r"(?:^|[/:])(?P<run>[^/:]+)/attempt_(?P<attempt>\d{1,6})/(?P<local>\d{1,6})/"
    r"(?:std(?:out|err)\.log|error\.json)$"
)


class RunFolder(msgspec.Struct, frozen=True):
    """A file's place in torchrun's log folders: ``<run>/attempt_<N>/<local rank>/...``."""

    run: str
    attempt: int
    local_rank: int


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
        data = excerpt.data
        number = excerpt.line
        at = 0
        while at < len(data):
            end = data.find(b"\n", at)
            stop = len(data) if end < 0 else end
            whole = Place(
                document.name,
                excerpt.offset + at,
                number,
                data[at : min(stop, at + LONGEST_QUOTE * 4)]
                .decode("utf-8", "replace")[:LONGEST_QUOTE]
                .rstrip("\r"),
            )
            for start, part in _parts(data, at, stop):
                text = part.decode("utf-8", "replace")
                place = whole
                if start + len(part) > at + LONGEST_QUOTE and start > at:
                    place = Place(
                        document.name, excerpt.offset + start, number, text[:LONGEST_QUOTE]
                    )
                yield place, _clean(text)
            at = stop + 1
            if number is not None:
                number += 1


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
    folder = run_folder(document.name)
    labelled = folder is None and has_task_labels(_sample(document))
    for place, text in raw_lines(document):
        peeled = peel(text, labelled=labelled)
        speaker = peeled.speaker
        if folder is not None:
            speaker = Speaker(
                host=document.host,
                rank=speaker.rank,
                local_rank=folder.local_rank,
                run=folder.run,
                attempt=folder.attempt,
            )
        elif speaker.host is None and document.host is not None:
            speaker = msgspec.structs.replace(speaker, host=document.host)
        yield Line(place, speaker, peeled.text, peeled.hooked)


def _sample(document: Document) -> list[str]:
    result: list[str] = []
    for _, text in raw_lines(document):
        result.append(text[:200])
        if len(result) >= _SAMPLE:
            break
    return result
