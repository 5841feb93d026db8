"""torch's flight recorder: which collectives a rank had begun and completed, by process group.

Formats: torch 2.4 to 2.13, csrc/distributed/c10d/FlightRecorder.hpp and FlightRecorderDetail.hpp,
before 2.6 NCCLUtils.hpp (versions 2.3 to 2.10 of the dump): a pickled dictionary with "pg_config",
"pg_status" and "entries", or the same as JSON. A dump does not say whose it is: its file's name ends in the global rank
(``nccl_trace_rank_3``, ``comm_lib_trace_rank_3``). Numbers of process groups are counted by each
process, their names are the same everywhere; which is which, the entries tell.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from firstfault.model.document import Document
from firstfault.model.event import RecordedWork, WorkStatus
from firstfault.model.line import Place, Speaker
from firstfault.readers.pickled import NotPlain, plain
from firstfault.readers.times import epoch

PICKLED = b"\x80\x02}"
"""How a pickled dump begins (protocol 2, an empty dictionary)."""

# Of a larger one only the beginning is read: it says how far the rank had come.
_MOST = 4 << 20
_HEAD = 4_096
_KEYS = (b"pg_status", b"entries")
_RANK = re.compile(r"rank[_-]?(\d{1,7})(?:\.\w{1,12}){0,2}$")
_DEFAULT = "default_pg"
# The last collectives are those that somebody waits for.
_LAST = 64
_SIZES = 8
_TORCHS = re.compile(r"(?:^|/)torch/")
_NONE = -1
_MOST_NUMBER = 1 << 62


class _Entry(msgspec.Struct, frozen=True):
    """What is used of an entry; ``group`` is a process group's name and description."""

    number: int
    group: tuple[str, str]
    sequence: int
    name: str
    completed: bool
    sizes: tuple[tuple[int, ...], ...]
    at_ns: int
    called: str | None


def looks_like_dump(data: bytes) -> bool:
    """Whether ``data`` (a file's beginning at least) is a dump, pickled or as JSON."""
    if data.startswith(PICKLED):
        head = data[:_HEAD]
        return b"version" in head and any(key in head for key in _KEYS)
    return data.lstrip()[:1] == b"{" and b'"pg_status"' in data and b'"pg_config"' in data


def recorded(document: Document) -> tuple[WorkStatus | RecordedWork, ...]:
    """How far the dump's rank had come in each group, and its last collectives.

    Empty where the file's name tells no rank, or the dump cannot be read.
    """
    named = _RANK.search(document.name)
    top, whole = _load(document)
    if named is None or not isinstance(top, Mapping):
        return ()
    rank = int(named[1])
    speaker = Speaker(host=document.host, rank=rank)
    entries = [entry for each in _dicts(top.get("entries")) if (entry := _entry(each)) is not None]
    found: list[WorkStatus | RecordedWork] = []
    for number, (enqueued, completed) in sorted(_statuses(top, entries, whole=whole).items()):
        own = [entry for entry in entries if entry.number == number]
        group = _label(number, own, top)
        if group is None:
            continue
        last = own[-1] if own and whole else None
        place = Place(document.name, 0, None, _told(group, enqueued, completed, last))
        begun = None if last is None else _moment(last.at_ns)
        found.append(WorkStatus(place, speaker, group, rank, enqueued, completed, begun))
        if whole:
            found += [_work(document, speaker, group, entry) for entry in own[-_LAST:]]
    return tuple(found)


# The dump, and whether all of it was read.
def _load(document: Document) -> tuple[Any, bool]:
    data = document.excerpts[0].data[:_MOST] if document.excerpts else b""
    if not data or document.excerpts[0].offset != 0:
        return None, False
    try:
        if data.startswith(PICKLED):
            value, whole = plain(data)
            return value, whole and document.complete
        return msgspec.json.decode(data), document.complete
    except (NotPlain, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, False


def _dicts(value: Any) -> Iterable[Mapping[str, Any]]:
    return (each for each in value if isinstance(each, Mapping)) if isinstance(value, list) else ()


def _entry(each: Mapping[str, Any]) -> _Entry | None:
    group = each.get("process_group")
    number, sequence = _number(each.get("pg_id")), _number(each.get("collective_seq_id"))
    name = each.get("profiling_name")
    if number is None or sequence is None or not isinstance(name, str):
        return None
    if not (isinstance(group, list | tuple) and [type(part) for part in group] == [str, str]):
        return None
    if each.get("is_p2p") is True:
        return None
    return _Entry(
        number=number,
        group=(group[0][:200], group[1][:200]),
        sequence=sequence,
        name=name[:100],
        completed=each.get("state") == "completed",
        sizes=_sizes(each.get("input_sizes")),
        at_ns=_number(each.get("time_created_ns")) or 0,
        called=_caller(each.get("frames")),
    )


# JSON has numbers of statuses as texts.
def _number(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
        value = int(value)
    sane = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST_NUMBER
    return value if sane else None


def _sizes(value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list):
        return ()
    return tuple(
        tuple(size for size in each[:_SIZES] if _number(size) is not None)
        for each in value[:_SIZES]
        if isinstance(each, list)
    )


# The program's own line that called it: the first that is not torch's.
def _caller(frames: Any) -> str | None:
    for frame in _dicts(frames[:64] if isinstance(frames, list) else None):
        file, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
        if not isinstance(file, str) or not isinstance(name, str) or _number(line) is None:
            return None
        if not _TORCHS.search(file):
            return f"{name[:60]} at {file[-200:]}:{line}"
    return None


# The last collectives that were begun and completed, by the group's number in this process.
def _statuses(
    top: Mapping[str, Any], entries: list[_Entry], *, whole: bool
) -> dict[int, tuple[int, int]]:
    status = top.get("pg_status")
    found: dict[int, tuple[int, int]] = {}
    for key, each in status.items() if isinstance(status, Mapping) else ():
        number = _number(key)
        enqueued = _number(each.get("last_enqueued_collective")) if _is_map(each) else None
        completed = _number(each.get("last_completed_collective")) if _is_map(each) else None
        if number is not None and enqueued is not None and completed is not None:
            found[number] = (enqueued, completed)
    if found or not whole:
        return found
    # A dump may have been made without.
    for entry in entries:
        enqueued, completed = found.get(entry.number, (_NONE, _NONE))
        done = entry.sequence if entry.completed else _NONE
        found[entry.number] = (max(enqueued, entry.sequence), max(completed, done))
    return found


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)


# A group is the same on two ranks where name, description and members are.
def _label(number: int, own: list[_Entry], top: Mapping[str, Any]) -> str | None:
    if not own and number != 0:
        return None
    # Each process makes the default group first.
    name, described = own[-1].group if own else ("", _DEFAULT)
    if described == _DEFAULT:
        return _DEFAULT
    config = top.get("pg_config")
    members = config.get(name) if isinstance(config, Mapping) else None
    ranks = members.get("ranks") if isinstance(members, Mapping) else None
    shown = f" of ranks {ranks[:200]}" if isinstance(ranks, str) and ranks != "[]" else ""
    return f"{name}({described}){shown}"


def _told(group: str, enqueued: int, completed: int, last: _Entry | None) -> str:
    what = "" if last is None else f" ({last.name}"
    if last is not None:
        what += f", called by {last.called})" if last.called else ")"
    return (
        f"process group {group}: last collective begun {enqueued}{what}, last completed {completed}"
    )


def _work(document: Document, speaker: Speaker, group: str, entry: _Entry) -> RecordedWork:
    sizes = "x".join(map(str, entry.sizes[0])) if entry.sizes else ""
    by = f", called by {entry.called}" if entry.called else ""
    text = f"process group {group}: collective {entry.sequence} is {entry.name} {sizes}".rstrip()
    return RecordedWork(
        Place(document.name, 0, None, text + by),
        speaker,
        group,
        entry.sequence,
        entry.name,
        entry.sizes,
    )


def _moment(ns: int) -> dt.datetime | None:
    return epoch(ns // 1_000_000_000) if ns > 0 else None
