"""The words of a report: labels, times, places, counts, and how hostile text is made harmless.

Everything that a report says in more than one form (page, terminal, message) is worded here,
so that the forms cannot drift apart.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Iterable, Sequence

CONFIDENCE = {
    "confirmed": "two independent sources agree, or one states it beyond doubt",
    "likely": "one good source, and nothing against it",
    "possible": "the best reading among several",
    "unknown": "the evidence does not tell",
}

WHO_ACTS = {
    "user": "the job's owner (code or settings)",
    "system": "the cluster's administrators",
    "either": "the job's owner or the cluster's administrators",
}

OUTCOME = {
    "failed": "failed",
    "recovered": "failed, and the job went on",
    "succeeded": "succeeded",
    "unknown": "end not known",
}

ROLES = frozenset({"cause", "consequence", "context"})

# Causes for which no rank is first: something outside ended the whole job.
WHOLE_JOB = frozenset({"slurm.time-limit", "slurm.cancelled", "slurm.preempted"})

_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_NAMED = {"\n": "\\n", "\r": "\\r", "\x00": "\\0", "\x1b": "\\e", "\t": "    "}
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    """``text`` on one line, with nothing in it that could steer a terminal or the reader's eye.

    Colour sequences are dropped (what they hid is then seen); control characters, bidi and
    zero-width characters, line breaks and lone surrogates are spelled out (``\\e``, ``\\u202e``).
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _spelled(char) if unicodedata.category(char) in _HIDDEN else _spaced(char)
        for char in _SGR.sub("", text)
    )


def _spelled(char: str) -> str:
    named = _NAMED.get(char)
    if named is not None:
        return named
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _spaced(char: str) -> str:
    # Blanks that are not U+0020 would make equal-looking text differ when copied.
    return " " if unicodedata.category(char) == "Zs" else char


def cut(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` characters (20 or more); says how many were left out."""
    if len(text) <= limit:
        return text
    # The note is as long as its own number lets it be: two rounds settle it.
    note = f"… (+{len(text)})"
    return f"{text[: limit - len(note)]}… (+{len(text) - limit + len(note)})"


def clean(text: str, limit: int = 500) -> str:
    """`visible` and then `cut`; one blank where the text was empty would be lost, so "" stays."""
    # Spelling out can only lengthen: what lies beyond the limit need not be looked at.
    if len(text) > 8 * limit:
        left = visible(text[: 8 * limit])
        note = f"… (+{len(text) - limit})"
        return left[: limit - len(note)] + note
    return cut(visible(text), limit)


def number(value: int) -> str:
    """12345 as "12,345"."""
    return f"{value:,}"


def count(value: int, one: str, many: str | None = None) -> str:
    """ "1 rank", "7 ranks"."""
    return f"{number(value)} {one if value == 1 else many or one + 's'}"


def moment(at: dt.datetime) -> str:
    """ "2026-11-30 15:56:25.422 UTC": the digits that are there, in UTC."""
    return f"{_digits(at)} UTC"


def span(earliest: dt.datetime | None, latest: dt.datetime | None) -> str | None:
    """When something happened, between two moments of which either may be missing."""
    if earliest is None and latest is None:
        return None
    if earliest is None or latest is None:
        known = earliest or latest
        assert known is not None
        return f"{'not after' if earliest is None else 'not before'} {moment(known)}"
    if earliest == latest:
        return moment(earliest)
    first, last = _digits(earliest), _digits(latest)
    if first[:10] == last[:10]:
        last = last[11:]
    return f"{first} to {last} UTC"


def clock(earliest: dt.datetime | None, latest: dt.datetime | None, dated: bool = False) -> str:
    """A short time for a list: without its day unless ``dated``, "" when nothing is known."""
    at = earliest or latest
    if at is None:
        return ""
    digits = _digits(at) if dated else _digits(at)[11:]
    return digits if earliest is not None else f"≤ {digits}"


def _digits(at: dt.datetime) -> str:
    text = at.astimezone(dt.UTC).isoformat(sep=" ", timespec="microseconds")[:26]
    return text.removesuffix("000").removesuffix(".000")


def ranges(values: Iterable[int]) -> str:
    """ "0-4,6-7" for the whole numbers given."""
    parts: list[tuple[int, int]] = []
    for value in sorted(set(values)):
        if parts and value == parts[-1][1] + 1:
            parts[-1] = (parts[-1][0], value)
        else:
            parts.append((value, value))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def listed(words: Sequence[str], limit: int) -> str:
    """ "a, b, c and 9 more"."""
    shown = ", ".join(words[:limit])
    more = len(words) - limit
    return f"{shown} and {number(more)} more" if more > 0 else shown


def place(rank: int | None, host: str | None) -> str | None:
    """ "rank 5 on n4"; None when neither is known."""
    if rank is not None and host is not None:
        return f"rank {rank} on {clean(host, 100)}"
    if rank is not None:
        return f"rank {rank} (host not known)"
    return f"host {clean(host, 100)}" if host is not None else None


def source_place(source: str, host: str | None, file: str, line: int | None) -> str:
    """ "kernel log of n4, n4/dmesg.txt line 812": where a line stands."""
    of = f" of {clean(host, 100)}" if host else ""
    at = f" line {line}" if line is not None else ""
    return f"{clean(source, 100)}{of}, {clean(file, 300)}{at}"
