"""torchelastic: its agent's lines (four layouts since torch 1.9) and ChildFailedError tables.

Formats as in torch 1.9 to 2.13, torch/distributed/elastic/multiprocessing/api.py (log lines)
and errors/__init__.py (``ChildFailedError.format_msg``).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

from firstfault.model.event import (
    AgentSignalled,
    ClosingSignal,
    ExitNoticed,
    TableEntry,
)
from firstfault.model.line import Line, Place, Span
from firstfault.readers.times import Zone, glog, moment, noticed, within_second

_GLOG = re.compile(
    r"[VIWEFC](?P<day>\d{4}) (?P<clock>\d\d:\d\d:\d\d\.\d{3,9}) +(?P<pid>\d+) (?P<path>[^\]]{1,512})\] "
)
_BRACKETED = re.compile(r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] [\w.]+: \[[A-Z]+\] ")
_FAILED = re.compile(
    r"failed \(exitcode: (-?\d{1,6})\) local_rank: (\d{1,6}) \(pid: (\d{1,10})\) of (?:binary|fn): "
)
_CLOSING = re.compile(r"Sending process (\d{1,10}) closing signal SIG[A-Z]+")
_FORCED = re.compile(r"Unable to shutdown process (\d{1,10}) via \S+, forcefully exitt?ing via ")
_DEATH = re.compile(r"Received (?:Signals\.)?(\w{1,12}) death signal, shutting down workers")
# torch.distributed.launch before torch 1.9.
_OLD_DEATH = re.compile(r"Main process received SIGTERM, exiting\s*$")
_OLD_CLOSING = re.compile(r"Killing subprocess (\d{1,10})\s*$")
_EXCEPTION_SIGNAL = re.compile(r"SignalException: Process (\d{1,10}) got signal: (\d{1,3})")
_SIGNAL_NUMBERS = {"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGTERM": 15}

_ORDINAL = re.compile(r"\s*\[(\d{1,6})\]:\s*$")
_FIELD = re.compile(r"\s*(time|host|rank|exitcode|error_file|traceback|msg)\s*: ?(.*)$", re.DOTALL)
_RANK = re.compile(r"(\d{1,7}) \(local_rank: (\d{1,6})\)\s*$")
_EXIT = re.compile(r"(-?\d{1,6}) \(pid: (\d{1,10})\)\s*(?:\((SIG\w+)\))?\s*$")
_ERROR_LINE = re.compile(
    r"(?:  )?([A-Za-z_][\w.]{0,200}: .*|(?:[\w.]{1,200}\.)?[A-Z]\w{0,100})$", re.DOTALL
)
_STACK_LINE = re.compile(r" {4}|\s*File \"")
_BORDER = re.compile(r"\s*([=*]{20,}|-{20,})\s*$")


def agent_event(line: Line, zone: Zone) -> ExitNoticed | ClosingSignal | AgentSignalled | None:
    """The event in one line of an agent, None for any other line."""
    text = line.text
    at: dt.datetime | None = None
    agent_pid = None
    if match := _GLOG.match(text):
        at = glog(match["day"], match["clock"], zone)
        # Before torch 2.4 the number is a thread id (15 digits), not a pid.
        agent_pid = int(match["pid"]) if len(match["pid"]) <= 8 else None
    elif match := _BRACKETED.match(text):
        at = moment(match["time"], zone)
    if match := _FAILED.search(text):
        return ExitNoticed(
            line.place,
            line.speaker,
            noticed(at),
            int(match[1]),
            int(match[2]),
            int(match[3]),
            agent_pid,
        )
    span = None if at is None else Span(at, at)
    if match := _CLOSING.search(text):
        return ClosingSignal(line.place, line.speaker, span, int(match[1]), False)
    if match := _FORCED.search(text):
        return ClosingSignal(line.place, line.speaker, span, int(match[1]), True)
    if match := _OLD_CLOSING.match(text):
        return ClosingSignal(line.place, line.speaker, None, int(match[1]), False)
    if _OLD_DEATH.match(text):
        return AgentSignalled(line.place, line.speaker, None, 15)
    if match := _DEATH.search(text):
        return AgentSignalled(line.place, line.speaker, span, _signal_number(match[1]))
    if match := _EXCEPTION_SIGNAL.search(text):
        return AgentSignalled(line.place, line.speaker, None, int(match[2]))
    return None


def _signal_number(word: str) -> int:
    return int(word) if word.isdigit() else _SIGNAL_NUMBERS.get(word, 0)


class TableReader:
    """Takes one stream's lines and gives the entries of its failure tables.

    `active` tells that the last line belonged to a table: a traceback in one is the table's, not
    the stream's.
    """

    def __init__(self) -> None:
        self.active = False
        self._open = False
        self._table = 0
        self._root = False
        self._root_first = False
        self._fields: dict[str, str] = {}
        self._indented = False
        self._in_stack = False
        self._place: Place | None = None
        self._last: Line | None = None

    def feed(self, line: Line, zone: Zone) -> Iterator[TableEntry]:
        """The entries that ``line`` ends."""
        text = line.text
        stripped = text.strip()
        if stripped in ("Failures:", "Other Failures:") or stripped.startswith("Root Cause"):
            yield from self._end(zone)
            self._begin(stripped)
            return
        if not self._open:
            self.active = False
            return
        # srun and other programs may write between a table's lines.
        self.active = not self._is_foreign(text)
        if not self.active:
            return
        self._last = line
        if _BORDER.match(text):
            yield from self._end(zone)
            # The table ends at the border that closes its last section.
            closes = stripped[0] == "*" or (
                self._root and stripped[0] == "=" and not self._root_first
            )
            self._open = not closes
        elif _ORDINAL.match(text):
            yield from self._end(zone)
            self._fields = {"ordinal": stripped}
        elif self._fields:
            self._take(line)
        elif stripped != "<NO_OTHER_FAILURES>":
            # Not a table after all, or one that was cut: do not swallow what follows.
            self._open = self.active = False

    def flush(self, zone: Zone) -> Iterator[TableEntry]:
        """The entry that the end of the stream ends."""
        yield from self._end(zone)
        self._open = self.active = False

    def _begin(self, heading: str) -> None:
        self._root = heading.startswith("Root Cause")
        if not self._open:
            self._table += 1
            # torch 1.9 prints the root first, the others after a border that ends later tables.
            self._root_first = heading == "Root Cause:"
        self._open = self.active = True

    def _is_foreign(self, text: str) -> bool:
        if text.startswith(("srun: ", "slurmstepd")):
            return True
        # An entry's last field is through and the line has lost the entry's indent: a cut table.
        told = "traceback" in self._fields or "msg" in self._fields
        bare = bool(text) and not text[0].isspace()
        return (
            told
            and self._indented
            and bare
            and not _ORDINAL.match(text)
            and not _BORDER.match(text)
        )

    def _take(self, line: Line) -> None:
        match = None if "traceback" in self._fields else _FIELD.match(line.text)
        if match is None:
            if "traceback" in self._fields:
                # An exception's line follows its stack; a message's further lines do not.
                if self._in_stack and (error := _ERROR_LINE.match(line.text)):
                    self._fields["error"] = error[1]
                self._in_stack = bool(_STACK_LINE.match(line.text))
            return
        self._in_stack = False
        self._fields[match[1]] = match[2]
        self._indented = line.text[0].isspace()
        if match[1] == "exitcode":
            self._place = line.place

    def _end(self, zone: Zone) -> Iterator[TableEntry]:
        fields, place, last = self._fields, self._place, self._last
        self._fields, self._place = {}, None
        rank = _RANK.match(fields.get("rank", ""))
        status = _EXIT.match(fields.get("exitcode", ""))
        if rank is None or status is None or place is None or last is None:
            return
        second = within_second(fields.get("time", ""), zone)
        host = fields.get("host", "").strip()
        error_file = fields.get("error_file", "").strip()
        yield TableEntry(
            place=place,
            speaker=last.speaker,
            at=None if second is None else Span(None, second.latest),
            table=self._table,
            root=self._root,
            host=None
            if host in ("", "localhost", "<N/A>") or host.startswith("localhost.")
            else host,
            rank=int(rank[1]),
            local_rank=int(rank[2]),
            exit_code=int(status[1]),
            pid=int(status[2]),
            error_file=None if error_file in ("", "<N/A>") else error_file,
            error=fields.get("error"),
        )
