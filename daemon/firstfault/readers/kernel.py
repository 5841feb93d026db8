"""The kernel log: OOM kills, traps, Xids and what signatures know, from every form of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from firstfault.model.document import Document
from firstfault.model.event import KernelSign, OomKill, Trap, Xid
from firstfault.readers.kernel_faults import TrapReader, xid
from firstfault.readers.kernel_heads import KERNEL, has_grep_prefix, head
from firstfault.readers.kernel_oom import OomReader
from firstfault.readers.kernel_records import LONGEST, Record, records
from firstfault.readers.kernel_signs import SignReader
from firstfault.readers.times import Zone
from firstfault.streams.lines import raw_lines

KernelEvent = OomKill | Trap | KernelSign | Xid

# Output without any of these has no kernel's lines in it that matter.
_QUOTED_WORDS = (b"ill process", b"illed process", b"Kernel panic", b"Hardware Error]: ",
    b"blocked for more than", b"soft lockup", b"hard LOCKUP", b"not responding", b"I/O error, dev",
    b"was evicted by", b"oom-kill:", b"Oops: ", b"EXT4-fs", b"BUG: ", b"NVRM: ", b"SXid", b"amdgpu")  # fmt: skip
_NO_ZONE = Zone()


def kernel_events(document: Document, zone: Zone) -> Iterator[KernelEvent]:
    """The events in a kernel log. Lines that a program wrote there kill nobody."""
    yield from _events(records(document, zone))


def quoted_kernel_events(document: Document, zone: Zone) -> Iterator[OomKill | KernelSign]:
    """Kills and signs in a kernel log that stands among a program's output, marked as quoted.

    A person may have put the node's kernel log below the job's output, or the program may have
    printed such lines: nobody can tell. Only lines with the kernel's own heads count, and none
    behind a prefix or a label, which would make it a rank's.
    """
    if not any(word in each.data for each in document.excerpts for word in _QUOTED_WORDS):
        return
    for event in _events(_quoted(document, zone)):
        if isinstance(event, OomKill | KernelSign):
            yield msgspec.structs.replace(event, quoted=True)


def kernel_line_text(raw: str) -> str | None:
    """A kernel line without its time and host, None where ``raw`` has no such head."""
    found = head(raw, _NO_ZONE)
    if found is None or found.program not in (None, KERNEL):
        return None
    return raw[found.end :]


def _quoted(document: Document, zone: Zone) -> Iterator[Record]:
    for place, raw in raw_lines(document):
        line = raw[:LONGEST]
        found = head(line, zone)
        if found is None or found.program not in (None, KERNEL) or has_grep_prefix(line):
            continue
        yield Record(
            place, line[found.end :], found.at, found.since_boot_s, found.host, found.writer
        )


def _events(log: Iterable[Record]) -> Iterator[KernelEvent]:
    kills, traps, signs = OomReader(), TrapReader(), SignReader()
    found: list[KernelEvent] = []
    boots = 1
    for record in log:
        boots = max(boots, record.boot)
        found.extend(kills.feed(record))
        if record.writer == KERNEL and (trap := traps.feed(record)):
            found.append(trap)
        if error := xid(record):
            found.append(error)
        signs.feed(record)
    found.extend(kills.flush())
    found.extend(signs.signs())
    # Stable: a kill that is told late stands where its own line does.
    found.sort(key=lambda event: event.place.offset)
    for event in found:
        if isinstance(event, Xid) or boots > 1:
            yield event
        else:
            yield msgspec.structs.replace(event, boot=None)
