"""What makes a failure the same one as in another job: without hosts, ranks, pids, paths, numbers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from firstfault.model.fault import Fault

VERSION = 1
_HEX = re.compile(r"0x[0-9a-fA-F]+")
# Names that a program makes up: UUIDs, hashes, mkdtemp's. Words of letters alone stay.
_MADE_UP = re.compile(
    r"(?<![A-Za-z0-9])(?=[a-z_-]{0,40}\d)[0-9a-f]{6,40}(?:-[0-9a-f]{4,12}){0,4}(?![A-Za-z0-9])"
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_PATH = re.compile(r"(?:/[\w.@+-]+)+/")
_TEMPORARY = re.compile(r"\btmp[a-z0-9_]{6,10}\b")
_LONGEST = 500


def fingerprint(cause: str, roots: Sequence[Fault], hosts: Iterable[str]) -> str | None:
    """``VERSION:digest``, equal for the same failure in another job; None for no failure.

    ``hosts`` are the names that the evidence knows: in a message they count as one.
    """
    if cause == "none":
        return None
    parts = [cause]
    if roots:
        first = roots[0]
        facts = dict(first.facts)
        parts += [facts.get(name, "") for name in ("library", "exit_code", "signal")]
        parts.append("worker" if "worker" in facts else "")
        parts.append(plain(facts.get("frame", "").rpartition(":")[0], hosts))
        if first.exception is not None:
            parts.append((first.exception.type or "").rpartition(".")[2])
            parts.append((first.exception.file or "").rpartition("/")[2])
            parts.append(plain(first.exception.message or "", hosts))
    digest = hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{VERSION}:{digest[:16]}"


def plain(message: str, hosts: Iterable[str]) -> str:
    """A message's first line without what differs from job to job."""
    text = message.split("\n")[0][:_LONGEST]
    for host in sorted({*hosts, *(host.partition(".")[0] for host in hosts)}, key=len)[::-1]:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "HOST", text)
    text = _TEMPORARY.sub("TMP", _PATH.sub("/", text))
    return _NUMBER.sub("0", _MADE_UP.sub("ID", _HEX.sub("0", text)))
