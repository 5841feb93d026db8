"""Documents, lines and events from plain text, for the tests of streams, readers and runs."""

from __future__ import annotations

import datetime as dt

from firstfault.model.document import Clock, Document, Excerpt
from firstfault.model.event import Event, LastWords
from firstfault.model.line import Line, Place, Speaker
from firstfault.readers.output import read_output
from firstfault.readers.times import Zone, zone

ZONE = Zone(0, True, 2026)


def document(
    text: str | bytes,
    name: str = "slurm.out",
    *,
    host: str | None = None,
    what: str | None = None,
    clock: Clock | None = None,
    modified_at: dt.datetime | None = None,
) -> Document:
    """A whole file."""
    data = text.encode() if isinstance(text, str) else text
    excerpts = (Excerpt(0, 1, data),) if data else ()
    return Document(
        name,
        excerpts,
        host=host,
        what=what,
        size=len(data),
        clock=clock,
        modified_at=modified_at,
    )


def line(text: str, speaker: Speaker | None = None, *, hooked: bool = False) -> Line:
    """One line of which the prefixes were taken off."""
    return Line(Place("slurm.out", 0, 1, text), speaker or Speaker(), text, hooked)


def events(text: str | bytes, name: str = "slurm.out") -> tuple[Event, ...]:
    """All events in a file of output, but for the last words, which every output has."""
    found = document(text, name)
    told = read_output(found, zone(found)).events
    return tuple(event for event in told if not isinstance(event, LastWords))
