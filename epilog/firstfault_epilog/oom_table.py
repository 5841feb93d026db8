"""The kernel's table of tasks at an OOM kill, without other users' processes.

One row stands for all of them: what they held together. The job owner's own rows stay, and those
of the system (uids below `SYSTEM_UIDS`), which are nobody's private matter. Columns: mm/oom_kill.c,
``dump_tasks`` and ``dump_task``, of Linux 2.6.32 to 6.18; the first is the pid, the next the uid,
the last the name.
"""

import re
from typing import List, NamedTuple, Optional, Sequence, Tuple

from firstfault_epilog.kernel import Line

# From login.defs(5): UID_MIN.
SYSTEM_UIDS = 1000
# Whose row it is, so that nobody takes it for root's or the owner's.
NOBODY = b"65534"
_TITLE = re.compile(rb"\[ {1,6}pid {1,6}\] {1,8}(uid .{1,300} name)\Z")
_ROW = re.compile(rb"\[ {0,12}([0-9]{1,10})\] {1,12}([0-9]{1,10}) ")
_OVER = re.compile(rb"oom-kill:|Killed process |invoked oom-killer: |Out of memory")
_SUMMED = re.compile(rb"total_vm|rss.*|pgtables_bytes|nr_.*|swapents")


# Other users' rows of one table: the columns, and the rows' indices.
class _Table(NamedTuple):
    columns: Tuple[bytes, ...]
    rows: List[int]


def reduced(lines: Sequence[Line], uid: Optional[int]) -> List[Line]:
    """``lines`` with other users' rows of each table as one; ``uid`` is the job owner's."""
    result: List[Optional[Line]] = list(lines)
    for table in _tables(lines, uid):
        sum_at, row = _sum(lines, table)
        for index in table.rows:
            result[index] = None
        if row is not None:
            result[sum_at] = row
    return [line for line in result if line is not None]


def _tables(lines: Sequence[Line], uid: Optional[int]) -> List[_Table]:
    tables: List[_Table] = []
    current: Optional[_Table] = None
    for index, line in enumerate(lines):
        title = _TITLE.match(line.text)
        if title is not None:
            current = _Table(tuple(title.group(1).split()), [])
            tables.append(current)
        elif current is not None:
            row = _ROW.match(line.text)
            if row is None:
                if _OVER.search(line.text):
                    current = None
            elif int(row.group(2)) >= SYSTEM_UIDS and int(row.group(2)) != uid:
                current.rows.append(index)
    return [table for table in tables if table.rows]


# Where the row with the sums goes, and the row. It takes the place of the longest run of rows
# that stand together, so that it is not longer than what it stands for.
def _sum(lines: Sequence[Line], table: _Table) -> Tuple[int, Optional[Line]]:
    sums = [0] * len(table.columns)
    for index in table.rows:
        text = lines[index].text
        values = text[text.index(b"]") + 1 :].split(None, len(table.columns) - 1)
        for number, (column, value) in enumerate(zip(table.columns, values)):  # noqa: B905 (3.10)
            if _SUMMED.match(column) and value.isdigit():
                sums[number] += int(value)
    fields = [b"%d" % each for each in sums]
    fields[0] = NOBODY
    begin, room = _longest_run(lines, table.rows)
    line = lines[begin]
    head = line.data[: line.data.index(b";") + 1]
    for name in (b"others(%d)" % len(table.rows), b"x"):
        text = b"[0] " + b" ".join([*fields[:-1], name])
        data = head + text + b"\n"
        if len(data) <= room:
            return begin, line._replace(data=data, text=text)
    return begin, None


# The first row's index, and the bytes of all.
def _longest_run(lines: Sequence[Line], rows: Sequence[int]) -> Tuple[int, int]:
    best = (rows[0], 0)
    begin, size, last = rows[0], 0, rows[0] - 1
    for index in rows:
        if index != last + 1:
            begin, size = index, 0
        size += len(lines[index].data)
        last = index
        if size > best[1]:
            best = (begin, size)
    return best
