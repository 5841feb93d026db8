"""The report for a terminal: the answer in its first lines, then what supports it.

The same verdict and width give the same bytes. No line is wider than the width: all is wrapped, and
of a quoted line the first rows are shown (what says why often stands at its end). Nothing of the input can reach the terminal as a control.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size

from firstfault.model import verdict as v
from firstfault.report import wording as w
from firstfault.report.outline import outline
from firstfault.report.sections import Fact, Limits, Listing, Outline, Quote

LIMITS = Limits(items=10, quote=1000, phrase=500)
_LEAST_WIDTH = 40
# How many rows of a quoted line are shown: of the one that proves it, and of others.
_PROOF_ROWS, _QUOTE_ROWS = 5, 3
_PLAIN, _BOLD, _FAINT = "", "1", "2"
_TONE = {"failure": "1;31", "unknown": "1;33", "success": "1;32"}

# A word with what is quoted in it; a quote that does not end takes the rest.
_SHELL_WORD = re.compile(r"""(?:'[^']*(?:'|$)|"(?:\\.|[^"\\])*(?:"|\\?$)|\\.|[^\s'"\\]|\\$)+""")

# A line and the parameters of its colour sequence (SGR).
Line = tuple[str, str]


def render(verdict: v.Verdict, *, width: int = 80, color: bool = False) -> str:
    """The report on ``verdict`` in lines of at most ``width`` cells (at least 40 are used).

    With ``color``, lines carry ANSI colours; without, there is not one escape in it.
    """
    width = max(width, _LEAST_WIDTH)
    said = outline(verdict, LIMITS)
    lines = [*_answer(said, width), *_body(said, width), *_foot(said, width)]
    return "".join(_painted(text, style if color else _PLAIN) + "\n" for text, style in lines)


def _painted(text: str, style: str) -> str:
    text = text.rstrip()
    return f"\x1b[{style}m{text}\x1b[0m" if style and text else text


def _answer(said: Outline, width: int) -> Iterator[Line]:
    yield from _wrapped(said.headline, width, style=_TONE[said.tone])
    yield from _wrapped(" · ".join((said.where, *said.sureness)), width, style=_BOLD)
    if said.when is not None:
        yield from _wrapped(said.when, width)
    if said.proof is not None:
        yield from _raw(said.proof.text, width, "", _PROOF_ROWS)
        yield from _wrapped(f"({said.proof.place})", width, style=_FAINT)
    if said.also is not None:
        yield from _wrapped(f"Failed the same way, not later: {said.also}", width, "", "  ")
    if said.candidates is not None:
        yield from _wrapped(f"One of: {said.candidates}", width, "", "  ")


def _body(said: Outline, width: int) -> Iterator[Line]:
    if said.tone == "unknown":
        yield from _missing(said, width)
    yield from _facts("Exception", said.exception, width)
    yield from _advice(said, width)
    yield from _facts("Where", said.details, width)
    yield from _events(said, width)
    yield from _effects(said, width)
    yield from _readings(said, width)
    if said.tone != "unknown":
        yield from _missing(said, width)
    more = Listing(said.evidence.items[1:], said.evidence.left_out)
    yield from _quotes("More evidence", more, width)
    yield from _quotes("Alarming lines that this verdict does not explain", said.unexplained, width)
    yield from _items("Notes", said.notes, width, "- ")


def _foot(said: Outline, width: int) -> Iterator[Line]:
    is_told = said.tone == "success" or any(part.do.items for part in said.advice)
    who = () if is_told else (Fact("Who can act", said.who_acts),)
    yield from _facts("Job", (*said.job_facts, *who), width)
    runs = tuple(f"{run.name}: {run.outcome}" for run in said.attempts.items)
    yield from _items("Runs", Listing(runs, said.attempts.left_out), width, "- ")
    read = tuple(
        f"{row.who}: kernel log: {row.kernel}, job logs: {row.logs}"
        + (f" ({row.note})" if row.note else "")
        for row in said.coverage.items
    )
    yield from _items("What was read", Listing(read, said.coverage.left_out), width, "- ")
    yield "", _PLAIN
    if said.plain is not None:
        yield from _wrapped(f"In plain words: {said.plain}", width)
    fingerprint = f" · fingerprint {said.fingerprint}" if said.fingerprint else ""
    about = f"About this cause: firstfault causes {said.cause_id}{fingerprint}"
    yield from _wrapped(about, width, style=_FAINT)


def _advice(said: Outline, width: int) -> Iterator[Line]:
    for part in said.advice:
        who = "" if said.tone == "success" else part.reader or said.who_acts
        yield from _title(f"What to do: {who}" if who else "What to do", width)
        for k, phrase in enumerate(part.do.items, 1):
            lead = f"  {k}. "
            yield from _wrapped(phrase, width, lead, " " * len(lead))
        yield from _left_out(part.do, width)
        for command in part.commands.items:
            yield from ((row, _PLAIN) for row in command_rows(command, width))
        yield from _left_out(part.commands, width)
    yield from _items("How to check that it helped", said.verify, width, "- ")
    yield from _items("How to keep it from coming back", said.prevent, width, "- ")


def command_rows(command: str, width: int) -> Iterator[str]:
    """A command in rows of ``width`` cells, indented, to be pasted as they are.

    It is broken between the shell's words with a backslash, as a shell reads it; a word is never
    broken, even where it is wider.
    """
    row = "   "
    for word in _SHELL_WORD.findall(command):
        if row.strip() and cell_len(f"{row} {word}") > width - 2:
            yield f"{row} \\"
            row = "     "
        row = f"{row} {word}"
    yield row


def _effects(said: Outline, width: int) -> Iterator[Line]:
    if not said.effects.items:
        return
    yield from _title("Consequences", width)
    if said.effects_sentence is not None:
        yield from _wrapped(said.effects_sentence, width, "  ")
    for effect in said.effects.items:
        yield from _wrapped(effect.sentence, width, "  - ", "    ")
        if effect.example is not None:
            yield from _quote(effect.example, width, "    ")
    yield from _left_out(said.effects, width)


def _events(said: Outline, width: int) -> Iterator[Line]:
    if not said.events.items:
        return
    yield from _title(f"Time line ({said.times})", width)
    column = max(len(event.when) for event in said.events.items)
    for event in said.events.items:
        lead = f"  {event.when:>{column}}  " if column else "  - "
        where = f"{event.where}: " if event.where else ""
        text = f"{where}{event.what} [{event.role}]"
        yield from _wrapped(text, width, lead, " " * len(lead))
    yield from _left_out(said.events, width)


def _readings(said: Outline, width: int) -> Iterator[Line]:
    texts = tuple(f"{a.cause} ({a.confidence}): {a.against}" for a in said.alternatives.items)
    yield from _items("Other readings", Listing(texts, said.alternatives.left_out), width, "- ")


def _missing(said: Outline, width: int) -> Iterator[Line]:
    if not said.missing.items:
        return
    yield from _title("Missing evidence", width)
    for gap in said.missing.items:
        yield from _wrapped(gap.what, width, "  - ", "    ", style=_BOLD)
        yield from _wrapped(gap.why, width, "    ")
        yield from _wrapped(f"How to get it: {gap.how}", width, "    ")
    yield from _left_out(said.missing, width)


def _quotes(title: str, quotes: Listing[Quote], width: int) -> Iterator[Line]:
    if not quotes.items:
        return
    yield from _title(title, width)
    for quote in quotes.items:
        yield from _quote(quote, width, "  ")
    yield from _left_out(quotes, width)


def _quote(quote: Quote, width: int, lead: str) -> Iterator[Line]:
    yield from _wrapped(quote.place, width, lead, style=_FAINT)
    yield from _raw(quote.text, width, lead, _QUOTE_ROWS)


def _items(title: str, listing: Listing[str], width: int, mark: str) -> Iterator[Line]:
    if not listing.items:
        return
    yield from _title(title, width)
    for text in listing.items:
        yield from _wrapped(text, width, f"  {mark}", "  " + " " * len(mark))
    yield from _left_out(listing, width)


def _facts(title: str, facts: tuple[Fact, ...], width: int) -> Iterator[Line]:
    if not facts:
        return
    yield from _title(title, width)
    column = max(len(fact.label) for fact in facts)
    for fact in facts:
        lead = f"  {fact.label:<{column}}  "
        yield from _wrapped(fact.value, width, lead, " " * len(lead))


def _left_out(listing: Listing[object], width: int) -> Iterator[Line]:
    if listing.left_out:
        text = f"… {w.number(listing.left_out)} more; all are in --format json"
        yield from _wrapped(text, width, "  ", style=_FAINT)


def _title(title: str, width: int) -> Iterator[Line]:
    yield "", _PLAIN
    yield from _wrapped(title, width, style=_BOLD)


def _raw(text: str, width: int, lead: str, most: int) -> Iterator[Line]:
    """A quoted line in at most ``most`` rows, further ones indented; cut with an ellipsis."""
    start = lead
    for row in range(1, most + 1):
        cells = width - len(start)
        if cell_len(text) <= cells:
            yield start + text, _PLAIN
            return
        if row == most:
            yield start + set_cell_size(text, cells - 1) + "…", _PLAIN
            return
        piece, text = _split_at(text, cells)
        # Rather between words, where one ends in the row's second half.
        blank = piece.rfind(" ", len(piece) // 2)
        if blank > 0 and not text.startswith(" "):
            piece, text = piece[:blank], piece[blank:] + text
        yield start + piece, _PLAIN
        text, start = text.lstrip(" "), f"{lead}  "


def _wrapped(
    text: str,
    width: int,
    lead: str = "",
    then: str | None = None,
    *,
    style: str = _PLAIN,
) -> Iterator[Line]:
    """``text`` in lines of at most ``width`` cells, broken at blanks; a longer word is broken
    anywhere. ``lead`` starts the first line and ``then`` the others."""
    then = lead if then is None else then
    row, start = "", lead
    for word in text.split():
        joined = f"{row} {word}" if row else word
        if cell_len(start + joined) <= width:
            row = joined
            continue
        if row:
            yield start + row, style
            start = then
        while cell_len(start + word) > width:
            piece, word = _split_at(word, width - cell_len(start))
            yield start + piece, style
            start = then
        row = word
    if row:
        yield start + row, style


def _split_at(word: str, cells: int) -> tuple[str, str]:
    """The part of ``word`` that fits and the rest; a path is rather broken after a slash, a list
    after a comma."""
    # At least one character, or a wide one in a narrow place would never end.
    end = 1
    used = cell_len(word[0])
    while end < len(word) and used + cell_len(word[end]) <= cells:
        used += cell_len(word[end])
        end += 1
    slash = max(word.rfind(mark, end // 2, end) for mark in "/,")
    end = slash + 1 if slash > 0 else end
    return word[:end], word[end:]
