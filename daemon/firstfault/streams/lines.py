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
# What of one line is searched: a progress bar or a binary blob can be one line of 100 MB.
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

    A carriage return does not end a physical line, but what follows it is a line of its own to
    a reader: the parts share one place.
    """
    for excerpt in document.excerpts:
        data = excerpt.data
        number = excerpt.line
        at = 0
        while at < len(data):
            end = data.find(b"\n", at)
            stop = len(data) if end < 0 else end
            whole = data[at : min(stop, at + LONGEST_TEXT)].decode("utf-8", "replace")
            place = Place(
                document.name, excerpt.offset + at, number, whole[:LONGEST_QUOTE].rstrip("\r")
            )
            for part in whole.rstrip("\r").split("\r"):
                yield place, part
            at = stop + 1
            if number is not None:
                number += 1


def lines(document: Document) -> Iterator[Line]:
    """The document's lines, prefixes taken off, with their speakers."""
    folder = run_folder(document.name)
    labelled = folder is None and has_task_labels(_sample(document))
    for place, text in raw_lines(document):
        clean = text.replace("\x00", "")
        if "\x1b" in clean:
            clean = ANSI.sub("", clean)
        peeled = peel(clean, labelled=labelled)
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
        result.append(ANSI.sub("", text[:200]))
        if len(result) >= _SAMPLE:
            break
    return result
