"""The lines around those that a verdict quotes: what was said just before and just after.

Only in a job's output and in ranks' logs: beside a line of a node's own logs stand those of other
jobs. Few lines, so that a record, which holds parts of a file, has what the whole file has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firstfault.model import verdict as v
from firstfault.model.document import Document, Excerpt

LINES = 3
# Of so many quotes, and so many characters of a line.
MOST = 6
LONGEST = 300

_SOURCES = frozenset(("job output", "rank's log"))
# Longer lines are no text that anybody reads.
_FAR = 8 << 10
# So many characters tell whether a line is the one that is quoted.
_ENOUGH = 40
# Masks know a key by its first or last line, which need not be among these few.
_KEY = b"PRIVATE KEY"


def surroundings(
    evidence: Sequence[v.Evidence], documents: Iterable[Document]
) -> tuple[v.Surroundings, ...]:
    """What stands around each of ``evidence`` in ``documents``; of what has no lines, nothing."""
    quoted = [(k, each) for k, each in enumerate(evidence) if each.source in _SOURCES][:MOST]
    names = {each.file for _, each in quoted}
    named: dict[str, list[Document]] = {}
    for document in documents:
        if document.name in names:
            named.setdefault(document.name, []).append(document)
    found = []
    for k, each in quoted:
        found_in = [_around(each, document) for document in named.get(each.file, ())]
        told = {lines for lines in found_in if lines is not None}
        # Of two files of one name that both hold the line, nothing tells which is meant.
        if len(told) == 1:
            before, after = told.pop()
            if before or after:
                found.append(v.Surroundings(k, before, after))
    return tuple(found)


_Lines = tuple[tuple[str, ...], tuple[str, ...]]


def _around(quote: v.Evidence, document: Document) -> _Lines | None:
    if quote.offset is None:
        return None
    for excerpt in document.excerpts:
        # Its length is not known before it is unpacked.
        if excerpt.offset <= quote.offset and (found := _within(quote, quote.offset, excerpt)):
            return found
    return None


def _within(quote: v.Evidence, offset: int, excerpt: Excerpt) -> _Lines | None:
    data, at = excerpt.data, offset - excerpt.offset
    there = data[at : at + 4 * _ENOUGH].decode("utf-8", "replace")
    if at >= len(data) or not there.startswith(quote.text[:_ENOUGH]):
        return None
    if _KEY in data[max(0, at - _FAR) : at + _FAR]:
        return (), ()
    return _before(data, at), _after(data, at)


def _before(data: bytes, at: int) -> tuple[str, ...]:
    lines: list[str] = []
    end = data.rfind(b"\n", max(0, at - _FAR), at)
    while end >= 0 and len(lines) < LINES:
        begin = data.rfind(b"\n", max(0, end - _FAR), end)
        if begin < 0 and end > _FAR:
            break
        lines.append(_text(data[begin + 1 : end]))
        end = begin
    return tuple(reversed(lines))


def _after(data: bytes, at: int) -> tuple[str, ...]:
    lines: list[str] = []
    end = data.find(b"\n", at)
    while 0 <= end < len(data) - 1 and len(lines) < LINES:
        begin = end + 1
        end = data.find(b"\n", begin, begin + _FAR)
        if end < 0 and len(data) - begin > _FAR:
            break
        lines.append(_text(data[begin:] if end < 0 else data[begin:end]))
    return tuple(lines)


# Of a progress bar, what was seen last.
def _text(line: bytes) -> str:
    text = line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
