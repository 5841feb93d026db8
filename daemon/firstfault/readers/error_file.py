"""torchrun's error.json, written by ``@record`` in a rank that dies of an exception.

``{"message": {"message": "T: text", "extraInfo": {"py_callstack": ..., "timestamp": "<epoch>"}}}``
(torch/distributed/elastic/multiprocessing/errors/error_handler.py); ``message`` may be a string.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from firstfault.model.document import Document
from firstfault.model.event import Traceback
from firstfault.model.line import Place, Span, Speaker
from firstfault.readers.python import parse_traceback, split_message
from firstfault.readers.times import epoch
from firstfault.streams.lines import run_folder

# The message stands first; the stack behind it is told line by line elsewhere.
_QUOTE = 600
# torch/_utils.py, ExceptionWrapper: what a DataLoader's worker or a replica raised, raised anew.
_CAUGHT = re.compile(r"Caught \w{1,100} in .{1,200}\.\nOriginal Traceback")
_TYPED = re.compile(r"([A-Za-z_][\w.]{0,200}): ?(.*)$", re.DOTALL)


def looks_like_error_file(data: bytes) -> bool:
    """Whether ``data`` (a whole file) is an error.json."""
    head = data[:200].lstrip()
    return head.startswith(b'{"message"') and _load(data) is not None


def error_file_event(document: Document) -> Traceback | None:
    """The exception in an error.json, None where the file is cut or not one."""
    data = b"".join(excerpt.data for excerpt in document.excerpts)
    loaded = _load(data)
    if loaded is None:
        return None
    message, info = loaded
    folder = run_folder(document.name)
    speaker = Speaker(
        host=document.host,
        local_rank=folder.local_rank if folder else None,
        run=folder.run if folder else None,
        attempt=folder.attempt if folder else None,
    )
    typed = _TYPED.match(message)
    parsed = parse_traceback(str(info.get("py_callstack", "")))
    frames, kind, text = parsed or ((), "", "")
    raised_anew = typed is not None and _CAUGHT.match(typed[2])
    if typed and not (raised_anew and parsed):
        # The message's own type is a bare name, the stack's is qualified: keep the stack's.
        text = typed[2]
        kind = kind if kind.rpartition(".")[2] == typed[1] else typed[1]
    elif parsed is None:
        text = message
    first, more = split_message(text)
    quote = data[:_QUOTE].decode("utf-8", "replace").split("\n")[0]
    return Traceback(
        place=Place(document.name, 0, 1, quote),
        speaker=speaker,
        at=_second(info.get("timestamp")),
        type=kind,
        message=first,
        frames=frames,
        recorded=True,
        more=more,
    )


def _load(data: bytes) -> tuple[str, dict[str, Any]] | None:
    try:
        top = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(top, dict) or "message" not in top:
        return None
    message = top["message"]
    if isinstance(message, str):
        return message, {}
    if not isinstance(message, dict) or not isinstance(message.get("message"), str):
        return None
    info = message.get("extraInfo")
    return message["message"], info if isinstance(info, dict) else {}


# The time is in whole seconds, cut, and taken after the exception was raised.
def _second(value: object) -> Span | None:
    try:
        start = epoch(int(str(value)))
        end = epoch(int(str(value)) + 1)
    except ValueError:
        return None
    return None if start is None or end is None else Span(start, end)
