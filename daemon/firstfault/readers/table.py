"""torchelastic's ChildFailedError tables, of torch 1.9 to 2.13.

Format as in torch/distributed/elastic/multiprocessing/errors/__init__.py
(``ChildFailedError.format_msg``): torch 1.9 prints the root first and no host; later ones print
"Failures:" and then "Root Cause (first observed failure):".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.model.event import TableEntry
from firstfault.model.line import Line, Place, Span
from firstfault.readers.times import Zone, within_second

_ORDINAL = re.compile(r"\s*\[(\d{1,6})\]:\s*$")
_FIELD = re.compile(r"\s*(time|host|rank|exitcode|error_file|traceback|msg)\s*: ?(.*)$", re.DOTALL)
_RANK = re.compile(r"(\d{1,7}) \(local_rank: (\d{1,6})\)\s*$")
_EXIT = re.compile(r"(-?\d{1,6}) \(pid: (\d{1,10})\)\s*(?:\((SIG\w+)\))?\s*$")
_ERROR_LINE = re.compile(
    r"(?:  )?([A-Za-z_][\w.]{0,200}: .*|(?:[\w.]{1,200}\.)?[A-Z]\w{0,100})$", re.DOTALL
)
_SIGNAL = re.compile(r"Signal \d{1,3} \(SIG\w{1,20}\) received by PID ")
_STACK_LINE = re.compile(r" {4}|\s*File \"")
_BORDER = re.compile(r"\s*([=*]{20,}|-{20,})\s*$")
# What no other program writes: with it a table begins whose head was cut off.
_CUT_HEAD = re.compile(r" {0,4}rank {6}: \d{1,7} \(local_rank: \d{1,6}\)\s*$")
_NO_FILE = ("", "<N/A>")
# Each line that begins a table, or is of one whose head was cut off, has one of these.
WORDS = ("Failures:", "Root Cause", "(local_rank:")


class TableReader:
    """Takes one stream's lines and gives the entries of its failure tables.

    `active` tells that the last line belonged to a table: a traceback in one is the table's, not
    the stream's. Of entries that two agents wrote into one another, nothing is told.
    """

    def __init__(self) -> None:
        self.active = False
        self._open = False
        self._table = 0
        self._host: str | None = None
        self._root = False
        self._root_first = False
        self._fields: dict[str, str] = {}
        self._mixed = False
        self._indented = False
        self._in_stack = False
        self._place: Place | None = None
        self._told_at: Place | None = None
        self._last: Line | None = None

    @property
    def idle(self) -> bool:
        """Whether a line without `WORDS` is nothing to it."""
        return not self._open

    def feed(self, line: Line, zone: Zone) -> Iterator[TableEntry]:
        """The entries that ``line`` ends."""
        text = line.text
        stripped = text.strip()
        if stripped in ("Failures:", "Other Failures:") or stripped.startswith("Root Cause"):
            yield from self._end(zone)
            self._begin(stripped)
            return
        if not self._open and _CUT_HEAD.match(text):
            self._begin("")
            self._fields = {"ordinal": ""}
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
            # An entry that another one's beginning cuts short was two agents' at once.
            mixed = bool(self._fields) and not self._is_whole()
            yield from self._end(zone)
            self._fields, self._mixed = {"ordinal": stripped}, mixed
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
        # Where the heading is a table's first one, another agent's may begin within this one.
        if not self._open or heading in ("Failures:", "Root Cause:"):
            self._table += 1
            self._host = None
            # torch 1.9 prints the root first, the others after a border that ends later tables.
            self._root_first = heading == "Root Cause:"
        self._open = self.active = True

    def _is_whole(self) -> bool:
        return "traceback" in self._fields or "msg" in self._fields

    def _is_foreign(self, text: str) -> bool:
        if text.startswith(("srun: ", "slurmstepd")):
            return True
        if not self._is_whole() or not text or _ORDINAL.match(text) or _BORDER.match(text):
            return False
        # An entry's last field is through and the line has lost the entry's indent, or the entry
        # has none and no stack that goes on: a cut table.
        if self._indented:
            return not text[0].isspace()
        return not self._fields.get("traceback", "").startswith("Traceback ")

    def _take(self, line: Line) -> None:
        match = None if self._is_whole() else _FIELD.match(line.text)
        if match is None:
            if "traceback" in self._fields:
                # An exception's line follows its stack; a message's further lines do not.
                if self._in_stack and (error := _ERROR_LINE.match(line.text)):
                    self._fields["error"] = error[1]
                    self._told_at = line.place
                self._in_stack = bool(_STACK_LINE.match(line.text))
            return
        self._in_stack = False
        self._mixed = self._mixed or match[1] in self._fields
        self._fields[match[1]] = match[2]
        self._indented = line.text[0].isspace()
        if match[1] == "exitcode":
            self._place = line.place
        elif match[1] == "msg" or (match[1] == "traceback" and _SIGNAL.match(match[2])):
            self._told_at = line.place

    def _end(self, zone: Zone) -> Iterator[TableEntry]:
        fields, place, last, mixed = self._fields, self._place, self._last, self._mixed
        told_at = self._told_at
        self._fields, self._place, self._told_at, self._mixed = {}, None, None, False
        rank = _RANK.match(fields.get("rank", ""))
        status = _EXIT.match(fields.get("exitcode", ""))
        if rank is None or status is None or place is None or last is None or mixed:
            return
        second = within_second(fields.get("time", ""), zone)
        error_file = fields.get("error_file", "").strip()
        error = fields.get("error") or _message(fields.get("msg", ""), error_file)
        host = _host(fields.get("host", ""))
        if host is not None and self._host not in (None, host):
            # One agent has one host.
            self._table += 1
        self._host = host or self._host
        yield TableEntry(
            place=place,
            speaker=last.speaker,
            at=None if second is None else Span(None, second.latest),
            table=self._table,
            root=self._root,
            host=host,
            rank=int(rank[1]),
            local_rank=int(rank[2]),
            exit_code=int(status[1]),
            pid=int(status[2]),
            error_file=None if error_file in _NO_FILE else error_file,
            error=error,
            told_at=told_at if error or int(status[1]) < 0 else None,
        )


def _host(text: str) -> str | None:
    name = text.strip()
    unknown = name in ("", "localhost", "<N/A>") or name.startswith("localhost.")
    return None if unknown else name


# torch 1.9 prints no stack; what a recorded error says is its message.
def _message(text: str, error_file: str) -> str | None:
    if error_file in _NO_FILE:
        return None
    match = _ERROR_LINE.match(text.strip().strip('"'))
    return match[1] if match else None
