"""The words of a report: labels, times, places, counts, and how hostile text is made harmless.

Everything that a report says in more than one form (page, terminal, message) is worded here,
so that the forms cannot drift apart.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")

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


class Group(NamedTuple):
    """Consequences of one kind: ``of`` is what a verdict calls many of them, ``did`` what stands
    after "ranks 0-3"."""

    of: str
    did: str


# By what a time line says of one of them. Those that no rank is known of are counted as ``of``.
GROUPS = {
    "lost a peer": Group("ranks that lost a peer", "lost a peer"),
    "waited in vain for its peers": Group(
        "ranks that waited in vain for their peers", "waited in vain for their peers"
    ),
    "was told to stop": Group("processes that were told to stop", "were told to stop"),
    "was ended by its agent": Group("ranks that their agent ended", "were ended by their agent"),
    "got SIGTERM": Group("ranks that got SIGTERM", "got SIGTERM"),
    "the agent was told to stop": Group(
        "agents that were told to stop", "had agents that were told to stop"
    ),
    "the step was ended": Group("notes that the step was ended", "saw the step being ended"),
    "srun noted the end of a task": Group("tasks whose end srun noted", "ended, as srun noted"),
    "the launcher reported its failed ranks": Group(
        "launchers' own reports", "stand in the launcher's report"
    ),
    "failed as the job was ended": Group(
        "processes that failed as the job was ended", "failed as the job was ended"
    ),
    "failed the same way later": Group(
        "ranks that failed the same way later", "failed the same way later"
    ),
    "ended with an error that was not captured": Group(
        "ranks whose own words were not captured", "ended with errors that were not captured"
    ),
}

# Causes for which no rank is first: something outside ended the whole job.
WHOLE_JOB = frozenset({"slurm.time-limit", "slurm.cancelled", "slurm.preempted"})

_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_NAMED = {"\n": "\\n", "\r": "\\r", "\x00": "\\0", "\x1b": "\\e", "\t": "    "}
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that show nothing, or change how wide what stands before them is shown: fillers
# and variation selectors (https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point).
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)


def visible(text: str) -> str:
    """``text`` on one line, with nothing in it that could steer a terminal or the reader's eye.

    Colour sequences are dropped (what they hid is then seen); control characters, bidi and
    zero-width characters, line breaks and lone surrogates are spelled out (``\\e``, ``\\u202e``).
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _spelled(char)
        if unicodedata.category(char) in _HIDDEN or _BLANK.match(char)
        else _spaced(char)
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


# A time that carries no zone is a local one, as a log prints it.
def _zone(at: dt.datetime) -> str:
    return "local time" if at.tzinfo is None else "UTC"


def moment(at: dt.datetime) -> str:
    """ "2026-11-30 15:56:25.422 UTC": the digits that are there, in UTC or, where ``at`` carries
    no zone, in local time."""
    return f"{_digits(at)} {_zone(at)}"


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
    return f"{first} to {last} {_zone(latest)}"


def clock(earliest: dt.datetime | None, latest: dt.datetime | None, dated: bool = False) -> str:
    """A short time for a list: without its day unless ``dated``, "" when nothing is known."""
    at = earliest or latest
    if at is None:
        return ""
    digits = _digits(at) if dated else _digits(at)[11:]
    return digits if earliest is not None else f"≤ {digits}"


def about(earliest: dt.datetime | None, latest: dt.datetime | None) -> str | None:
    """When something happened, as one says it: "2026-11-30 19:08:30.995 UTC ± 1 ms"."""
    if earliest is None or latest is None or (latest - earliest).total_seconds() >= 1:
        return span(earliest, latest)
    half = (latest - earliest) / 2
    middle = _in_utc(earliest + half).isoformat(sep=" ", timespec="milliseconds")
    said = f"{middle[:23].removesuffix('.000')} {_zone(earliest)}"
    milliseconds = half.total_seconds() * 1e3
    return said if milliseconds < 1 else f"{said} ± {milliseconds:.0f} ms"


def short_clock(at: dt.datetime) -> str:
    """The time of day in UTC, to the millisecond: "19:08:30.993"."""
    digits = at.astimezone(dt.UTC).strftime("%H:%M:%S.%f")[:12]
    return digits.removesuffix(".000")


def apart(seconds: float) -> str:
    """How much later, in two units at most: "+0.4 s", "+35 s", "+12 min 5 s", "−3 h 10 min"."""
    sign = "−" if seconds < 0 else "+"
    size = abs(seconds)
    if size < 0.0005:
        return f"{sign}0 s"
    if size < 0.1:
        return f"{sign}{size * 1e3:.0f} ms"
    if size < 9.95:
        return f"{sign}{size:.1f} s".replace(".0 s", " s")
    whole = round(size)
    for large, name, small, unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= large:
            rest = whole % large // small
            return f"{sign}{whole // large} {name}" + (f" {rest} {unit}" if rest else "")
    minutes, rest = divmod(whole, 60)
    if not minutes:
        return f"{sign}{rest} s"
    return f"{sign}{minutes} min" + (f" {rest} s" if rest else "")


def _in_utc(at: dt.datetime) -> dt.datetime:
    return at if at.tzinfo is None else at.astimezone(dt.UTC)


def _digits(at: dt.datetime) -> str:
    text = _in_utc(at).isoformat(sep=" ", timespec="microseconds")[:26]
    return text.removesuffix("000").removesuffix(".000")


def mebibytes(kib: int) -> str:
    """KiB as "1,759 MiB", from 10,240 MiB on "121.4 GiB"."""
    if kib < 1024:
        return f"{number(kib)} KiB"
    if kib >= 10 * 1024**2:
        return f"{kib / 1024**2:,.1f} GiB"
    return f"{number(kib // 1024)} MiB"


def ranges(values: Iterable[int]) -> str:
    """ "0-4,6-7" for the whole numbers given."""
    parts: list[tuple[int, int]] = []
    for value in sorted(set(values)):
        if parts and value == parts[-1][1] + 1:
            parts[-1] = (parts[-1][0], value)
        else:
            parts.append((value, value))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def listed(values: Sequence[T], limit: int, say: Callable[[T], str] = str) -> str:
    """ "a, b, c and 9 more"; only those that are named are put into words."""
    shown = ", ".join(say(value) for value in values[:limit])
    more = len(values) - limit
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
