"""What the kernel said before the node's last boot: a node that went down took its log with it.

| kept by | what |
|---|---|
| a persistent journal (/var/log/journal) | all that journald wrote before the node went down, often without the last words |
| pstore (/sys/fs/pstore, or /var/lib/systemd/pstore, to where systemd-pstore moves it) | the last words of a panic or an oops, kept by firmware or reserved memory (Documentation/admin-guide/ramoops.rst); parts, the last first: ``Panic#1 Part1``, then lines as ``dmesg --raw`` prints them |

Both tell the kernel's own microseconds, by which they are joined to one log for each boot.
"""

import os
import stat
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from firstfault_epilog import command, kernel
from firstfault_epilog.kernel_evidence import BEFORE_S

JOURNALCTL = ("/usr/bin/journalctl", "/bin/journalctl")
# Not "-k", which means the present boot alone.
_ARGUMENTS = ("_TRANSPORT=kernel", "-o", "json", "--no-pager", "-q", "-n", "10000")
DEADLINE_S = 10.0
JOURNAL_BYTES_MAX = 32 << 20
PSTORE = ("/sys/fs/pstore", "/var/lib/systemd/pstore")
PSTORE_DEPTH = 4
PSTORE_FILES_MAX = 256
PSTORE_FILE_BYTES_MAX = 1 << 20
PSTORE_BYTES_MAX = 8 << 20
# Files of one crash are written, or moved, within this time.
_ONE_CRASH_S = 120.0
# By so many of a boot's last lines its clock is found: it drifts.
_CLOCK_LINES = 200

# The kernel's microseconds and the text.
_Key = Tuple[int, bytes]


class Boot(NamedTuple):
    """The log of one earlier boot. ``offset_s`` is wall clock minus kernel clock.

    ``id`` and ``offset_s`` are None where nothing tells.
    """

    name: str
    id: Optional[str]
    offset_s: Optional[float]
    lines: Tuple[kernel.Line, ...]


class _Crash(NamedTuple):
    folder: str
    changed_at_s: float
    prefixes: Dict[_Key, int]


def read(since_s: float, boot_id: Optional[str], booted_at_s: float) -> List[Boot]:
    """What is left of the boots before ``boot_id`` (which began at ``booted_at_s``).

    ``since_s``: what is older does not matter. Times in seconds since 1970.
    """
    boots = _journal(since_s, boot_id)
    for crash in _crashes(since_s):
        offset_s = None
        if crash.changed_at_s < booted_at_s and crash.prefixes:
            # Written as it crashed, not moved after the boot.
            offset_s = crash.changed_at_s - max(crash.prefixes)[0] / 1e6
        index = _same_boot(boots, crash, offset_s)
        if index is None:
            rows = [(prefix, at, text) for (at, text), prefix in sorted(crash.prefixes.items())]
            boots.append(_boot(crash.folder, None, offset_s, rows))
        else:
            boots[index] = _joined(boots[index], crash)
    return boots


def _boot(
    name: str, boot_id: Optional[str], offset_s: Optional[float], rows: List[Tuple[int, int, bytes]]
) -> Boot:
    return Boot(name, boot_id, offset_s, kernel.parse(b"".join(kernel.numbered(rows))))


def _journal(since_s: float, boot_id: Optional[str]) -> List[Boot]:
    program = next((each for each in JOURNALCTL if os.access(each, os.X_OK)), None)
    if program is None:
        return []
    since = f"--since=@{int(since_s - BEFORE_S)}"
    printed = command.output((program, *_ARGUMENTS, since), DEADLINE_S, JOURNAL_BYTES_MAX)
    present = (boot_id or "").replace("-", "")
    by_boot: Dict[str, List[kernel.JournalRow]] = {}
    for row in kernel.journal_rows(printed.data):
        if row.boot and row.boot != present:
            by_boot.setdefault(row.boot, []).append(row)
    boots = []
    for name, rows in by_boot.items():
        # journald writes a line some time after it was said, never before.
        late = [row.written_at_s - row.microseconds / 1e6 for row in rows if row.written_at_s]
        offset_s = round(min(late[-_CLOCK_LINES:]), 6) if late else None
        dashed = "-".join((name[:8], name[8:12], name[12:16], name[16:20], name[20:]))
        taken = [(row.prefix, row.microseconds, row.text) for row in rows]
        boots.append(_boot(f"journalctl -k -b {name}", dashed, offset_s, taken))
    return boots


def _keys(boot: Boot) -> Set[_Key]:
    return {(line.microseconds, line.text) for line in boot.lines}


# The boot in whose journal lines of the crash stand, or whose clock began when the crash's did.
def _same_boot(boots: List[Boot], crash: _Crash, offset_s: Optional[float]) -> Optional[int]:
    for index, boot in enumerate(boots):
        if _keys(boot) & set(crash.prefixes):
            return index
    for index, boot in enumerate(boots):
        known = offset_s is not None and boot.offset_s is not None
        if known and abs((offset_s or 0.0) - (boot.offset_s or 0.0)) < _ONE_CRASH_S:
            return index
    return None


def _joined(boot: Boot, crash: _Crash) -> Boot:
    known = _keys(boot)
    rows = [(line.prefix, line.microseconds, line.text) for line in boot.lines]
    rows += [(prefix, *key) for key, prefix in crash.prefixes.items() if key not in known]
    # Stable: what was said in one microsecond keeps its order.
    rows.sort(key=lambda row: row[1])
    name = f"{boot.name} and {crash.folder}"
    return _boot(name, boot.id, boot.offset_s, rows)


def _crashes(since_s: float) -> List[_Crash]:
    found: List[_Crash] = []
    room = PSTORE_BYTES_MAX
    for path, changed_at_s in sorted(_pstore_files(since_s), key=lambda each: each[1]):
        data = _content(path, min(room, PSTORE_FILE_BYTES_MAX))
        room -= len(data)
        rows = kernel.dmesg_rows(data)
        top = next(top for top in PSTORE if path.startswith(top + "/"))
        if not rows:
            continue
        if not found or changed_at_s - found[-1].changed_at_s > _ONE_CRASH_S:
            found.append(_Crash(top, changed_at_s, {}))
        prefixes = found[-1].prefixes
        for prefix, microseconds, text in rows:
            prefixes.setdefault((microseconds, text), prefix)
        found[-1] = found[-1]._replace(changed_at_s=changed_at_s)
    return found


# ``dmesg.txt``, which systemd-pstore makes, holds the same once more.
def _pstore_files(since_s: float) -> List[Tuple[str, float]]:
    found: List[Tuple[str, float]] = []
    for top in PSTORE:
        for folder, folders, names in os.walk(top):
            if folder[len(top) :].count("/") >= PSTORE_DEPTH:
                folders.clear()
            for name in names:
                path = os.path.join(folder, name)
                try:
                    info = os.lstat(path)
                except OSError:
                    continue
                good = name.startswith("dmesg-") and not name.endswith(".z")
                if good and stat.S_ISREG(info.st_mode) and info.st_mtime >= since_s - BEFORE_S:
                    found.append((path, info.st_mtime))
    return found[:PSTORE_FILES_MAX]


def _content(path: str, size_max: int) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return file.read(size_max)
    except OSError:
        return b""
