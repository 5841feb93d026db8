"""What an exception's message names: a file, a module, a port, a host.

Formats: Python 3.8 to 3.14, Objects/exceptions.c (``[Errno N] words: 'path'``); HDF5 1.14,
H5FDsec2.c; torch 1.9 to 2.13, aten/src/ATen/MapAllocator.cpp and csrc/distributed/c10d/socket.cpp;
safetensors 0.4; py-lmdb 1.4.
"""

from __future__ import annotations

import re

_PATHS = (
    re.compile(r"\[Errno \d{1,3}\] [^:'\"]{1,200}: '([^'\r\n]{1,1024})'"),
    re.compile(r"\bname = '([^'\r\n]{1,1024})', errno = "),
    re.compile(r"\bfile(?:name)? [<'\"](\.{0,2}/[^>'\"\r\n]{1,1024})[>'\"]"),
    re.compile(r"^No such file or directory: \"([^\"\r\n]{1,1024})\""),
    re.compile(r"^(/[^:\r\n]{1,1024}): (?:No such file or directory|Permission denied)"),
    re.compile(r"^Parent directory (/\S{1,1024}) does not exist"),
    re.compile(r" found in directory (/\S{1,1024}?)\.?$"),
    re.compile(r"^(/\S{1,1024}) does not appear to have a file named "),
    re.compile(r"at the path prefix (/\S{1,1024})"),
)
# The names that torch gives to shared memory are no paths.
_SHARED = re.compile(r"/torch_\d")
_MODULE = re.compile(r"No module named '([\w.]{1,200})'")
_STORE = re.compile(r"(?:connect to|address(?:es)? of) \(([A-Za-z0-9][\w.-]{0,252}), (\d{1,5})\)")
_PORT = re.compile(
    r"\bport: (\d{1,5})\b|failed to (?:bind to|listen on) \S{1,255}:(\d{1,5})\b|on port `(\d{1,5})`"
)


def named(message: str) -> dict[str, str]:
    """The facts in an exception's message, by the names that remedies give them."""
    found: dict[str, str] = {}
    path = next((m[1] for each in _PATHS if (m := each.search(message))), None)
    if path is not None and not _SHARED.match(path):
        found["path"] = path
        folder = path.rpartition("/")[0]
        if folder:
            found["folder"] = folder
    if match := _MODULE.search(message):
        found["module"] = match[1]
    if match := _STORE.search(message):
        found["rdzv_host"] = match[1]
    if match := _PORT.search(message):
        found["port"] = next(group for group in match.groups() if group)
    return found
