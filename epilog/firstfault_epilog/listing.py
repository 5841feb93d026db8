"""Listing a stranger's folders, and the frames that say what could not be read."""

import errno
import os
from typing import Any, Callable, Dict, Iterator, List, Optional

from firstfault_epilog.patterns import Path

Send = Callable[[Dict[str, Any]], None]

LISTED_MAX = 20000


def existing(place: Path, send: Send) -> Iterator[str]:
    """What is there under the names of ``place``; a folder that cannot be listed is sent."""
    found = ["/"]
    for part in place.parts:
        following: List[str] = []
        for folder in found:
            if isinstance(part, str):
                following.append(os.path.join(folder, part))
                continue
            try:
                following.extend(
                    os.path.join(folder, name) for name in names(folder) if part.match(name)
                )
            except OSError as error:
                # A stranger's private folder is no news either.
                if error.errno not in (errno.EACCES, errno.ENOENT, errno.ENOTDIR):
                    send(refused("rank-log", folder, error))
        found = following[:LISTED_MAX]
    # An exact name is tried even where it is not there: the attempt says why.
    return (path for path in found if os.path.lexists(path))


def names(folder: str) -> List[str]:
    """Names in a folder, in order, at most `LISTED_MAX`. Raises OSError."""
    found = []
    with os.scandir(folder) as listing:
        for item in listing:
            found.append(item.name)
            if len(found) >= LISTED_MAX:
                break
    return sorted(found)


def refused(what: str, path: str, error: OSError) -> Dict[str, Any]:
    """The frame that says that a file could not be read."""
    reason = errno.errorcode.get(error.errno or 0, "EIO")
    detail = (
        "a symbolic link is not followed" if reason == "ELOOP" else os.strerror(error.errno or 5)
    )
    return coverage(what, path, "none", reason, detail)


def coverage(
    what: str, path: Optional[str], state: str, reason: Optional[str], detail: Optional[str]
) -> Dict[str, Any]:
    """The frame for a row of coverage."""
    return {
        "kind": "coverage",
        "what": what,
        "path": None if path is None else shown(path),
        "state": state,
        "reason": reason,
        "detail": detail,
    }


def shown(path: str) -> str:
    """A path as text; bytes that are not UTF-8 become ``\\xNN``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")[:4096]
